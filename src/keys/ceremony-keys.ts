import { randomUUID } from 'node:crypto';
import * as openpgp from 'openpgp';
import { redact } from '../secret';
import { Decrypter, Encrypter, generateHybridIdentity, identityToRecipient } from 'age-encryption';
import { RunbookError } from '../errors';
import { Secret } from '../secret';
import { avoidGeneratedKeyPairs } from './holder-keys';

avoidGeneratedKeyPairs();

/** The keys of one ceremony epoch. Private halves never leave the key record. */
export interface CeremonyKeys {
  /** age recipient (hybrid post-quantum, `age1pq1...`) to which holders encrypt. */
  readonly recipient: string;
  readonly identity: Secret<'private-key'>;
  /** The service's `pgp_key`: base64 of the binary OpenPGP public key. */
  readonly pgpPublicKey: string;
  /** Fingerprint of the OpenPGP key, lower-case hexadecimal, as the service reports it. */
  readonly pgpFingerprint: string;
  /** Armored OpenPGP private key. */
  readonly pgpPrivateKey: Secret<'private-key'>;
}

const ONE_DAY_MS = 24 * 3600 * 1000;

/**
 * Creates the keys of one ceremony epoch and proves both by a round trip. The service accepts an OpenPGP key that
 * cannot encrypt, and then loses the token that it generates. And a holder must not be the first to find that envelopes
 * do not open here.
 *
 * @throws RunbookError `INTERNAL` if a round trip fails.
 */
export async function createCeremonyKeys(): Promise<CeremonyKeys> {
  const identity = await generateHybridIdentity();
  const { privateKey, publicKey } = await openpgp.generateKey({
    type: 'ecc',
    curve: 'curve25519Legacy',
    userIDs: [{ name: 'replication-runbooks ceremony' }],
    // A service whose clock is behind refuses keys from the future.
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
    throw new RunbookError('INTERNAL', 'The ceremony key cannot open what is encrypted to it.');
  }
}

async function proveEncryption(keys: CeremonyKeys): Promise<void> {
  const sample = randomUUID();
  const encryptionKeys = await openpgp.readKey({ binaryKey: Buffer.from(keys.pgpPublicKey, 'base64') });
  const message = await openpgp.createMessage({ text: sample });
  // The library's result types do not resolve here, so check at run time.
  const encrypted: unknown = await openpgp.encrypt({ message, encryptionKeys, format: 'binary' });
  if (!ArrayBuffer.isView(encrypted)) throw new RunbookError('INTERNAL', 'The ceremony key does not encrypt.');
  const encoded = Buffer.from(encrypted.buffer, encrypted.byteOffset, encrypted.byteLength).toString('base64');
  const opened = await openToken(keys, encoded);
  if (opened.reveal() !== sample) throw new RunbookError('INTERNAL', 'The ceremony key cannot open what it encrypts.');
}

/**
 * Opens the service's `encoded_token` (PGP variant): base64 of a binary OpenPGP message whose text is the token.
 *
 * @throws RunbookError `RESPONSE_INVALID` if it does not open; the error quotes nothing of it.
 */
export async function openToken(
  keys: Pick<CeremonyKeys, 'pgpPrivateKey'>,
  encodedToken: string,
): Promise<Secret<'operation-token'>> {
  try {
    const decryptionKeys = await openpgp.readPrivateKey({ armoredKey: keys.pgpPrivateKey.reveal() });
    const message = await openpgp.readMessage({ binaryMessage: Buffer.from(encodedToken, 'base64') });
    const opened: { data: unknown } = await openpgp.decrypt({ message, decryptionKeys, format: 'utf8' });
    if (typeof opened.data === 'string' && opened.data !== '') return new Secret('operation-token', opened.data);
  } catch {
    // The library's error may quote what it read: fall through to the fixed text.
  }
  throw new RunbookError('RESPONSE_INVALID', 'The encoded token does not open with the key of this ceremony.');
}

/** Opens an age file with the ceremony's identity; undefined if it does not open. */
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

/** The OpenPGP public key of a person who receives a token. */
export interface RecipientKey {
  /** Lower-case hexadecimal, as the service reports it. */
  readonly fingerprint: string;
  /** The service's `pgp_key`: base64 of the binary public key. */
  readonly pgpPublicKey: string;
  /** The owner that the key names: an unproven claim of its creator. */
  readonly userIds: readonly string[];
}

/** The algorithms to which the service's OpenPGP library can encrypt. */
const ALGORITHMS: readonly openpgp.enums.publicKey[] = [
  openpgp.enums.publicKey.rsaEncryptSign,
  openpgp.enums.publicKey.rsaEncrypt,
  openpgp.enums.publicKey.elgamal,
  openpgp.enums.publicKey.ecdh,
];

/**
 * Reads the key of a recipient and proves that it can encrypt: the service accepts a key that cannot, and then loses
 * the token that it generates (facts 11.9).
 *
 * @param text base64 of a binary OpenPGP public key
 * @returns the key, or a short reason why it is unusable, which quotes nothing of the text
 */
export async function readRecipientKey(text: string): Promise<RecipientKey | { readonly refused: string }> {
  const base64 = text.replace(/\s+/g, '');
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length === 0 || bytes.toString('base64').replace(/(?<!=)=+$/, '') !== base64.replace(/(?<!=)=+$/, ''))
    return { refused: 'not the base64 of a binary key' };
  let key: openpgp.Key;
  try {
    key = await openpgp.readKey({ binaryKey: bytes });
  } catch {
    return { refused: 'not an OpenPGP key' };
  }
  if (key.isPrivate())
    return { refused: 'a PRIVATE key: treat it as exposed, because it is now stored in the Temporal database' };
  if (key.keyPacket.version !== 4) return { refused: `an OpenPGP key of version ${key.keyPacket.version}, not 4` };
  try {
    const { keyPacket } = await key.getEncryptionKey();
    if (!ALGORITHMS.includes(keyPacket.algorithm))
      return { refused: 'a key with an algorithm that the service does not support' };
    const message = await openpgp.createMessage({ text: randomUUID() });
    await openpgp.encrypt({ message, encryptionKeys: key, format: 'binary' });
  } catch {
    return { refused: 'a key that cannot encrypt: for signatures only, expired or revoked' };
  }
  return {
    fingerprint: key.getFingerprint().toLowerCase(),
    pgpPublicKey: bytes.toString('base64'),
    userIds: key.getUserIDs().map((userId) => redact(userId).slice(0, 100)),
  };
}

/** Whether an encoded token is a message that only the owner of the key can open. */
export async function isEncryptedOnlyTo(key: RecipientKey, encodedToken: string): Promise<boolean> {
  try {
    const publicKey = await openpgp.readKey({ binaryKey: Buffer.from(key.pgpPublicKey, 'base64') });
    const message = await openpgp.readMessage({ binaryMessage: Buffer.from(encodedToken, 'base64') });
    const own = publicKey.getKeyIDs().map((id) => id.toHex());
    const recipients = message.getEncryptionKeyIDs().map((id) => id.toHex());
    return recipients.length > 0 && recipients.every((id) => own.includes(id));
  } catch {
    return false;
  }
}
