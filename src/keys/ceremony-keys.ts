import { randomUUID } from 'node:crypto';
import { Decrypter, Encrypter, generateHybridIdentity, identityToRecipient } from 'age-encryption';
import * as openpgp from 'openpgp';
import { RunbookError } from '../errors';
import { Secret } from '../secret';
import { avoidGeneratedKeyPairs } from './holder-keys';

avoidGeneratedKeyPairs();

/** The keys of one ceremony epoch. Private halves never leave the key record. */
export interface CeremonyKeys {
  /** age recipient (hybrid post-quantum, `age1pq1...`) to which holders encrypt. */
  readonly recipient: string;
  readonly identity: Secret<'private-key'>;
  /** What the service calls `pgp_key`: base64 of the binary OpenPGP public key. */
  readonly pgpPublicKey: string;
  /** Fingerprint of the OpenPGP key, lower-case hexadecimal, as the service reports it. */
  readonly pgpFingerprint: string;
  /** Armored OpenPGP private key. */
  readonly pgpPrivateKey: Secret<'private-key'>;
}

const ONE_DAY_MS = 24 * 3600 * 1000;

/**
 * Makes the keys of one ceremony epoch, both proven by a round trip: the service takes an OpenPGP key that cannot encrypt,
 * and then loses the token that it makes; and no holder is to learn first that his envelope does not open here.
 *
 * @throws RunbookError `INTERNAL` where a round trip fails.
 */
export async function createCeremonyKeys(): Promise<CeremonyKeys> {
  const identity = await generateHybridIdentity();
  const { privateKey, publicKey } = await openpgp.generateKey({
    type: 'ecc',
    curve: 'curve25519Legacy',
    userIDs: [{ name: 'replication-runbooks ceremony' }],
    // A service whose clock is behind refuses keys of the future.
    date: new Date(Date.now() - ONE_DAY_MS),
    format: 'object',
  });
  const keys: CeremonyKeys = {
    recipient: await identityToRecipient(identity),
    identity: new Secret('private-key', identity),
    pgpPublicKey: Buffer.from(publicKey.write()).toString('base64'),
    pgpFingerprint: publicKey.getFingerprint().toLowerCase(),
    pgpPrivateKey: new Secret('private-key', privateKey.armor()),
  };
  await Promise.all([proveEnvelopes(keys), proveEncryption(keys)]);
  return keys;
}

async function proveEnvelopes(keys: CeremonyKeys): Promise<void> {
  const sample = randomUUID();
  const encrypter = new Encrypter();
  encrypter.addRecipient(keys.recipient);
  const opened = await openWithIdentity(keys, await encrypter.encrypt(sample));
  if (opened === undefined || Buffer.from(opened).toString() !== sample) {
    throw new RunbookError('INTERNAL', 'The ceremony key does not open what is encrypted to it.');
  }
}

async function proveEncryption(keys: CeremonyKeys): Promise<void> {
  const sample = randomUUID();
  const encryptionKeys = await openpgp.readKey({ binaryKey: Buffer.from(keys.pgpPublicKey, 'base64') });
  const message = await openpgp.createMessage({ text: sample });
  // The library's result types do not resolve here: check what came.
  const encrypted: unknown = await openpgp.encrypt({ message, encryptionKeys, format: 'binary' });
  if (!ArrayBuffer.isView(encrypted)) throw new RunbookError('INTERNAL', 'The ceremony key does not encrypt.');
  const encoded = Buffer.from(encrypted.buffer, encrypted.byteOffset, encrypted.byteLength).toString('base64');
  const opened = await openToken(keys, 'operation-token', encoded);
  if (opened.reveal() !== sample)
    throw new RunbookError('INTERNAL', 'The ceremony key does not open what it encrypts.');
}

/**
 * Opens what the service returned as `encoded_token` (PGP variant): base64 of a binary OpenPGP message whose text is
 * the token.
 *
 * @throws RunbookError `RESPONSE_INVALID` where it does not open; nothing of it is repeated.
 */
export async function openToken<K extends 'operation-token' | 'root-token'>(
  keys: Pick<CeremonyKeys, 'pgpPrivateKey'>,
  kind: K,
  encodedToken: string,
): Promise<Secret<K>> {
  try {
    const decryptionKeys = await openpgp.readPrivateKey({ armoredKey: keys.pgpPrivateKey.reveal() });
    const message = await openpgp.readMessage({ binaryMessage: Buffer.from(encodedToken, 'base64') });
    const opened: { data: unknown } = await openpgp.decrypt({ message, decryptionKeys, format: 'utf8' });
    if (typeof opened.data === 'string' && opened.data !== '') return new Secret(kind, opened.data);
  } catch {
    // The library's error may quote what it read: fall through to the fixed text.
  }
  throw new RunbookError('RESPONSE_INVALID', 'The encoded token does not open with the key of this ceremony.');
}

/** Opens an age file with the ceremony's identity; undefined where it does not open. */
export async function openWithIdentity(
  keys: Pick<CeremonyKeys, 'identity'>,
  file: Uint8Array,
): Promise<Uint8Array | undefined> {
  try {
    const decrypter = new Decrypter();
    decrypter.addIdentity(keys.identity.reveal());
    return await decrypter.decrypt(file);
  } catch {
    return undefined;
  }
}
