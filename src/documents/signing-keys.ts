import { armor, Decrypter } from 'age-encryption';
import type { CryptoKey, KeyObject } from 'jose';
import { z } from 'zod';
import { RunbookError } from '../errors';
import { Secret } from '../secret';
import type { PublicKeyEntry } from './public-keys';
import { thumbprint } from './public-keys';

/** An Ed25519 private key with its identifier. The key object never prints the key. */
export interface SigningKey extends PublicKeyEntry {
  readonly privateKey: CryptoKey | KeyObject;
}

/** The members of an Ed25519 private JWK that are used; others are dropped. */
const privateJwk = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  d: z.string(),
  x: z.string(),
});

/**
 * Reads an Ed25519 private JWK, using only what browsers also offer. The key can sign and cannot be exported again.
 * Refuses a stored `x` that contradicts `d`.
 *
 * @throws RunbookError `DOCUMENT_INVALID`; the error quotes nothing from the text.
 */
export async function importSigningKey(jwk: Secret<'private-key'>): Promise<SigningKey> {
  try {
    const { kty, crv, d, x } = privateJwk.parse(JSON.parse(jwk.reveal()));
    const { subtle } = globalThis.crypto;
    const privateKey = await subtle.importKey('jwk', { kty, crv, d, x }, 'Ed25519', false, ['sign']);
    const publicKey = await subtle.importKey('jwk', { kty, crv, x }, 'Ed25519', false, ['verify']);
    const sample = new TextEncoder().encode('runbooks/signing-key/v1');
    const signature = await subtle.sign('Ed25519', privateKey, sample);
    if (await subtle.verify('Ed25519', publicKey, signature, sample)) return { kid: thumbprint(x), x, privateKey };
  } catch {
    // The parser's own error quotes the text: fall through to the fixed one.
  }
  throw new RunbookError('DOCUMENT_INVALID', 'The signing key is not an Ed25519 private key in JWK form.', {
    needed: 'the key file that "runbook join" created; for workers, the one of "runbook keys workers"',
    next: 'Use the right file. If it is lost, create a new key and give its public line to the operators.',
  });
}

/**
 * Opens a person's key file.
 *
 * @param file text of the file: armored age, protected by a passphrase.
 * @throws RunbookError `DOCUMENT_INVALID` if it is not such a file; {@link wrongPassphrase} if it does not open.
 */
export async function readHolderKey(file: string, passphrase: Secret<'passphrase'>): Promise<SigningKey> {
  let jwk: string;
  const content = keyFileContent(file);
  try {
    const decrypter = new Decrypter();
    decrypter.addPassphrase(passphrase.reveal());
    jwk = await decrypter.decrypt(content, 'text');
  } catch {
    throw wrongPassphrase();
  }
  return importSigningKey(new Secret('private-key', jwk));
}

function keyFileContent(file: string): Uint8Array {
  try {
    return armor.decode(file.trim());
  } catch {
    throw new RunbookError('DOCUMENT_INVALID', 'This is not a key file, or it is damaged.', {
      needed: 'the file that "runbook join" created; it begins with -----BEGIN AGE ENCRYPTED FILE-----',
      next: `Use the right file, or its copy. ${WITHOUT_KEY}`,
    });
  }
}

const WITHOUT_KEY =
  'If it does not open, call the operators now, at a number that you already know: another person must act in your place. Then create a new key ("runbook join") for the next time.';

/** The subject of {@link wrongPassphrase}. */
const PASSPHRASE = 'passphrase of a key file';

/** One error for a wrong passphrase and for a damaged file: the two cannot be told apart. */
function wrongPassphrase(): RunbookError {
  const message = 'The key file does not open: the passphrase is wrong or the file is damaged.';
  return new RunbookError('DOCUMENT_INVALID', message, {
    about: PASSPHRASE,
    needed: 'the passphrase that "runbook join" showed when it created this file',
    next: `Look up the passphrase in your password manager. ${WITHOUT_KEY}`,
  });
}

/** Whether another passphrase might open the file. */
export const mayBeMistyped = ({ about }: RunbookError): boolean => about === PASSPHRASE;
