import { sha256 } from '@noble/hashes/sha2.js';
import { CompactSign, compactVerify } from 'jose';
import type { CryptoKey, JWK, KeyObject } from 'jose';
import { z } from 'zod';
import { jsonIn } from '../contracts/words';
import { RunbookError } from '../errors';
import type { SigningKey } from './signing-keys';
import { encodeBase64url, decodeBase64url } from './base64url';

/** The kinds of signed document (protocol: "Documents that cross trust borders"). */
export const DOCUMENT_TYPES = {
  invitation: 'runbooks-invitation-v1',
  share: 'runbooks-share-v1',
  token: 'runbooks-token-v1',
  approval: 'runbooks-approval-v1',
  decision: 'runbooks-decision-v1',
  control: 'runbooks-control-v1',
  rehearsal: 'runbooks-rehearsal-v1',
  rehearsalShare: 'runbooks-rehearsal-share-v1',
  request: 'runbooks-request-v1',
} as const;
export type DocumentType = (typeof DOCUMENT_TYPES)[keyof typeof DOCUMENT_TYPES];

/** Longest document in characters. */
export const MAX_DOCUMENT_LENGTH = 16 * 1024;

/** The form of a signed document. A match verifies nothing. */
export const SIGNED_DOCUMENT = /^eyJ[\w-]*\.[\w-]+\.[\w-]+$/;

/** A key that may have signed, with the name of the person or worker who owns it. */
export interface VerificationKey {
  readonly name: string;
  readonly publicKey: CryptoKey | KeyObject | JWK;
}

const protectedHeader = z.strictObject({ alg: z.literal('Ed25519'), typ: z.string(), kid: z.string() });

function refuse(why: string): never {
  throw new RunbookError('DOCUMENT_INVALID', `The document is refused: ${why}.`);
}

function digestOf(header: string, payload: string): string {
  return encodeBase64url(sha256(new TextEncoder().encode(`${header}.${payload}`)));
}

function parseJson(bytes: Uint8Array, what: string): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return refuse(`its ${what} is not JSON`);
  }
}

function splitDocument(jws: unknown): { header: string; payload: string; signature: string } {
  if (typeof jws !== 'string') refuse('it is not a string');
  if (jws.length > MAX_DOCUMENT_LENGTH) refuse('it is larger than 16 KiB');
  const [header, payload, signature, ...rest] = jws.split('.');
  if (!header || !payload || !signature || rest.length > 0)
    refuse('it does not have the three parts of a signed document');
  return { header, payload, signature };
}

/**
 * Digest of a signed document: base64url SHA-256 of the characters `header.payload`, as received. The signature is not
 * verified.
 *
 * @throws RunbookError `DOCUMENT_INVALID` if `jws` does not have three parts.
 */
export function documentDigest(jws: string): string {
  const { header, payload } = splitDocument(jws);
  return digestOf(header, payload);
}

/** The type and the key ID that a document claims. Unverified: use them only to choose what to check. */
export function claimedHeader(jws: string): { readonly typ?: string | undefined; readonly kid?: string | undefined } {
  const claimed = z.object({
    typ: z.string().optional().catch(undefined),
    kid: z.string().optional().catch(undefined),
  });
  return claimed.safeParse(claimedPart(jws, 0)).data ?? {};
}

/** The unverified payload. Use it only to choose whose keys to try. */
export function claimedPayload(jws: string): unknown {
  return claimedPart(jws, 1);
}

function claimedPart(jws: string, index: 0 | 1): unknown {
  return jsonIn(new TextDecoder().decode(decodeBase64url(jws.trim().split('.')[index] ?? '')));
}

/**
 * Signs `payload` as JWS Compact with the protected header `{alg, typ, kid}`.
 *
 * @throws RunbookError `DOCUMENT_INVALID` if the result would be larger than 16 KiB.
 */
export async function signDocument(typ: DocumentType, payload: object, key: SigningKey): Promise<string> {
  const jws = await new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
    .setProtectedHeader({ alg: 'Ed25519', typ, kid: key.kid })
    .sign(key.privateKey);
  if (jws.length > MAX_DOCUMENT_LENGTH) refuse('it would be larger than 16 KiB');
  return jws;
}

/**
 * Verifies a signed document strictly: exactly the header members `alg`, `typ` and `kid`, `alg` Ed25519, the given
 * `typ`, strict base64url, at most 16 KiB. Keys come only from `resolveKey`, never from the document.
 *
 * @param resolveKey returns the key with this `kid` from the inventory or the pins, with its owner's name.
 * @returns the payload, still unchecked, and as `signer` that name
 * @throws RunbookError `DOCUMENT_INVALID`; its text is fixed and quotes nothing from the document.
 */
export async function verifyDocument(
  jws: unknown,
  typ: DocumentType,
  resolveKey: (kid: string) => VerificationKey | undefined,
) {
  const { header, payload, signature } = splitDocument(jws);
  const headerBytes = decodeBase64url(header) ?? refuse('its header is not strict base64url');
  const payloadBytes = decodeBase64url(payload) ?? refuse('its payload is not strict base64url');
  if (decodeBase64url(signature)?.length !== 64) refuse('its signature is not strict base64url of 64 bytes');

  const rawHeader = parseJson(headerBytes, 'header');
  const parsed = protectedHeader.safeParse(rawHeader);
  if (!parsed.success) refuse('its header must contain exactly alg (Ed25519), typ and kid');
  // A repeated member would be invisible after parsing, so only the compact form without repetition is accepted.
  if (JSON.stringify(rawHeader) !== new TextDecoder().decode(headerBytes)) refuse('its header is not in compact form');
  if (parsed.data.typ !== typ) refuse(`it is not of type ${typ}`);

  const key = resolveKey(parsed.data.kid) ?? refuse('it is signed with an unknown key');
  try {
    await compactVerify(`${header}.${payload}.${signature}`, key.publicKey, { algorithms: ['Ed25519'] });
  } catch {
    refuse('its signature does not verify');
  }
  return {
    payload: parseJson(payloadBytes, 'payload'),
    digest: digestOf(header, payload),
    kid: parsed.data.kid,
    signer: key.name,
  };
}
