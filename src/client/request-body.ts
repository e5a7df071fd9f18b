import { RunbookError } from '../errors';
import { Secret } from '../secret';
import type { CallOptions, RequestDescription } from './types';

/** The JSON of a request body, secrets revealed. POST always carries an object; GET and DELETE carry nothing. */
export function encodeBody(request: RequestDescription): string | undefined {
  if (request.method !== 'POST') return undefined;
  const members = Object.entries(request.body ?? {}).map(([name, value]) => [
    name,
    value instanceof Secret ? value.reveal() : value,
  ]);
  return JSON.stringify(Object.fromEntries(members));
}

/** Headers of every request. The namespace header is never sent: the interface works on the root namespace only. */
export function headersOf(request: RequestDescription, token: Secret | undefined): Readonly<Record<string, string>> {
  const headers: Record<string, string> = { 'X-Vault-Request': 'true', Accept: 'application/json' };
  if (request.method === 'POST') headers['Content-Type'] = 'application/json';
  if (token !== undefined) headers['X-Vault-Token'] = headerValue(token);
  return headers;
}

/** The secret values that a request carries, to be removed from whatever comes back as text. */
export function secretsOf(request: RequestDescription, options: CallOptions): readonly string[] {
  const inBody = Object.values(request.body ?? {}).filter((value): value is Secret => value instanceof Secret);
  return [...inBody, ...(options.token === undefined ? [] : [options.token])].map((secret) => secret.reveal());
}

function headerValue(token: Secret): string {
  const value = token.reveal();
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw new RunbookError('INVALID_INPUT', 'the token is empty or holds characters that no token has');
  }
  return value;
}
