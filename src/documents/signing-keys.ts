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

/** The members of an Ed25519 private key in JWK form that count; others are dropped. */
const privateJwk = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  d: z.string(),
  x: z.string(),
});

/**
 * Reads an Ed25519 private JWK with nothing but what browsers have too. The key can sign and cannot be exported again. A
 * stored `x` that contradicts `d` is refused.
 *
 * @throws RunbookError `DOCUMENT_INVALID`, without anything of the text.
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
    needed: 'the key file that "runbook join" made, or for workers "runbook keys workers"',
    next: 'Take the right file. Where it is lost, make a new key and give its public line to the operators.',
  });
}

/**
 * Opens a person's key file.
 *
 * @param file text of the file: armored age, protected by a passphrase.
 * @throws RunbookError `DOCUMENT_INVALID` where it is no such file; {@link wrongPassphrase} where it does not open.
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
      needed: 'the file that "runbook join" made; it begins with -----BEGIN AGE ENCRYPTED FILE-----',
      next: `Take the right file, or its copy. ${WITHOUT_KEY}`,
    });
  }
}

const WITHOUT_KEY =
  'Without the key you cannot give your share where the inventory lists one of yours. Call the operators now, at a number that you know: somebody who stands by must give instead. Then make a new key ("runbook join") for the next time.';

/** What {@link wrongPassphrase} is about. */
const PASSPHRASE = 'passphrase of a key file';

/** The same for a wrong passphrase and for a file that was damaged inside: nobody can tell one from the other. */
function wrongPassphrase(): RunbookError {
  const message = 'The key file does not open: the passphrase is wrong or the file is damaged.';
  return new RunbookError('DOCUMENT_INVALID', message, {
    about: PASSPHRASE,
    needed: 'the passphrase that "runbook join" showed when it made this very file',
    next: `Look it up in your password store. ${WITHOUT_KEY}`,
  });
}

/** Whether another passphrase may open the file. */
export const mayBeMistyped = ({ about }: RunbookError): boolean => about === PASSPHRASE;
