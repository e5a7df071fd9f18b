import { isInteger, parse } from 'lossless-json';
import { RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { redactText } from '../redaction';
import { Secret } from '../secret';
import { isObject } from './shape';
import type { NodeAddress, NodeResponse, Transport } from './transport';
import type { BodyValue, CallOptions, RequestBody, RequestDescription, ServiceAnswer } from './types';

const SUCCESS: ReadonlySet<number> = new Set([200, 202, 204]);
const REDIRECT: ReadonlySet<number> = new Set([307, 308]);
/** The question behind a 503 must not eat the time of the call's own repeat. */
const SEAL_PROBE_TIMEOUT_MS = 2_000;

const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'BAD_REQUEST',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  412: 'STATE_NOT_PRESENT',
  413: 'TOO_LARGE',
  429: 'RATE_LIMITED',
  431: 'TOO_LARGE',
  503: 'SERVICE_UNAVAILABLE',
};

/** What the message of a refused call names. */
interface RefusedCall {
  readonly what: string;
  readonly cluster: string;
  readonly changes: boolean;
  /** Secret values of this request, in case the service repeats them. */
  readonly secrets: readonly string[];
}

/** What one request to one node came to: data, or the address of the node to ask instead. */
type ExchangeResult =
  | { readonly kind: 'answer'; readonly answer: ServiceAnswer }
  | {
      readonly kind: 'redirect';
      readonly location: string;
      readonly refuse: (reason: string, retryable?: boolean) => RunbookError;
    };

interface Exchange {
  readonly cluster: string;
  readonly transport: Transport;
  readonly timeoutMs: number;
  readonly warn: (warning: string) => void;
}

/**
 * Sends a call to one node and reads the answer.
 *
 * @throws RunbookError for every answer that is neither data nor a redirect, and where no answer came.
 */
export async function exchange(
  { cluster, transport, timeoutMs, warn }: Exchange,
  node: NodeAddress,
  request: RequestDescription,
  options: CallOptions,
): Promise<ExchangeResult> {
  const changes = request.effect === 'changes';
  const what = `${request.method} ${request.path} at ${node.address}`;
  const call = { what, cluster, changes, secrets: secretsOf(request, options) };
  const response = await transport.send(node, {
    method: request.method,
    path: request.path,
    headers: headersOf(request, options.token),
    body: encodeBody(request),
    changes,
    timeoutMs,
    signal: options.signal,
    consume: request.consume,
  });

  const { status } = response;
  if (REDIRECT.has(status)) {
    const location = response.headers.location;
    const refuse = (reason: string, retryable = false) =>
      new RunbookError('REDIRECT_REFUSED', `${what}: ${status}: ${reason}`, { cluster, httpStatus: status, retryable });
    return { kind: 'redirect', location: typeof location === 'string' ? location : '', refuse };
  }

  const success = SUCCESS.has(status);
  const body = readBody(response, (warning) => warn(`${what}: ${warning}`));
  if (success && response.bodyError !== undefined) throw response.bodyError;
  const describesState = request.dataStatuses?.has(status) === true && isObject(body) && !Array.isArray(body.errors);
  if (success || describesState) return { kind: 'answer', answer: { status, node: node.address, body } };

  const code = status === 503 ? await codeOfUnavailable(transport, node, request, options) : codeOfStatus(status);
  throw errorFromStatus(call, response, body, code);
}

/** The first document of a body; `undefined` for an empty one and for what is no JSON. */
function readBody(response: NodeResponse, warn: (warning: string) => void): unknown {
  const text = response.text?.trim() ?? '';
  if (text === '') return undefined;
  try {
    const { value, rest } = parseFirstDocument(text);
    if (rest !== '') warn(`the answer ${response.status} goes on behind its first JSON document; the rest is not used`);
    return value;
  } catch {
    if (response.status < 300) warn(`the answer ${response.status} is not JSON`);
    return undefined;
  }
}

/** A 503 by structured data alone: sealed, a secondary that lags (promote), or just not available. */
async function codeOfUnavailable(
  transport: Transport,
  node: NodeAddress,
  request: RequestDescription,
  options: CallOptions,
): Promise<ErrorCode> {
  if (await isSealed(transport, node, options.signal)) return 'SERVICE_SEALED';
  return request.unavailableMeansBehind === true ? 'NOT_CAUGHT_UP' : 'SERVICE_UNAVAILABLE';
}

async function isSealed(transport: Transport, node: NodeAddress, signal: AbortSignal | undefined): Promise<boolean> {
  const request = { method: 'GET', path: 'sys/seal-status', effect: 'reads' } as const;
  try {
    const response = await transport.send(node, {
      ...request,
      headers: headersOf(request, undefined),
      body: undefined,
      changes: false,
      timeoutMs: SEAL_PROBE_TIMEOUT_MS,
      signal,
    });
    const body = readBody(response, () => undefined);
    return response.status === 200 && isObject(body) && body.sealed === true;
  } catch {
    return false;
  }
}

/** The JSON of a request body, secrets revealed. POST always carries an object; GET and DELETE carry nothing. */
function encodeBody(request: RequestDescription): string | undefined {
  if (request.method !== 'POST') return undefined;
  return JSON.stringify(revealed(request.body ?? {}));
}

function revealed(body: RequestBody): Readonly<Record<string, unknown>> {
  const members = Object.entries(body).map(([name, value]) => [
    name,
    value instanceof Secret ? value.reveal() : isNested(value) ? revealed(value) : value,
  ]);
  return Object.fromEntries(members) as Readonly<Record<string, unknown>>;
}

function isNested(value: BodyValue | undefined): value is RequestBody {
  return typeof value === 'object' && !(value instanceof Secret) && !Array.isArray(value);
}

function secretsIn(body: RequestBody): Secret[] {
  return Object.values(body).flatMap((value) =>
    value instanceof Secret ? [value] : isNested(value) ? secretsIn(value) : [],
  );
}

/**
 * Headers of every request. The namespace header is never sent: the interface works on the root namespace only. A standby
 * that passes a change on and loses the answer says what it says where it passed nothing on (307, 503): it is told to pass
 * no change on, and then has not.
 */
function headersOf(request: RequestDescription, token: Secret | undefined): Readonly<Record<string, string>> {
  const headers: Record<string, string> = { 'X-Vault-Request': 'true', Accept: 'application/json' };
  if (request.method === 'POST') headers['Content-Type'] = 'application/json';
  if (request.effect === 'changes') headers['X-Vault-No-Request-Forwarding'] = 'true';
  if (token !== undefined) headers['X-Vault-Token'] = headerValue(token);
  return headers;
}

/** The secret values that a request carries, to be removed from whatever comes back as text. */
function secretsOf(request: RequestDescription, options: CallOptions): readonly string[] {
  return [...secretsIn(request.body ?? {}), ...(options.token === undefined ? [] : [options.token])].map((secret) =>
    secret.reveal(),
  );
}

function headerValue(token: Secret): string {
  const value = token.reveal();
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw new RunbookError('INVALID_INPUT', 'the token is empty or holds characters that no token has');
  }
  return value;
}

/** The code of an error status; `body` texts play no part in it. */
function codeOfStatus(status: number): ErrorCode {
  return CODES[status] ?? (status >= 500 && status <= 599 ? 'SERVICE_ERROR' : 'UNEXPECTED_STATUS');
}

/** The error for an answer with a status that is not a success. */
function errorFromStatus(
  call: RefusedCall,
  response: NodeResponse,
  body: unknown,
  code: ErrorCode = codeOfStatus(response.status),
): RunbookError {
  const text = serverText(response, body, call.secrets);
  return new RunbookError(code, `${call.what}: ${response.status}${text === '' ? '' : `: ${text}`}`, {
    cluster: call.cluster,
    httpStatus: response.status,
    retryAfterMs: retryAfterMs(response.headers['retry-after']),
    ...outcomeOf(call.changes, response.status, body),
  });
}

/** What the status leaves open: a 503 is of the node itself only where it speaks as the service does. */
function outcomeOf(changes: boolean, status: number, body: unknown): { readonly outcomeKnown?: boolean } {
  if (!changes) return { outcomeKnown: true };
  const isOwn = isObject(body) && Array.isArray(body.errors);
  return status === 503 && !isOwn ? { outcomeKnown: false } : {};
}

/** Milliseconds of a `Retry-After` header: seconds or an HTTP date. */
export function retryAfterMs(header: string | string[] | undefined, now = Date.now()): number | undefined {
  const value = (Array.isArray(header) ? header[0] : header)?.trim();
  if (value === undefined || value === '') return undefined;
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** `errors` of the body, or the start of whatever else came (a load balancer's page). */
function serverText(response: NodeResponse, body: unknown, secrets: readonly string[]): string {
  const errors = isObject(body) ? body.errors : undefined;
  if (Array.isArray(errors)) {
    return onOneLine(redactText(errors.filter((item): item is string => typeof item === 'string').join('; '), secrets));
  }
  if (isObject(body)) return '';
  return onOneLine(redactText((response.text ?? '').replace(/<[^<>]*>/g, ' '), secrets));
}

/** The service's words within a text of ours: they end no line, move no cursor, and stand in no backticks. */
function onOneLine(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\p{Cf}\p{Cs}]/gu, '')
    .replaceAll('`', "'");
}

/** The first JSON document of a body, and what stood behind it. */
interface FirstDocument {
  readonly value: unknown;
  /** Trimmed text behind the first document; empty as a rule. */
  readonly rest: string;
}

/**
 * Reads the first JSON document of `text`. The service can glue a second one to it (an audit sink that dies after the
 * work was done), so what follows is reported and not fatal. Integers beyond 2^53 become bigint without loss.
 *
 * @throws SyntaxError where the text does not begin with a JSON document.
 */
export function parseFirstDocument(text: string): FirstDocument {
  const end = endOfFirstDocument(text);
  return { value: parse(text.slice(0, end), undefined, toNumberOrBigInt), rest: text.slice(end).trim() };
}

function toNumberOrBigInt(digits: string): number | bigint {
  const value = Number(digits);
  return isInteger(digits) && !Number.isSafeInteger(value) ? BigInt(digits) : value;
}

/** Position behind the bracket that closes the first object or array; the whole length for other values. */
function endOfFirstDocument(text: string): number {
  let depth = 0;
  let inString = false;
  for (let position = 0; position < text.length; position++) {
    const character = text[position];
    if (inString) {
      if (character === '\\') position++;
      else if (character === '"') inString = false;
    } else if (character === '"') {
      inString = true;
    } else if (character === '{' || character === '[') {
      depth++;
    } else if (character === '}' || character === ']') {
      depth--;
      if (depth <= 0) return position + 1;
    }
  }
  return text.length;
}
