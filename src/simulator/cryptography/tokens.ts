import { createCipheriv, createHash } from 'node:crypto';
import { createMessage, encrypt, readKey, type Key } from 'openpgp';
import { decodeStandardBase64 } from './encoding';
import { uniformBelow } from './shamir';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Characters of a token after its prefix. */
export const TOKEN_BODY_LENGTH = 24;

/** Source of `n` random bytes. */
export type RandomBytes = (n: number) => Buffer;

/** `length` characters of 0-9, A-Z, a-z, uniformly. */
export function randomBase62(length: number, random: RandomBytes): string {
  return Array.from({ length }, () => BASE62.charAt(uniformBelow(BASE62.length, random))).join('');
}

/** A service token. */
export function randomToken(random: RandomBytes): string {
  return `hvs.${randomBase62(TOKEN_BODY_LENGTH, random)}`;
}

/** A version 4 UUID. */
export function randomUuid(random: RandomBytes): string {
  const bytes = Buffer.from(random(16));
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/**
 * Random bytes that depend on the seed alone (AES-256-CTR key stream). For simulated secrets only.
 *
 * @param seed any number; the same seed gives the same bytes in the same order of calls
 */
export function seededRandom(seed: number): RandomBytes {
  const key = createHash('sha256').update(`simulated service seed ${seed}`).digest();
  const stream = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  return (n) => stream.update(Buffer.alloc(n));
}

/**
 * `encoded_token` of the one-time password variant: XOR of both texts in standard base64 without padding.
 *
 * @throws RangeError when the lengths differ
 */
export function encodeWithOneTimePassword(token: string, otp: string): string {
  const left = Buffer.from(token);
  const right = Buffer.from(otp);
  if (left.length !== right.length)
    throw new RangeError(`length of byte slices is not equivalent: ${left.length} != ${right.length}`);
  return Buffer.from(left.map((byte, index) => byte ^ right.readUInt8(index)))
    .toString('base64')
    .replace(/(?<!=)=+$/, '');
}

/** The text is not a PGP key. */
export class PgpKeyParseError extends Error {
  override readonly name = 'PgpKeyParseError';

  constructor(cause?: unknown) {
    super('error parsing PGP key: error parsing given PGP key: openpgp: invalid data: tag byte does not have MSB set', {
      cause,
    });
  }
}

/** The key parses and nothing can be encrypted to it: sign-only, expired or revoked. */
export class PgpKeyCannotEncryptError extends Error {
  override readonly name = 'PgpKeyCannotEncryptError';

  constructor(cause?: unknown) {
    super('cannot encrypt a message to this PGP key', { cause });
  }
}

/**
 * Fingerprint of the primary key in lower-case hex. Says nothing about whether the key can encrypt.
 *
 * @param publicKeyBase64 standard base64 of the binary key
 * @throws PgpKeyParseError
 */
export async function readPgpFingerprint(publicKeyBase64: string): Promise<string> {
  return (await readPgpKey(publicKeyBase64)).getFingerprint().toLowerCase();
}

/**
 * Encrypts a text (`encoded_token` of the PGP variant).
 *
 * @param publicKeyBase64 standard base64 of the binary key
 * @returns padded standard base64 of the binary OpenPGP message, and the fingerprint of the primary key
 * @throws PgpKeyParseError, PgpKeyCannotEncryptError
 */
export async function encryptWithPgp(
  publicKeyBase64: string,
  plaintext: string,
): Promise<{ encoded: string; fingerprint: string }> {
  const key = await readPgpKey(publicKeyBase64);
  try {
    await key.getEncryptionKey();
  } catch (error) {
    throw new PgpKeyCannotEncryptError(error);
  }
  const message = await createMessage({ binary: Buffer.from(plaintext) });
  // The declared type hangs on stream types of a package that is not installed.
  const encrypted: unknown = await encrypt({ message, encryptionKeys: key, format: 'binary' });
  if (!(encrypted instanceof Uint8Array)) throw new TypeError('expected a binary OpenPGP message');
  return { encoded: Buffer.from(encrypted).toString('base64'), fingerprint: key.getFingerprint().toLowerCase() };
}

async function readPgpKey(publicKeyBase64: string): Promise<Key> {
  const binaryKey = decodeStandardBase64(publicKeyBase64);
  if (binaryKey === undefined) throw new PgpKeyParseError();
  try {
    return await readKey({ binaryKey });
  } catch (error) {
    throw new PgpKeyParseError(error);
  }
}
