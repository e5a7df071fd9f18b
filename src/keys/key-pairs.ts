import { createPrivateKey, randomBytes, webcrypto } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

/** PKCS #8 (RFC 8410) of an Ed25519 private key, up to its 32 bytes. */
const ED25519_PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');

/**
 * A new Ed25519 private key, from 32 random bytes. Not by `generateKeyPair`: Node.js 20 hangs for ever where the garbage
 * collector meets that job while its key is exported as a JWK (docs/decisions.md, decision 33).
 */
export function newEd25519PrivateKey(): KeyObject {
  const seed = randomBytes(32);
  const der = Buffer.concat([ED25519_PKCS8, seed]);
  try {
    return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  } finally {
    seed.fill(0);
    der.fill(0);
  }
}

const AVOIDED = new Set(['X25519', 'Ed25519']);
const GUARDED = Symbol.for('replication-runbooks.webcrypto-guarded');

/**
 * The same for libraries that generate by the Web Cryptography API and export at once, as OpenPGP.js does: for the two
 * curves it then says that it does not support them, and the library takes its own implementation.
 */
export function avoidGeneratedKeyPairs(subtle: webcrypto.SubtleCrypto = webcrypto.subtle): void {
  const guarded = subtle as webcrypto.SubtleCrypto & { [GUARDED]?: true };
  if (guarded[GUARDED]) return;
  const generate = subtle.generateKey.bind(subtle) as (...given: readonly unknown[]) => Promise<unknown>;
  const guard = (algorithm: string | { readonly name: string }, ...rest: readonly unknown[]): Promise<unknown> =>
    AVOIDED.has(typeof algorithm === 'string' ? algorithm : algorithm.name)
      ? Promise.reject(new DOMException('Key pairs of this curve are not generated here.', 'NotSupportedError'))
      : generate(algorithm, ...rest);
  Object.defineProperty(subtle, 'generateKey', { value: guard, configurable: true, writable: true });
  guarded[GUARDED] = true;
}
