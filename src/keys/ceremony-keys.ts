import { randomUUID } from 'node:crypto';
import * as openpgp from 'openpgp';
import { redact } from '../secret';
import { Decrypter, Encrypter, generateHybridIdentity, identityToRecipient } from 'age-encryption';
import { EXPORT_KEY } from '../contracts/ceremony';
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
  /** What the approvers of a token for this key should know about it. */
  readonly warnings: readonly string[];
}

/** Why a key cannot be used, and what its owner can do. Neither quotes anything of what was given. */
export interface RefusedRecipient {
  readonly refused: string;
  readonly next: string;
}

const { publicKey: ALGORITHM, keyFlags: FLAG } = openpgp.enums;

/** The algorithms to which the service's OpenPGP library can encrypt, whatever its version. */
const ALGORITHMS: readonly openpgp.enums.publicKey[] = [
  ALGORITHM.rsaEncryptSign,
  ALGORITHM.rsaEncrypt,
  ALGORITHM.elgamal,
  ALGORITHM.ecdh,
];

/** The service encrypts to old keys too (facts 13.15). Nothing is signed or decrypted with this. */
const OLD_KEYS_TOO: openpgp.Config = {
  ...openpgp.config,
  minRSABits: 1024,
  rejectPublicKeyAlgorithms: new Set(),
  rejectCurves: new Set(),
};

/**
 * Reads the key of a recipient and proves that it can encrypt: the service accepts a key that cannot, and then loses
 * the token that it generates (facts 11.9).
 *
 * @param text base64 of a binary OpenPGP public key, or an armored one
 */
export async function readRecipientKey(text: string): Promise<RecipientKey | RefusedRecipient> {
  const bytes = await bytesOfKey(text.trim());
  if (!Buffer.isBuffer(bytes)) return bytes;
  // The service takes the first key, too.
  const key = await openpgp.readKey({ binaryKey: bytes, config: OLD_KEYS_TOO }).catch(() => undefined);
  if (key === undefined) return refusal('not an OpenPGP key');
  const keys = await openpgp.readKeys({ binaryKeys: bytes, config: OLD_KEYS_TOO }).catch(() => [key]);
  if (keys.some((each) => each.isPrivate()))
    return refusal(
      'a PRIVATE key: treat it as exposed, because it is now stored in the Temporal database',
      `The recipient revokes that key, makes another one, and exports it: ${EXPORT_KEY}.`,
    );
  if (key.keyPacket.version !== 4) return refusal(`an OpenPGP key of version ${key.keyPacket.version}, not 4`);
  const usable = await usableKeysOf(key);
  if (usable.length === 0) return whyUnusable(key);
  return {
    fingerprint: key.getFingerprint().toLowerCase(),
    pgpPublicKey: bytes.toString('base64'),
    userIds: key.getUserIDs().map((userId) => redact(userId).slice(0, 100)),
    warnings: [
      ...warningsAbout([key, ...usable]),
      ...(keys.length > 1 ? [`${keys.length} keys were given: the token is encrypted to the first one only.`] : []),
    ],
  };
}

async function bytesOfKey(text: string): Promise<Buffer | RefusedRecipient> {
  const base64 = text.replace(/\s+/g, '');
  const decoded = Buffer.from(base64, 'base64');
  const isBase64 = decoded.length > 0 && withoutPadding(decoded.toString('base64')) === withoutPadding(base64);
  const armored = isBase64 ? decoded.toString('latin1').trim() : text;
  if (!armored.startsWith('-----BEGIN PGP ')) {
    if (isBase64) return decoded;
    return refusal(
      text.startsWith('keybase:') ? 'a name at Keybase, which is not looked up' : 'not the base64 of a binary key',
    );
  }
  try {
    // The library's result types do not resolve here, so check at run time.
    const { data }: { data: unknown } = (await openpgp.unarmor(armored)) as { data: unknown };
    if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  } catch {
    // The library's error may quote what it read.
  }
  return refusal('a damaged armored key');
}

const withoutPadding = (base64: string) => base64.replace(/(?<!=)=+$/, '');

const refusal = (refused: string, next = `Ask the recipient for a public key: ${EXPORT_KEY}.`): RefusedRecipient => ({
  refused,
  next,
});

/** The keys of `key` to which both this library and the service's encrypt: proven here, with the rules of both. */
async function usableKeysOf(key: openpgp.Key): Promise<(openpgp.Key | openpgp.Subkey)[]> {
  const usable: (openpgp.Key | openpgp.Subkey)[] = [];
  for (const each of [...key.subkeys, key]) {
    const { algorithm } = each.keyPacket;
    const keyId = each.getKeyID();
    try {
      if (!ALGORITHMS.includes(algorithm) || !isForMessages(each)) continue;
      await key.getEncryptionKey(keyId, undefined, undefined, OLD_KEYS_TOO);
      const message = await openpgp.createMessage({ text: randomUUID() });
      await openpgp.encrypt({
        ...{ message, encryptionKeys: key, encryptionKeyIDs: keyId, config: OLD_KEYS_TOO },
        format: 'binary',
      });
      usable.push(each);
    } catch {
      // The reason is found once no key is left.
    }
  }
  return usable;
}

/** The service encrypts only to keys that are marked for it: not to those without key flags, and not to those for storage. */
function isForMessages(key: openpgp.Key | openpgp.Subkey): boolean {
  return ((flagsOf(key)?.[0] ?? 0) & FLAG.encryptCommunication) !== 0;
}

/** The key flags of the latest signature of the owner. */
function flagsOf(key: openpgp.Key | openpgp.Subkey): Uint8Array | null | undefined {
  const signatures =
    'bindingSignatures' in key ? key.bindingSignatures : key.users.flatMap((user) => user.selfCertifications);
  return signatures.toSorted((a, b) => Number(b.created) - Number(a.created))[0]?.keyFlags;
}

const UNVERIFIABLE = /^(brainpool|secp256k1)/;
const UNUSABLE = 'a key that cannot encrypt: ';

/** Why no key of `key` can be used, and what its owner can do. */
async function whyUnusable(key: openpgp.Key): Promise<RefusedRecipient> {
  const { curve = '', bits = 0 } = key.getAlgorithmInfo();
  const another = `Ask the recipient for another key: ${EXPORT_KEY}.`;
  const renewed = `Ask the recipient to renew it (\`gpg --quick-set-expire FINGERPRINT 1y\`, then the same with \`'*'\` for its subkeys), and to export it again.`;
  if (key.users.every(({ userID }) => userID === null))
    return refusal(
      'a key without a user ID, which the service refuses',
      `Ask the recipient to export it from their own keyring, not from a key server: ${EXPORT_KEY}.`,
    );
  if (UNVERIFIABLE.test(curve))
    return refusal(
      `a key whose own signatures are on the curve ${curve}, which this program cannot verify`,
      'Ask the recipient for a key on Curve25519 or a NIST curve, or an RSA key. A subkey on that curve can be used with such a primary key.',
    );
  if (await key.isRevoked(undefined, undefined, undefined, OLD_KEYS_TOO))
    return refusal(`${UNUSABLE}it was revoked`, another);
  if (!isPast(key.keyPacket.created))
    return refusal(
      `${UNUSABLE}it was made in the future (${dayOf(key.keyPacket.created)})`,
      'Compare the clocks of the worker and of the machine on which the key was made.',
    );
  if (isShortRsa(key)) return refusal(`an RSA key with ${bits} bits, which is too short: at least 1024`, another);
  const expires = await key.getExpirationTime(undefined, OLD_KEYS_TOO).catch(() => null);
  if (isPast(expires)) return refusal(`${UNUSABLE}it expired on ${dayOf(expires)}`, renewed);

  const subkey = `Ask the recipient to add a subkey for encryption (\`gpg --quick-add-key FINGERPRINT cv25519 encr\`), and to export the key again.`;
  const reasons = await Promise.all([...key.subkeys, key].map((each) => whyUnused(key, each)));
  const [reason] = reasons.filter((each) => each !== undefined);
  if (reason === undefined)
    return refusal(
      `${UNUSABLE}it is for signatures only, or its encryption key is of a kind that this program does not support`,
      subkey,
    );
  return refusal(`${UNUSABLE}${reason}`, /expired/.test(reason) ? renewed : subkey);
}

/** Why one key is not used, if it seems to be for encryption; undefined for others, such as those for signatures. */
async function whyUnused(key: openpgp.Key, each: openpgp.Key | openpgp.Subkey): Promise<string | undefined> {
  const { algorithm } = each.keyPacket;
  const [flags = 0] = flagsOf(each) ?? [];
  if (algorithm === ALGORITHM.x25519 || algorithm === ALGORITHM.x448)
    return `its encryption key has the algorithm ${each.getAlgorithmInfo().algorithm}, which not every version of the service supports`;
  if (!ALGORITHMS.includes(algorithm)) return undefined;
  if (isShortRsa(each)) return `its encryption key is RSA with ${each.getAlgorithmInfo().bits} bits: at least 1024`;
  if (flags !== 0 && (flags & (FLAG.encryptCommunication | FLAG.encryptStorage)) === 0) return undefined;
  if ('bindingSignatures' in each) {
    const [binding] = each.bindingSignatures;
    if (binding && (await each.isRevoked(binding, each.keyPacket, undefined, OLD_KEYS_TOO)))
      return 'its encryption key was revoked';
    const expires = await each.getExpirationTime(undefined, OLD_KEYS_TOO).catch(() => null);
    if (isPast(expires)) return `its encryption key expired on ${dayOf(expires)}`;
  } else if (key.subkeys.length > 0) return undefined;
  if (flags === 0) return 'its encryption key has no key flags, without which the service does not use it';
  if ((flags & FLAG.encryptCommunication) === 0)
    return 'its encryption key is for storage only (key flag 0x08), and the service does not use it';
  return 'its encryption key has no valid signature of its owner';
}

function isShortRsa(key: openpgp.Key | openpgp.Subkey): boolean {
  const { algorithm, bits = 0 } = key.getAlgorithmInfo();
  return algorithm.startsWith('rsa') && bits < OLD_KEYS_TOO.minRSABits;
}

const isPast = (date: Date | number | null): date is Date => date !== null && Number(date) <= Date.now();
const dayOf = (date: Date) => date.toISOString().slice(0, 10);

/** What is old or rare about keys to which the service encrypts all the same. */
function warningsAbout(keys: readonly (openpgp.Key | openpgp.Subkey)[]): string[] {
  const strict = openpgp.config.minRSABits;
  const infos = keys.map((each) => each.getAlgorithmInfo());
  const kinds = infos.flatMap(({ algorithm, bits = 0, curve = '' }) => {
    if (UNVERIFIABLE.test(curve)) return [`curve ${curve}`];
    if (algorithm === 'dsa' || algorithm === 'elgamal') return [`${OLD_NAMES[algorithm]} with ${bits} bits`];
    return algorithm.startsWith('rsa') && bits < strict ? [`RSA with ${bits} bits`] : [];
  });
  if (kinds.length === 0) return [];
  const kind = [...new Set(kinds)].join(', ');
  const weak = infos.some(({ bits = strict }) => bits < strict)
    ? ' It is weak: anyone who can read the history of the run may be able to decrypt the token.'
    : '';
  return [
    `The recipient's key is of an old or rare kind (${kind}). Version 1.21 of the service encrypts to it; another version may lose the token.${weak} Prefer a key on Curve25519.`,
  ];
}

const OLD_NAMES = { dsa: 'DSA', elgamal: 'ElGamal' };

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
