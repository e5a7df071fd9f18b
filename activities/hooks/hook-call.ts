import { readFile } from 'node:fs/promises';
import { Agent, request } from 'undici';
import { RunbookError } from '../../src/errors';
import { describeSource, readSecret } from '../../src/inventory';
import type { CallHook, CredentialSource } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import { OutputTail } from './hook-output';
import type { HookEnd, HookFacts } from './hook-output';

/** Codes of an error before anything was sent: no address, no connection, no handshake. */
const NOT_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_|ERR_SSL_|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO)/;

/** An agent that trusts what the inventory says for this address. */
export async function agentFor(what: string, caFile: string | undefined, connectTimeoutMs: number): Promise<Agent> {
  const ca = await trustedRoots(what, caFile);
  return new Agent({ connect: { rejectUnauthorized: true, ca, timeout: connectTimeoutMs } });
}

/** Undefined: those that Node trusts. */
export async function trustedRoots(what: string, caFile: string | undefined): Promise<string | undefined> {
  if (caFile === undefined) return undefined;
  try {
    return await readFile(caFile, 'utf8');
  } catch {
    throw new RunbookError('TLS_FAILED', `The CA file ${caFile} of the ${what} cannot be read.`, {
      observed: 'not readable',
      needed: 'a PEM file',
    });
  }
}

/** Makes the call once, follows no redirect, and reads the end of the answer. */
export async function makeCall(entry: CallHook, facts: HookFacts, signal: AbortSignal): Promise<HookEnd> {
  const headers = await headersOf(entry);
  const agent = await agentFor(`${facts.hook} hook`, entry.caFile, entry.timeoutMs);
  const output = new OutputTail();
  const timer = AbortSignal.timeout(entry.timeoutMs);
  const secrets = Object.values(headers).flatMap((value) => [value, ...value.split(' ')]);
  try {
    const { statusCode, body } = await request(entry.url, {
      dispatcher: agent,
      method: entry.method,
      headers: { ...headers, 'content-type': 'application/json', 'idempotency-key': facts.key },
      body: JSON.stringify(facts),
      signal: AbortSignal.any([signal, timer]),
      headersTimeout: entry.timeoutMs,
      bodyTimeout: entry.timeoutMs,
    });
    await readInto(output, body);
    const ok = entry.expectStatus.includes(statusCode);
    return { ok, how: `status ${statusCode}`, begun: true, output: output.text(secrets) };
  } catch (error) {
    if (signal.aborted) throw new RunbookError('REQUEST_CANCELLED', `The ${facts.hook} hook was cancelled.`);
    const code = codeOf(error);
    if (timer.aborted)
      return { ok: false, how: `no answer within ${entry.timeoutMs / 1000} s`, begun: true, output: '' };
    const begun = !NOT_SENT.test(code);
    return { ok: false, how: begun ? `the answer was lost (${code})` : `not sent (${code})`, begun, output: '' };
  } finally {
    await agent.destroy();
  }
}

/** The status is the answer: a body that breaks off changes nothing about it. */
async function readInto(output: OutputTail, body: AsyncIterable<Buffer>): Promise<void> {
  try {
    for await (const chunk of body) output.add(chunk);
  } catch {
    // What came is kept.
  }
}

async function headersOf({ headers }: CallHook): Promise<Record<string, string>> {
  const read = Object.entries(headers).map(
    async ([name, source]) => [name, headerValue(await readSecret(source, 'service-token'), source)] as const,
  );
  return Object.fromEntries(await Promise.all(read));
}

/** Such as `Bearer ...`. What cannot be a header is refused here: the HTTP library's error would quote it. */
function headerValue(secret: Secret, source: CredentialSource): string {
  const value = secret.reveal();
  if (/^[\x20-\x7e]+$/.test(value)) return value;
  throw new RunbookError(
    'CREDENTIAL_UNAVAILABLE',
    `The ${describeSource(source)} does not hold one line for a header.`,
  );
}

/** The system's error code; never a message, which may hold a header. */
function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return 'unknown';
  if ('code' in error && typeof error.code === 'string') return error.code;
  if ('errors' in error && Array.isArray(error.errors) && error.errors.length > 0) return codeOf(error.errors[0]);
  return 'unknown';
}
