import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, ProxyAgent, request } from 'undici';
import type { Dispatcher } from 'undici';
import { terminalLine } from '../../src/contracts/words';
import { redact } from '../../src/keys';
import { RunbookError } from '../../src/errors';
import type { CommandHook, CallHook, CredentialSource } from '../../src/inventory';
import { describeSource, readSecret } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import {
  networkCodeOf,
  notingStart,
  readTrustedRoots,
  tlsConnector,
  tlsFailureOf,
  verifyingTls,
} from '../../src/vault';
import type { TlsFailure } from '../../src/vault';

/** The facts for a hook: the JSON body of a call, RUNBOOK_FACTS of a command. Names only, never a secret. */
export interface HookFacts {
  readonly hook: string;
  readonly deployment: string;
  /** The cluster that is, or was, primary: the one that is fenced or unfenced. */
  readonly from: string;
  /** The cluster that clients are directed to. */
  readonly to: string;
  readonly workflowId: string;
  readonly runId: string;
  readonly step: string;
  /** The same for every try of one attempt of a step: a receiver can recognize a repetition by it. */
  readonly key: string;
}

/** How a hook ended. */
export interface HookEnd {
  readonly ok: boolean;
  /** Such as `exit 0` or `status 503`. */
  readonly how: string;
  /** Whether it may have been started; false only if it certainly was not. */
  readonly begun: boolean;
  /** Its last lines, redacted. */
  readonly output: string;
  /** What to do if TLS kept it from being sent. */
  readonly next?: string | undefined;
}

/** Output kept while a hook runs. */
const KEPT_BYTES = 16_384;
/** Output shown, in characters. */
const SHOWN = 2_048;
/** Shorter words, such as `Bearer`, are not secrets. */
const SECRET_LENGTH = 8;

/** The end of a hook's output. Others wrote it, so it is redacted before anybody sees it. */
class OutputTail {
  #kept = Buffer.alloc(0);
  #cut = false;

  add(chunk: Buffer): void {
    const all = Buffer.concat([this.#kept, chunk]);
    this.#cut ||= all.length > KEPT_BYTES;
    this.#kept = all.subarray(-KEPT_BYTES);
  }

  /**
   * The last lines, redacted; '' if there are none.
   *
   * @param secrets - values that this program gave the hook, and that must not come back in plain text
   */
  text(secrets: readonly string[] = []): string {
    const raw = this.#kept.toString('utf8');
    // A line without its beginning may contain the rest of a secret that nothing would recognize.
    const whole = this.#cut ? raw.slice(raw.indexOf('\n') + 1 || raw.length) : raw;
    const known = secrets.filter((secret) => secret.length >= SECRET_LENGTH);
    const clean = redact(known.reduce((text, secret) => text.replaceAll(secret, '[redacted]'), withoutControls(whole)));
    if (clean.length <= SHOWN) return clean;
    const end = clean.slice(-SHOWN);
    return `... ${end.slice(end.indexOf('\n') + 1)}`;
  }
}

/** Escape sequences and control characters could change what a terminal shows; backticks would make a command. */
function withoutControls(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are removed here
  const plain = text.replace(/\u001b\[[0-?]*[ -/]*[@-~]/g, '').replaceAll('`', "'");
  return plain
    .split(/\r\n?|\n/)
    .map(terminalLine)
    .join('\n')
    .trim();
}

/** How long a program may take to terminate before it is killed. */
const END_WITHIN_MS = 1_000;
/** How long to wait for its last output after it ended: a process that it left behind may keep the pipe open. */
const REST_WITHIN_MS = 200;

/** Runs a hook without a shell, in its own process group, and terminates the group when its time is over. */
export async function runCommand(entry: CommandHook, facts: HookFacts, signal: AbortSignal): Promise<HookEnd> {
  const [program = '', ...args] = entry.command;
  const output = new OutputTail();
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    env: {
      ...inherited(),
      RUNBOOK_HOOK: facts.hook,
      RUNBOOK_DEPLOYMENT: facts.deployment,
      RUNBOOK_FROM: facts.from,
      RUNBOOK_TO: facts.to,
      RUNBOOK_FACTS: JSON.stringify(facts),
    },
  });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.add(chunk));
  const ended = new Promise<number | string>((resolve) => {
    child.once('error', (error) => resolve('code' in error ? String(error.code) : 'could not be started'));
    child.once('exit', (code, killedBy) => resolve(code ?? String(killedBy)));
  });
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const over = delay(entry.timeoutMs, 'timed-out', { signal, ref: false }).catch(() => 'cancelled');
  const first = await Promise.race([ended, over]);
  if (first === 'timed-out' || first === 'cancelled') await end(child, ended);
  await Promise.race([closed, delay(REST_WITHIN_MS)]);
  child.stdout.destroy();
  child.stderr.destroy();
  if (first === 'cancelled')
    throw new RunbookError('REQUEST_CANCELLED', `The ${facts.hook} hook was cancelled and terminated.`);
  const begun = child.pid !== undefined;
  const exit = begun ? `exit ${first}` : `not started (${first})`;
  const how = first === 'timed-out' ? `still running after ${entry.timeoutMs / 1000} s, terminated` : exit;
  return { ok: first === 0, how, begun, output: output.text() };
}

/** Terminates the child and everything that it started. */
async function end(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  kill(child, 'SIGTERM');
  await Promise.race([ended, delay(END_WITHIN_MS)]);
  kill(child, 'SIGKILL');
}

function kill({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // The group is gone.
  }
}

/** The variables that a program needs to find its parts and its language. It inherits nothing else from the worker. */
function inherited(): NodeJS.ProcessEnv {
  const names = ['PATH', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TZ'];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

interface RequestFailure {
  readonly code: string;
  readonly late: boolean;
  readonly begun: boolean;
  readonly tls: TlsFailure | undefined;
}

/**
 * Makes one request. Follows no redirect, which could send the request elsewhere. Trusts the CA file of the inventory.
 * Uses a proxy only if one is given, whatever the environment says.
 *
 * @returns the status, even if reading the body fails; or an error code, whether the request may have been sent, and why TLS
 *   kept it from being sent, with the host's name
 * @throws RunbookError TLS_FAILED, REQUEST_CANCELLED
 */
export async function requestOnce(
  what: string,
  {
    url,
    caFile,
    timeoutMs,
    proxy,
  }: Pick<CallHook, 'url' | 'caFile' | 'timeoutMs'> & { readonly proxy?: string | undefined },
  signal: AbortSignal,
  sent: Pick<Dispatcher.RequestOptions, 'method' | 'headers' | 'body'> = { method: 'GET' },
  read: (chunk: Buffer) => void = () => undefined,
): Promise<{ readonly status: number } | RequestFailure> {
  const roots = caFile === undefined ? undefined : await readTrustedRoots(`the ${what}`, caFile);
  const tlsOptions = verifyingTls(roots, timeoutMs);
  // The proxy only passes the connection on, and sees no request.
  const agent =
    proxy === undefined
      ? new Agent({ connect: tlsConnector(roots, { timeout: timeoutMs }) })
      : new ProxyAgent({ uri: proxy, requestTls: tlsOptions, proxyTls: tlsOptions, proxyTunnel: true });
  const over = AbortSignal.timeout(timeoutMs);
  let begun = false;
  try {
    const { statusCode, body } = await request(url, {
      ...sent,
      dispatcher: agent.compose(notingStart(() => (begun = true))),
      signal: AbortSignal.any([signal, over]),
      // Only `over` limits the time: undici's default limit is five minutes, and a snapshot may take hours.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    await readAll(body, read).catch(() => undefined);
    return { status: statusCode };
  } catch (error) {
    if (signal.aborted) throw new RunbookError('REQUEST_CANCELLED', `The ${what} was cancelled.`);
    const code = networkCodeOf(error);
    const tls = begun ? undefined : tlsFailureOf(error, code, new URL(url).hostname, roots);
    return { code, late: over.aborted, begun, tls };
  } finally {
    await agent.destroy();
  }
}

async function readAll(body: AsyncIterable<Buffer>, read: (chunk: Buffer) => void): Promise<void> {
  for await (const chunk of body) read(chunk);
}

/** Makes the call once, and keeps the end of the answer. */
export async function makeCall(entry: CallHook, facts: HookFacts, signal: AbortSignal): Promise<HookEnd> {
  const { timeoutMs } = entry;
  const given = await headersOf(entry);
  const headers = { ...given, 'content-type': 'application/json', 'idempotency-key': facts.key };
  const output = new OutputTail();
  const end = await requestOnce(
    `${facts.hook} hook`,
    entry,
    signal,
    { method: 'POST', headers, body: JSON.stringify(facts) },
    (chunk) => output.add(chunk),
  );
  if ('status' in end) {
    const secrets = Object.values(given).flatMap((value) => [value, ...value.split(' ')]);
    const { status } = end;
    return { ok: status >= 200 && status < 300, how: `status ${status}`, begun: true, output: output.text(secrets) };
  }
  const { begun, code, tls } = end;
  const lost = end.late ? `no answer within ${timeoutMs / 1000} s` : `the answer was lost (${code})`;
  const unsent = tls === undefined ? `not sent (${code})` : `not sent: ${tls.observed}`;
  return { ok: false, how: begun ? lost : unsent, begun, output: '', next: tls?.next };
}

async function headersOf({ headers }: CallHook): Promise<Record<string, string>> {
  const read = Object.entries(headers).map(
    async ([name, source]) => [name, headerValue(await readSecret(source, 'service-token'), source)] as const,
  );
  return Object.fromEntries(await Promise.all(read));
}

/** Such as `Bearer ...`. An invalid header value is refused here: the error of the HTTP library would quote it. */
function headerValue(secret: Secret, source: CredentialSource): string {
  const value = secret.reveal();
  if (/^[\x20-\x7e]+$/.test(value)) return value;
  throw new RunbookError(
    'CREDENTIAL_UNAVAILABLE',
    `The ${describeSource(source)} does not hold a single line that can be an HTTP header.`,
  );
}
