import { setTimeout as delay } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import type { Logger } from 'pino';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { NotificationTarget } from '../../src/inventory';
import { readSecret } from '../../src/inventory';
import { requestOnce, trustedRoots } from '../hooks/hook-call';
import type { Message } from './notification-texts';
import { plainText } from './notification-texts';

type MailTarget = Extract<NotificationTarget, { kind: 'email' }>;
type HttpTarget = Exclude<NotificationTarget, MailTarget>;

/** Longer texts are cut: targets refuse them whole. */
const PAGERDUTY_SUMMARY = 1_000;
const SLACK_TEXT = 3_000;

/**
 * Sends one message to one target, once.
 *
 * @throws RunbookError whose text names neither address nor key, and repeats nothing that the target answered
 */
export async function send(target: NotificationTarget, message: Message, signal: AbortSignal): Promise<void> {
  return target.kind === 'email'
    ? sendMail(target, message, signal)
    : post(target, await requestOf(target, message), signal);
}

interface HttpRequest {
  readonly url: string;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

async function requestOf(target: HttpTarget, message: Message): Promise<HttpRequest> {
  switch (target.kind) {
    case 'webhook': {
      const body = { schema: 'replication-runbooks/notification/v1', ...message };
      const headers = target.token && { authorization: `Bearer ${await secretOf(target.token)}` };
      return { url: await secretOf(target.url), body, ...(headers && { headers }) };
    }
    case 'slack':
      return { url: await secretOf(target.url), body: slackBody(message) };
    case 'pagerduty':
      return { url: target.url, body: pagerDutyBody(await secretOf(target.routingKey), message) };
  }
}

async function secretOf(source: Parameters<typeof readSecret>[0]): Promise<string> {
  return (await readSecret(source, 'notification-secret')).reveal();
}

/** The one field that every Slack-compatible webhook takes. */
function slackBody(message: Message): { readonly text: string } {
  const { title, details, commands, link, workflowId } = message;
  const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const lines = [
    `*${escaped(title)}*`,
    ...details.map((line) => `• ${escaped(line)}`),
    ...commands.map(({ who, command }) => `${escaped(who)}: \`${escaped(command)}\``),
    link === undefined ? escaped(workflowId) : `<${link}|${escaped(workflowId)}>`,
  ];
  return { text: lines.join('\n').slice(0, SLACK_TEXT) };
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

async function post(
  { caFile, timeoutMs }: HttpTarget,
  { url, body, headers }: HttpRequest,
  signal: AbortSignal,
): Promise<void> {
  requireSafe(url);
  const sent = {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  } as const;
  const end = await requestOnce('notification target', { url, caFile, timeoutMs }, signal, sent);
  if ('code' in end) throw failed(end.late ? `no answer within ${timeoutMs / 1000} s` : end.code);
  if (end.status < 200 || end.status > 299) throw failed(`it answered ${end.status}`, end.status);
}

/** @throws where the address would show what is sent to whoever listens on the way */
function requireSafe(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const loopback = /^(localhost|\[::1\]|127(\.\d{1,3}){3})$/.test(url?.hostname ?? '');
  if (url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback)) return;
  throw new RunbookError('INSECURE_ADDRESS', 'Its address is not an https address.', { retryable: false });
}

async function sendMail(target: MailTarget, message: Message, signal: AbortSignal): Promise<void> {
  const { host, port, security, username, password, from, to, caFile, timeoutMs } = target;
  const pass = password && (await secretOf(password));
  const transport = createTransport({
    host,
    port,
    secure: security === 'tls',
    requireTLS: security === 'starttls',
    ignoreTLS: security === 'none',
    ...(username !== undefined && pass !== undefined && { auth: { user: username, pass } }),
    tls: { rejectUnauthorized: true, ca: await trustedRoots('notification target', caFile) },
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    dnsTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const cancelled = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(failed('it was cancelled')), { once: true });
  });
  try {
    const sent = transport.sendMail({
      from,
      to: [...to],
      subject: message.title.slice(0, 200),
      text: plainText(message),
      messageId: `<${encodeURIComponent(message.id)}@replication-runbooks>`,
    });
    await Promise.race([sent, cancelled]);
  } catch (error) {
    throw error instanceof RunbookError ? error : failed(connectionFailure(error));
  } finally {
    transport.close();
  }
}

/** The code of a library's error; its message may quote the address or the answer. */
function connectionFailure(error: unknown): string {
  for (let each: unknown = error; typeof each === 'object' && each !== null; each = 'cause' in each && each.cause) {
    if ('code' in each && typeof each.code === 'string' && /^[A-Z][A-Z0-9_]{2,40}$/.test(each.code)) return each.code;
  }
  return 'the connection failed';
}

function failed(why: string, status?: number): RunbookError {
  // What was refused for good is not tried again; everything else may pass.
  const lasting = status !== undefined && status < 500 && status !== 408 && status !== 429;
  return new RunbookError('UNREACHABLE', why, { retryable: !lasting, outcomeKnown: false });
}

/** A target that was not told. */
export interface NotificationFailure {
  /** Its name in the inventory. */
  readonly target: string;
  readonly kind: 'webhook' | 'slack' | 'pagerduty' | 'email';
  /** In a few words, without address, key or answer. */
  readonly why: string;
}

const TRIES = 2;
const PAUSE_MS = 500;

/** Tells each target. Never fails because one is down: gives those that were not told. */
export async function tellTargets(
  log: Logger,
  targets: readonly NotificationTarget[],
  message: Message,
  signal: AbortSignal,
): Promise<readonly NotificationFailure[]> {
  const results = await Promise.all(
    targets.map(async (target): Promise<NotificationFailure | undefined> => {
      const why = await tell(target, message, signal);
      if (why === undefined) return undefined;
      log.warn(
        { target: target.name, event: message.event, workflowId: message.workflowId, why },
        'notification not delivered',
      );
      return { target: target.name, kind: target.kind, why };
    }),
  );
  return results.filter((result) => result !== undefined);
}

/** One target more tells at once: Temporal would tell all of them again. Gives why it was not told. */
async function tell(target: NotificationTarget, message: Message, signal: AbortSignal): Promise<string | undefined> {
  for (let tries = 1; ; tries += 1) {
    try {
      await send(target, message, signal);
      return undefined;
    } catch (error) {
      if (!isRunbookError(error)) return 'a defect of this program';
      if (tries === TRIES || !error.retryable || signal.aborted) return error.message;
      await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
  }
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
