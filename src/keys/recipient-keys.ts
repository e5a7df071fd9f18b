import { randomUUID } from 'node:crypto';
import * as openpgp from 'openpgp';
import { redact } from './redaction';

/** The OpenPGP public key of a person who gets a token. */
export interface RecipientKey {
  /** Lower-case hexadecimal, as the service reports it. */
  readonly fingerprint: string;
  /** What the service calls `pgp_key`: base64 of the binary public key. */
  readonly pgpPublicKey: string;
  /** Who the key says that it belongs to: a claim of whoever made it. */
  readonly userIds: readonly string[];
}

/** What the service's own OpenPGP library can encrypt to. */
const ALGORITHMS: readonly openpgp.enums.publicKey[] = [
  openpgp.enums.publicKey.rsaEncryptSign,
  openpgp.enums.publicKey.rsaEncrypt,
  openpgp.enums.publicKey.elgamal,
  openpgp.enums.publicKey.ecdh,
];

/**
 * Reads the key of a recipient and proves that something can be encrypted to it: the service takes a key that cannot, and
 * then loses the token that it makes (facts 11.9).
 *
 * @param text base64 of a binary OpenPGP public key
 * @returns the key, or in a few words why it is of no use; nothing of the text is repeated
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
    return { refused: 'a PRIVATE key: treat it as exposed, since this text stands in the database of Temporal now' };
  if (key.keyPacket.version !== 4) return { refused: `an OpenPGP key of version ${key.keyPacket.version}, not 4` };
  try {
    const { keyPacket } = await key.getEncryptionKey();
    if (!ALGORITHMS.includes(keyPacket.algorithm)) return { refused: 'of an algorithm that the service does not have' };
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

/** Whether an encoded token is a message that the holder of the key, and nobody else, can open. */
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
