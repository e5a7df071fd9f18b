import { setTimeout as delay } from 'node:timers/promises';
import type { Notification } from '../../src/contracts/notifications';
import { isRunbookError, RunbookError } from '../../src/errors';
import type { NotificationTarget } from '../../src/inventory';
import { describeSource, findDeployment, readSecret } from '../../src/inventory';
import type { RunContext } from '../../src/keys';
import { addressMistake } from '../../src/secret';
import { currentExecution } from '../execution';
import type { ActivityDependencies } from '../dependencies';
import { requestOnce } from '../hooks/hook-call';
import { chatText, messageOf, teamsCard } from './notification-texts';
import type { Message } from './notification-texts';
import { signatureOf } from './signature';

/** A target that was not notified. */
interface NotificationFailure {
  /** Its name in the inventory. */
  readonly target: string;
  readonly kind: NotificationTarget['kind'];
  /** A short reason, without address, key or response. */
  readonly why: string;
}

interface Delivery {
  readonly told: number;
  readonly failed: readonly NotificationFailure[];
}

/** Posts to every target of the inventory that subscribes to the event. Never fails because a target is down. */
export async function notify(input: {
  readonly deployment: string;
  readonly notification: Notification;
}): Promise<Delivery> {
  const execution = currentExecution();
  const { event } = input.notification;
  if (NOT_OF_RUNS.includes(event))
    throw new RunbookError('INVALID_INPUT', 'Runs do not send notifications of this event; none was sent.', {
      observed: event,
      needed: 'an event of the run itself',
      next: 'Find out who writes to this namespace.',
    });
  limitRate(execution.run.rid);
  return notifyTargets(execution, input.deployment, input.notification, execution.run);
}

/**
 * Notifies the targets that subscribe to the event.
 *
 * @param run - `id` distinguishes several notifications of one run, or of none
 */
export async function notifyTargets(
  { inventory, log, signal }: Pick<ActivityDependencies, 'inventory' | 'log'> & { readonly signal?: AbortSignal },
  deployment: string,
  notification: Notification,
  run: RunContext & { readonly id?: string },
): Promise<Delivery> {
  const worded = messageOf(inventory, deployment, notification, run);
  const message = run.id === undefined ? worded : { ...worded, id: `${worded.id}/${run.id}` };
  const { notifications } = findDeployment(inventory, deployment);
  const targets = notifications.filter(
    (target) => isWanted(target, message) || (target.kind === 'pagerduty' && message.closes.length > 0),
  );
  const results = await Promise.all(
    targets.map(async (target): Promise<NotificationFailure | undefined> => {
      const why = await notifyTarget(target, message, signal ?? new AbortController().signal);
      if (why === undefined) return undefined;
      const { event, workflowId } = message;
      log.warn({ target: target.name, event, workflowId, why }, 'notification not delivered');
      return { target: target.name, kind: target.kind, why };
    }),
  );
  const failed = results.filter((result) => result !== undefined);
  return { told: targets.length - failed.length, failed };
}

/** What only the workers notice: a forged one could close the incident of an outage. */
const NOT_OF_RUNS: readonly Notification['event'][] = [
  ...(['service-alarm', 'service-alarm-over'] as const),
  ...(['readiness-changed', 'readiness-overdue'] as const),
];

/** Nobody is woken because a run waits, unless clients wait with it. */
function isWanted({ kind, events }: NotificationTarget, { event, severity }: Message): boolean {
  const wakesInVain = kind === 'pagerduty' && event === 'waiting-for-people' && severity !== 'critical';
  return events.includes(event) && !wakesInVain;
}

const ENDS: readonly Notification['event'][] = [
  'finished',
  'protected-again',
  'service-ready',
  'service-alarm-over',
  'over',
];

/**
 * Whether a target must be told when the subject of this event is over: it opened an incident, or it also wants to hear of
 * ends. What runs wait for in any case is no incident, unless a pager is told of it.
 */
export function opensIncident({ kind, events }: NotificationTarget, event: Notification['event']): boolean {
  if (!events.includes(event) || ENDS.includes(event)) return false;
  return kind === 'pagerduty' || (events.includes('over') && (event === 'parked' || event === 'escalation'));
}

/** At most so many at once from one run, and one more each minute. */
const MOST_AT_ONCE = 30;
const ONE_MORE_MS = 60_000;
const MOST_RUNS = 1_000;

/** How many notifications each run sent through this process; the first run has sent none for longest. */
const sentByRun = new Map<string, { readonly count: number; readonly at: number }>();

/**
 * Limits how much one run sends. Anyone who can write to the namespace can start further runs: each run is limited, not
 * all of them together, or a flood from some would silence the alarms of the others.
 *
 * @throws RunbookError PRECONDITION_FAILED if this run sent too much
 */
function limitRate(runId: string): void {
  const now = performance.now();
  const before = sentByRun.get(runId) ?? { count: 0, at: now };
  const freed = Math.floor((now - before.at) / ONE_MORE_MS);
  const count = Math.max(0, before.count - freed);
  if (count >= MOST_AT_ONCE)
    throw new RunbookError(
      'PRECONDITION_FAILED',
      'This run sent too many notifications in a short time; this one was not sent.',
      {
        observed: `${count} notifications`,
        needed: `fewer than ${MOST_AT_ONCE}; one more is allowed each minute`,
        next: 'Check the run itself.',
      },
    );
  sentByRun.delete(runId);
  sentByRun.set(runId, { count: count + 1, at: before.at + freed * ONE_MORE_MS });
  const [oldest] = sentByRun.keys();
  if (sentByRun.size > MOST_RUNS && oldest !== undefined) sentByRun.delete(oldest);
}

const TRIES = 2;
const PAUSE_MS = 500;

/** Retries one target here: Temporal would notify all of them again. Returns why the target was not notified. */
async function notifyTarget(
  target: NotificationTarget,
  message: Message,
  signal: AbortSignal,
): Promise<string | undefined> {
  for (let tries = 1; ; tries += 1) {
    try {
      await send(target, message, signal);
      return undefined;
    } catch (error) {
      if (!isRunbookError(error)) return 'an internal error of this program';
      if (tries === TRIES || !error.retryable || signal.aborted) return error.message;
      await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

/**
 * Sends one message to one target, once. Several requests if it also closes incidents; each may be repeated.
 *
 * @throws RunbookError whose text names neither address nor key, and repeats nothing that the target answered
 */
export async function send(target: NotificationTarget, message: Message, signal: AbortSignal): Promise<void> {
  const { url, requests } = await requestsOf(target, message);
  // Anyone on the path could read what is sent.
  if (addressMistake(url) !== undefined)
    throw new RunbookError('INSECURE_ADDRESS', 'Its address is not an https address.', { retryable: false });
  const proxy = await proxyOf(target);
  for (const { headers, body } of requests) await post(target, { url, proxy, headers, body }, signal);
}

interface Posting {
  readonly url: string;
  readonly proxy: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body: string;
}

async function post(
  { caFile, timeoutMs }: NotificationTarget,
  { url, proxy, headers, body }: Posting,
  signal: AbortSignal,
): Promise<void> {
  const sent = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body } as const;
  const end = await requestOnce('notification target', { url, caFile, timeoutMs, proxy }, signal, sent);
  if ('code' in end) {
    // The reason itself names the host.
    const how = end.tls
      ? `${end.code}: TLS failed; correct the certificate of its host, its address or caFile`
      : end.code;
    throw notSent(end.late ? `no answer within ${timeoutMs / 1000} s` : how, true);
  }
  if (end.status < 200 || end.status > 299)
    throw notSent(`it answered ${end.status}`, end.status >= 500 || end.status === 408 || end.status === 429);
}

/** A permanent refusal is not retried. */
function notSent(why: string, retryable: boolean): RunbookError {
  return new RunbookError('UNREACHABLE', why, { retryable, outcomeKnown: false });
}

interface Requests {
  readonly url: string;
  readonly requests: readonly Pick<Posting, 'headers' | 'body'>[];
}

async function requestsOf(target: NotificationTarget, message: Message): Promise<Requests> {
  switch (target.kind) {
    case 'webhook': {
      const body = JSON.stringify({ schema: 'replication-runbooks/notification/v1', ...message });
      const headers = {
        ...(target.token && { authorization: `Bearer ${await secretOf(target.token)}` }),
        ...(target.secret && signatureOf(await secretOf(target.secret), message.id, body)),
      };
      return { url: await secretOf(target.url), requests: [{ headers, body }] };
    }
    case 'slack':
      return { url: await secretOf(target.url), requests: [{ body: JSON.stringify({ text: chatText(message) }) }] };
    case 'teams':
      return { url: await secretOf(target.url), requests: [{ body: JSON.stringify(teamsCard(message)) }] };
    case 'pagerduty': {
      const key = await secretOf(target.routingKey);
      const bodies = pagerDutyBodies(key, message, target.events.includes(message.event));
      return { url: target.url, requests: bodies.map((body) => ({ body: JSON.stringify(body) })) };
    }
  }
}

/** The address of a target's proxy; a source if it contains a password. */
async function proxyOf({ proxy }: NotificationTarget): Promise<string | undefined> {
  if (proxy === undefined || typeof proxy === 'string') return proxy;
  const address = await secretOf(proxy);
  if (URL.canParse(address) && /^https?:$/.test(new URL(address).protocol)) return address;
  throw new RunbookError(
    'CREDENTIAL_UNAVAILABLE',
    `The ${describeSource(proxy)} does not hold the address of a proxy.`,
    {
      retryable: false,
    },
  );
}

async function secretOf(source: Parameters<typeof readSecret>[0]): Promise<string> {
  return (await readSecret(source, 'notification-secret')).reveal();
}

/** PagerDuty refuses longer summaries. */
const PAGERDUTY_SUMMARY = 1_000;

/**
 * Events API v2, one request for each. One alert for each subject: what is told of it again updates that alert, and its end
 * resolves it. A run that ends resolves all of its alerts.
 */
function pagerDutyBodies(routingKey: string, message: Message, isWanted: boolean): object[] {
  const { title, severity, at, deployment, runbook, event, link, details, commands, workflowId, runId } = message;
  const orders = commands.map(({ who, command }) => `${who}: ${command}`);
  const resolve = (key: string) => ({ routing_key: routingKey, event_action: 'resolve', dedup_key: key });
  const resolves = closedKeys(message).map(resolve);
  if (!(isWanted ? !isOnlyEnd(message) : landsAnyway(message))) return resolves;
  const trigger = {
    routing_key: routingKey,
    event_action: 'trigger',
    dedup_key: message.incidentKey ?? (event === 'finished' ? message.id : message.subject),
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
  return message.incidentKey === undefined ? [...resolves, trigger] : [trigger, ...resolves];
}

/**
 * The alerts that a message resolves. Those of a run that joined an incident are one: it is over when the run has done what it
 * was started for, and nothing is left that is critical.
 */
function closedKeys({ closes, incidentKey, event, outcome, severity }: Message): readonly string[] {
  if (incidentKey === undefined) return closes;
  const isOver = event === 'finished' && outcome === 'completed' && severity !== 'critical' && closes.length > 0;
  return isOver ? [incidentKey] : [];
}

/** Nothing is told later of an end: it would stay open under the key of its subject. */
function isOnlyEnd({ closes, subject, incidentKey, event }: Message): boolean {
  return incidentKey === undefined ? closes.includes(subject) : event === 'over';
}

/** An incident that the run joined also hears that the outage is over, and that the run ended without resolving it. */
function landsAnyway(message: Message): boolean {
  const { closes, incidentKey, event } = message;
  if (incidentKey === undefined || closes.length === 0) return false;
  return event === 'service-ready' || (event === 'finished' && closedKeys(message).length === 0);
}
