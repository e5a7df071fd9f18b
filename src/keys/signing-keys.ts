import { createPrivateKey, createPublicKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { RunbookError } from '../errors';
import { thumbprint } from '../documents/public-keys';
import { privateJwk } from '../documents/signing-keys';
import type { SigningKey } from '../documents/signing-keys';
import { Secret } from '../secret';
import { newEd25519PrivateKey } from './key-pairs';

export {
  formatPublicKey,
  importPublicKey,
  parseFingerprint,
  parsePublicKey,
  spokenFingerprint,
} from '../documents/public-keys';
export type { PublicKeyEntry } from '../documents/public-keys';
export type { SigningKey } from '../documents/signing-keys';

/** A signing key that was read or made by this process, at once and without waiting. */
interface LocalSigningKey extends SigningKey {
  readonly privateKey: KeyObject;
}

/** Makes a new Ed25519 signing key; returns it with its private JWK as text. */
export function newSigningKey(): { readonly key: LocalSigningKey; readonly jwk: Secret<'private-key'> } {
  const jwk = new Secret('private-key', JSON.stringify(newEd25519PrivateKey().export({ format: 'jwk' })));
  return { key: parseSigningKey(jwk), jwk };
}

/**
 * Reads an Ed25519 private JWK. The public half is derived from the private one: a stored `x` that contradicts `d` is
 * refused.
 *
 * @throws RunbookError `DOCUMENT_INVALID`, without anything of the text.
 */
export function parseSigningKey(jwk: Secret<'private-key'>): LocalSigningKey {
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
