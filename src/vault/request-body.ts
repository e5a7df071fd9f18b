import { RunbookError } from '../errors';
import { Secret } from '../secret';
import type { BodyValue, CallOptions, RequestBody, RequestDescription } from './types';

/** The JSON of a request body, secrets revealed. POST always carries an object; GET and DELETE carry nothing. */
export function encodeBody(request: RequestDescription): string | undefined {
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
 * that passes a change on and loses the answer says what it says where it passed nothing on (307, 503): unless `mayPassOn`,
 * it is told to pass no change on, and then has not.
 */
export function headersOf(
  request: RequestDescription,
  token: Secret | undefined,
  mayPassOn = false,
): Readonly<Record<string, string>> {
  const headers: Record<string, string> = { 'X-Vault-Request': 'true', Accept: 'application/json' };
  if (request.method === 'POST') headers['Content-Type'] = 'application/json';
  if (request.effect === 'changes' && !mayPassOn) headers['X-Vault-No-Request-Forwarding'] = 'true';
  if (token !== undefined) headers['X-Vault-Token'] = headerValue(token);
  return headers;
}

/** The secret values that a request carries, to be removed from whatever comes back as text. */
export function secretsOf(request: RequestDescription, options: CallOptions): readonly string[] {
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
