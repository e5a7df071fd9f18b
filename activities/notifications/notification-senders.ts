import { RunbookError } from '../../src/errors';
import type { NotificationTarget } from '../../src/inventory';
import { addressMistake, readSecret } from '../../src/inventory';
import { requestOnce } from '../hooks/hook-call';
import type { Message } from './notification-texts';
import { chatText } from './notification-texts';

/** PagerDuty refuses longer ones. */
const PAGERDUTY_SUMMARY = 1_000;

/**
 * Sends one message to one target, once.
 *
 * @throws RunbookError whose text names neither address nor key, and repeats nothing that the target answered
 */
export async function send(target: NotificationTarget, message: Message, signal: AbortSignal): Promise<void> {
  const { caFile, timeoutMs } = target;
  const { url, body, headers } = await requestOf(target, message);
  // It would show what is sent to whoever listens on the way.
  if (addressMistake(url) !== undefined)
    throw new RunbookError('INSECURE_ADDRESS', 'Its address is not an https address.', { retryable: false });
  const sent = {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  } as const;
  const end = await requestOnce('notification target', { url, caFile, timeoutMs }, signal, sent);
  if ('code' in end) throw notSent(end.late ? `no answer within ${timeoutMs / 1000} s` : end.code, true);
  if (end.status < 200 || end.status > 299)
    throw notSent(`it answered ${end.status}`, end.status >= 500 || end.status === 408 || end.status === 429);
}

interface HttpRequest {
  readonly url: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

async function requestOf(target: NotificationTarget, message: Message): Promise<HttpRequest> {
  switch (target.kind) {
    case 'webhook': {
      const body = { schema: 'replication-runbooks/notification/v1', ...message };
      const headers = target.token && { authorization: `Bearer ${await secretOf(target.token)}` };
      return { url: await secretOf(target.url), body, ...(headers && { headers }) };
    }
    case 'slack':
      return { url: await secretOf(target.url), body: { text: chatText(message) } };
    case 'pagerduty':
      return { url: target.url, body: pagerDutyBody(await secretOf(target.routingKey), message) };
  }
}

async function secretOf(source: Parameters<typeof readSecret>[0]): Promise<string> {
  return (await readSecret(source, 'notification-secret')).reveal();
}

/** Events API v2. What service-ready ends is the alert of the outage; everything else is an alert of its own. */
function pagerDutyBody(routingKey: string, message: Message): object {
  const { title, severity, at, deployment, runbook, event, link, details, commands, workflowId, runId } = message;
  const resolves = event === 'service-ready';
  const orders = commands.map(({ who, command }) => `${who}: ${command}`);
  return {
    routing_key: routingKey,
    event_action: resolves ? 'resolve' : 'trigger',
    dedup_key: resolves || event === 'outage-started' ? message.subject : message.id,
    payload: {
      summary: title.slice(0, PAGERDUTY_SUMMARY),
      source: deployment,
      severity,
      timestamp: at,
      component: runbook,
      class: event,
      custom_details: { workflowId, runId, details, commands: orders },
    },
    ...(link !== undefined && { links: [{ href: link, text: 'The run' }] }),
  };
}

/** What was refused for good is not tried again. */
function notSent(why: string, retryable: boolean): RunbookError {
  return new RunbookError('UNREACHABLE', why, { retryable, outcomeKnown: false });
}

/** So many at once of one run, and one more each minute. */
const MOST_AT_ONCE = 30;
const ONE_MORE_MS = 60_000;
const MOST_RUNS = 1_000;

/**
 * Bounds how much one run tells through this worker. Whoever writes to the namespace can start further runs: each is
 * bounded, not all of them together, or a flood of theirs would silence the alarms of the others.
 */
export class NotificationBound {
  readonly #told = new Map<string, { readonly count: number; readonly at: number }>();

  /** @throws RunbookError PRECONDITION_FAILED where this run told too much */
  take(runId: string): void {
    const now = performance.now();
    const before = this.#told.get(runId);
    const freed = before === undefined ? 0 : Math.floor((now - before.at) / ONE_MORE_MS);
    const count = Math.max(0, (before?.count ?? 0) - freed);
    if (count >= MOST_AT_ONCE)
      throw new RunbookError('PRECONDITION_FAILED', 'This run told too much in a short time; nobody was told this.', {
        observed: `${count} notifications`,
        needed: `fewer than ${MOST_AT_ONCE}, of which one is forgotten each minute`,
        next: 'Look at the run itself.',
      });
    // Put anew, so that the first of the map is the one that told nothing for longest.
    this.#told.delete(runId);
    this.#told.set(runId, { count: count + 1, at: before === undefined ? now : before.at + freed * ONE_MORE_MS });
    const [oldest] = this.#told.keys();
    if (this.#told.size > MOST_RUNS && oldest !== undefined) this.#told.delete(oldest);
  }
}
