import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import { RunbookError } from '../errors';
import { Secret } from '../secret';

/** An Ed25519 private key with its identifier. The key object never prints the key. */
export interface SigningKey {
  /** RFC 7638 thumbprint of the public key. */
  readonly kid: string;
  /** Public key, base64url. */
  readonly x: string;
  readonly privateKey: KeyObject;
}

/** An Ed25519 public key as the inventory and the pins list it: `<kid>:<x>`. */
export interface PublicKeyEntry {
  readonly kid: string;
  readonly x: string;
}

const BASE64URL_32_BYTES = /^[A-Za-z0-9_-]{43}$/;
const privateJwk = z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), d: z.string(), x: z.string() });

/** RFC 7638 thumbprint (SHA-256, base64url) of the Ed25519 public key `x`. */
export function thumbprint(x: string): string {
  return createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest('base64url');
}

/** The public key `x` (base64url) as a key object. */
export function importPublicKey(x: string): KeyObject {
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
}

/**
 * Reads `<kid>:<x>`. Undefined unless both are strict base64url of 32 bytes and `kid` is the thumbprint of `x`, so that
 * a line copied with a mistake is noticed where it is written and not when a signature is refused.
 */
export function parsePublicKey(line: string): PublicKeyEntry | undefined {
  const [kid, x, ...rest] = line.split(':');
  if (kid === undefined || x === undefined || rest.length > 0) return undefined;
  if (!BASE64URL_32_BYTES.test(x) || Buffer.from(x, 'base64url').toString('base64url') !== x) return undefined;
  return thumbprint(x) === kid ? { kid, x } : undefined;
}

/** The line `<kid>:<x>` for inventory and pins. */
export function formatPublicKey(key: PublicKeyEntry): string {
  return `${key.kid}:${key.x}`;
}

/** The fingerprint as two people compare it by voice: hexadecimal in groups of four. */
export function spokenFingerprint(kid: string): string {
  return (
    Buffer.from(kid, 'base64url')
      .toString('hex')
      .match(/.{1,4}/g) ?? []
  ).join(' ');
}

/** Makes a new Ed25519 signing key; returns it with its private JWK as text. */
export function newSigningKey(): { readonly key: SigningKey; readonly jwk: Secret<'private-key'> } {
  const { privateKey } = generateKeyPairSync('ed25519');
  const jwk = new Secret('private-key', JSON.stringify(privateKey.export({ format: 'jwk' })));
  return { key: parseSigningKey(jwk), jwk };
}

/**
 * Reads an Ed25519 private JWK. The public half is derived from the private one: a stored `x` that contradicts `d` is
 * refused.
 *
 * @throws RunbookError `DOCUMENT_INVALID`, without anything of the text.
 */
export function parseSigningKey(jwk: Secret<'private-key'>): SigningKey {
  try {
    const { kty, crv, d, x: stated } = privateJwk.parse(JSON.parse(jwk.reveal()));
    const privateKey = createPrivateKey({ key: { kty, crv, d, x: stated }, format: 'jwk' });
    const x = createPublicKey(privateKey).export({ format: 'jwk' }).x;
    if (x === stated) return { kid: thumbprint(x), x, privateKey };
  } catch {
    // The parser's own error quotes the text: fall through to the fixed one.
  }
  throw new RunbookError('DOCUMENT_INVALID', 'The signing key is not an Ed25519 private key in JWK form.');
}
