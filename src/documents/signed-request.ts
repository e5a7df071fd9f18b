/**
 * Requests to the gateway's mailbox (docs/mailbox.md). A person signs each request with their own key, so
 * that the gateway needs no passwords and no sessions.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { z } from 'zod';
import { RunbookError } from '../errors';
import { encodeBase64url } from './base64url';
import { DOCUMENT_TYPES, signDocument } from './documents';
import type { SigningKey } from './signing-keys';

/** The scheme of the header `Authorization`. */
export const REQUEST_SCHEME = 'Runbooks';

/** How far the clocks of a person's machine and of the gateway may differ. */
export const REQUEST_WINDOW_S = 60;

/** What a person signs about one request. */
export const requestPayload = z.strictObject({
  /** Origin of the gateway, as the person entered it. */
  aud: z.string().max(300),
  method: z.enum(['GET', 'POST']),
  /** With the query. */
  path: z.string().max(2_000),
  /** {@link bodyDigest} of the body; empty if there is none. */
  body: z.string().max(43),
  /** Name of the person in the inventory. */
  name: z.string().min(1).max(100),
  /** Seconds since 1970. */
  iat: z.int(),
  /** Names this request: it is accepted once. */
  jti: z.uuid(),
});
export type RequestPayload = z.infer<typeof requestPayload>;

/** Base64url SHA-256 of a body; empty for an empty body. */
export function bodyDigest(body: Uint8Array): string {
  return body.length === 0 ? '' : encodeBase64url(sha256(body));
}

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * The origin of a gateway, such as `https://runbooks.example.org:8421`.
 *
 * @param text the address as a person entered it
 * @throws RunbookError `INVALID_INPUT`; `INSECURE_ADDRESS` for plain HTTP to another machine
 */
export function gatewayOrigin(text: string): string {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol) || url.href !== `${url.origin}/`)
    throw new RunbookError('INVALID_INPUT', 'This is not the address of a gateway.', {
      needed: 'an address such as https://runbooks.example.org:8421, without a path',
      next: 'Ask the operators for the address of the gateway.',
    });
  if (url.protocol === 'https:' || LOOPBACK.test(url.hostname)) return url.origin;
  throw new RunbookError('INSECURE_ADDRESS', 'Plain HTTP to a gateway would show plans and names to the network.', {
    observed: url.origin,
    needed: 'https, or an address of this machine',
    next: 'Ask the operators for the https address of the gateway.',
  });
}

/** One request, before it is signed. */
export interface UnsignedRequest {
  /** {@link gatewayOrigin} of the gateway. */
  readonly origin: string;
  readonly method: RequestPayload['method'];
  /** With the query. */
  readonly path: string;
  /** Exactly the text that is sent as UTF-8. */
  readonly body?: string | undefined;
  /** Name of the person in the inventory, whose key signs. */
  readonly name: string;
  /** Milliseconds since 1970. */
  readonly now?: number | undefined;
}

/**
 * The value of the header `Authorization` for one request. Sign again to send the request again.
 *
 * @throws RunbookError `DOCUMENT_INVALID` if the result would be larger than 16 KiB
 */
export async function signRequest(
  { origin: aud, method, path, body = '', name, now = Date.now() }: UnsignedRequest,
  key: SigningKey,
): Promise<string> {
  const payload: RequestPayload = {
    ...{ aud, method, path, name },
    body: bodyDigest(new TextEncoder().encode(body)),
    iat: Math.floor(now / 1000),
    jti: globalThis.crypto.randomUUID(),
  };
  return `${REQUEST_SCHEME} ${await signDocument(DOCUMENT_TYPES.request, payload, key)}`;
}
