/** A person's side of the gateway's mailbox, in browsers and in Node. */
import { z } from 'zod';
import { jsonIn, oneLine } from '../contracts/words';
import { ERROR_CODES, errnoOf, RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { signRequest } from './signed-request';
import type { SigningKey } from './signing-keys';

/** What is used of `fetch`. */
type Fetch = (
  url: string,
  init: {
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: string;
    readonly redirect: 'error';
    readonly signal: AbortSignal;
  },
) => Promise<{ readonly status: number; readonly headers: Headers; text(): Promise<string> }>;
interface Headers {
  get(name: string): string | null;
}

/** A gateway, and the person who asks it. */
export interface MailboxAccess {
  /** `gatewayOrigin` of what the person entered. */
  readonly origin: string;
  /** Name of the person in the inventory. */
  readonly name: string;
  readonly key: SigningKey;
  readonly fetch?: Fetch;
  /** How long to try, in milliseconds: a lost answer and a busy gateway are asked again. Default: 30 s. */
  readonly timeoutMs?: number;
  /** Ends the request. */
  readonly stop?: AbortSignal;
}

/** The gateway waits at most 10 s for a run. A try that began in time may take this long. */
const ONE_TRY_MS = 20_000;
const PAUSE_MS = 1_000;

/**
 * Sends one signed request. If no answer comes, or the gateway is busy, sends it again: a document that arrives twice counts
 * once.
 *
 * @param content sent as JSON
 * @returns the answer, unchecked: the gateway is not trusted
 * @throws RunbookError as the gateway answered it; `GATEWAY_UNAVAILABLE` if it does not answer
 */
export async function askMailbox(access: MailboxAccess, path: string, content?: object): Promise<unknown> {
  const end = Date.now() + (access.timeoutMs ?? 30_000);
  for (;;) {
    const { answer, failure, pauseMs = PAUSE_MS } = await askOnce(access, path, content);
    if (failure === undefined) return answer;
    if (!failure.retryable || access.stop?.aborted === true || Date.now() + pauseMs > end) throw failure;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

interface Outcome {
  readonly answer?: unknown;
  readonly failure?: RunbookError;
  readonly pauseMs?: number | undefined;
}

async function askOnce(
  { origin, name, key, stop, fetch = globalThis.fetch }: MailboxAccess,
  path: string,
  content: object | undefined,
): Promise<Outcome> {
  const method = content === undefined ? 'GET' : 'POST';
  const body = content && JSON.stringify(content);
  // Each try is signed anew: the gateway accepts a request once.
  const authorization = await signRequest({ origin, method, path, body, name }, key);
  const late = AbortSignal.timeout(ONE_TRY_MS);
  try {
    const response = await fetch(`${origin}${path}`, {
      method,
      headers: { authorization, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body }),
      redirect: 'error',
      signal: stop === undefined ? late : AbortSignal.any([late, stop]),
    });
    const answer = jsonIn(await response.text());
    if (response.status >= 200 && response.status < 300) return { answer };
    const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
    return { failure: failureIn(answer, response.status), pauseMs: seconds > 0 ? seconds * 1_000 : undefined };
  } catch (error) {
    return { failure: noAnswer(origin, error) };
  }
}

const text = z.string().max(5_000).transform(oneLine);
const answeredError = z.object({
  error: z.object({
    code: z.string(),
    message: text,
    observed: text.optional(),
    needed: text.optional(),
    next: text.optional(),
  }),
});

/** Answers that a later try may change. */
const AGAIN: readonly number[] = [429, 502, 503, 504];

function failureIn(answer: unknown, status: number): RunbookError {
  const { data } = answeredError.safeParse(answer);
  const retryable = AGAIN.includes(status);
  if (data === undefined || !Object.hasOwn(ERROR_CODES, data.error.code))
    return new RunbookError('GATEWAY_UNAVAILABLE', 'The answer is not one of a gateway.', {
      ...{ retryable, observed: `HTTP status ${status}` },
      needed: 'the address of a gateway that was started with --people',
      next: 'Check the address, and ask the operators whether the gateway runs.',
    });
  const { code, message, observed, needed, next } = data.error;
  return new RunbookError(code as ErrorCode, message, {
    ...{ retryable, httpStatus: status, observed, needed },
    next,
  });
}

function noAnswer(origin: string, error: unknown): RunbookError {
  const { cause, name } = (error ?? {}) as { readonly cause?: unknown; readonly name?: unknown };
  const why = errnoOf(cause) ?? (name === 'TimeoutError' ? 'no answer in time' : 'no connection, or it broke');
  if (/CERT|_TLS_|SIGNATURE|VERIFY/.test(why))
    return new RunbookError('TLS_FAILED', `The certificate of the gateway at ${origin} is not accepted.`, {
      observed: why,
      needed: 'a certificate for this address from a CA that this machine trusts, or the file of its CA',
      next: 'Check the address, and ask the operators for the file of the CA (--gateway-ca).',
    });
  return new RunbookError('GATEWAY_UNAVAILABLE', `The gateway at ${origin} does not answer.`, {
    observed: why,
    needed: 'the address of a gateway, a network that reaches it, and a certificate that this machine trusts',
    next: 'Try again: a repeated message counts once. If this happens again, call the operators at a number that you know.',
  });
}
