import { RunbookError } from '../errors';
import type { ErrorCode } from '../errors';
import { isObject } from './fields';
import { redactText } from './redact';
import type { NodeResponse } from './transport';

/** What the message of a refused call names. */
interface RefusedCall {
  readonly what: string;
  readonly cluster: string;
  readonly changes: boolean;
  /** Whether the node that answered may have passed the call on. */
  readonly mayPassOn: boolean;
  /** Secret values of this request, in case the service repeats them. */
  readonly secrets: readonly string[];
}

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

/** The code of an error status; `body` texts play no part in it. */
export function codeOfStatus(status: number): ErrorCode {
  return CODES[status] ?? (status >= 500 && status <= 599 ? 'SERVICE_ERROR' : 'UNEXPECTED_STATUS');
}

/** The error for an answer with a status that is not a success. */
export function errorFromStatus(
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
    ...outcomeOf(call, response, body),
  });
}

/** What the status leaves open: a 503 is of the node itself only where it passed nothing on and speaks as the service does. */
function outcomeOf(
  { changes, mayPassOn }: RefusedCall,
  { status }: NodeResponse,
  body: unknown,
): { readonly outcomeKnown?: boolean } {
  if (!changes) return { outcomeKnown: true };
  const isOwn = isObject(body) && Array.isArray(body.errors);
  return status === 503 && (mayPassOn || !isOwn) ? { outcomeKnown: false } : {};
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
