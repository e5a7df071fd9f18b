import { isInteger, parse } from 'lossless-json';
import { RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { redactText } from '../redaction';
import { Secret } from '../secret';
import { isObject } from './shape';
import type { NodeAddress, NodeResponse, Transport } from './transport';
import type { CallOptions, RequestDescription, ServiceAnswer } from './types';

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

/** What one request to one node came to, where it is no answer: the address of the node to ask instead. */
interface Redirect {
  readonly location: string;
  readonly refuse: (reason: string, retryable?: boolean) => RunbookError;
}

/**
 * Sends a call to one node and reads the answer.
 *
 * @throws RunbookError for every answer that is neither data nor a redirect, and where no answer came.
 */
export async function exchange(
  transport: Transport,
  node: NodeAddress,
  request: RequestDescription,
  options: CallOptions & { readonly timeoutMs: number },
  warn: (warning: string) => void,
): Promise<ServiceAnswer | Redirect> {
  const { cluster } = transport;
  const what = `${request.method} ${request.path} at ${node.address}`;
  const { json, secrets } = encodeBody(request);
  if (options.token !== undefined) secrets.push(options.token.reveal());
  const sent = { ...request, headers: headersOf(request, options.token), body: json };
  const response = await transport.send(node, sent, options);

  const { status, headers } = response;
  if (REDIRECT.has(status)) {
    const { location } = headers;
    const refuse = (reason: string, retryable = false) =>
      new RunbookError('REDIRECT_REFUSED', `${what}: ${status}: ${reason}`, { cluster, httpStatus: status, retryable });
    return { location: typeof location === 'string' ? location : '', refuse };
  }

  const success = SUCCESS.has(status);
  const body = readBody(response, (warning) => warn(`${what}: ${warning}`));
  if (success && response.bodyError !== undefined) throw response.bodyError;
  // Of the service itself, and not of something before it.
  const isRefusal = isObject(body) && Array.isArray(body.errors);
  const describesState = request.dataStatuses?.has(status) === true && isObject(body) && !isRefusal;
  if (success || describesState) return { status, node: node.address, body };

  const text = serverText(response, body, secrets);
  const code = status === 503 ? await codeOfUnavailable(transport, node, request, options) : codeOfStatus(status);
  const mayHaveChanged = request.effect === 'changes' && status === 503 && !isRefusal;
  throw new RunbookError(code, `${what}: ${status}${text === '' ? '' : `: ${text}`}`, {
    cluster,
    httpStatus: status,
    retryAfterMs: retryAfterMs(headers['retry-after']),
    ...(request.effect === 'reads' && { outcomeKnown: true }),
    ...(mayHaveChanged && { outcomeKnown: false }),
  });
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
  if (await isSealed(transport, node, options)) return 'SERVICE_SEALED';
  return request.unavailableMeansBehind === true ? 'NOT_CAUGHT_UP' : 'SERVICE_UNAVAILABLE';
}

async function isSealed(transport: Transport, node: NodeAddress, { signal }: CallOptions): Promise<boolean> {
  const request = { method: 'GET', path: 'sys/seal-status', effect: 'reads' } as const;
  try {
    const sent = { ...request, headers: headersOf(request, undefined) };
    const response = await transport.send(node, sent, { timeoutMs: SEAL_PROBE_TIMEOUT_MS, signal });
    const body = readBody(response, () => undefined);
    return response.status === 200 && isObject(body) && body.sealed === true;
  } catch {
    return false;
  }
}

/**
 * The JSON of a request body with its secrets revealed, and these secrets, to be removed from whatever comes back as text.
 * POST always carries an object; GET and DELETE carry nothing.
 */
function encodeBody({ method, body = {} }: RequestDescription) {
  const secrets: string[] = [];
  // In `value` a secret has hidden itself by now.
  function reveal(this: Readonly<Record<string, unknown>>, name: string, value: unknown): unknown {
    const own = this[name];
    if (!(own instanceof Secret)) return value;
    secrets.push(own.reveal());
    return own.reveal();
  }
  const json = JSON.stringify(body, reveal);
  return { json: method === 'POST' ? json : undefined, secrets };
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
