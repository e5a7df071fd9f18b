import {
  createCipheriv,
  createDecipheriv,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';
import { decodeStandardBase64 } from './encoding';

/*
 * Encrypted activation tokens. The service's own construction is not public; clients see an opaque base64 text, so any
 * sound one serves: X25519 with a key pair per token, HKDF-SHA-256 over both public keys, AES-256-GCM.
 * Layout: ephemeral public key (32 bytes), ciphertext, tag (16 bytes).
 */
const PUBLIC_KEY_BYTES = 32;
const TAG_BYTES = 16;
const KEY_BYTES = 32;
const IV_BYTES = 12;
const CONTEXT = 'simulated secondary activation token v1';
/** DER frame of an X25519 public key; the 32 raw bytes follow. */
const SPKI_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');

/** Key pair of a secondary (`generate-public-key`). */
export interface SecondaryKeyPair {
  /** Standard base64 of the raw 32 bytes; sent to the primary as `secondary_public_key`. */
  readonly publicKey: string;
  readonly privateKey: KeyObject;
}

/** Makes the key pair of a secondary. */
export function createSecondaryKeyPair(): SecondaryKeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('x25519');
  return { publicKey: rawPublicKey(publicKey).toString('base64'), privateKey };
}

/**
 * Encrypts an activation token for one secondary.
 *
 * @param publicKey as `createSecondaryKeyPair` gives it
 * @returns standard base64, not a JWT
 * @throws Error when the public key is malformed
 */
export function encryptForSecondary(publicKey: string, plaintext: Buffer): string {
  const recipient = readPublicKey(decodeStandardBase64(publicKey));
  const ephemeral = generateKeyPairSync('x25519');
  const sender = rawPublicKey(ephemeral.publicKey);
  const secret = diffieHellman({ privateKey: ephemeral.privateKey, publicKey: recipient });
  const { key, iv } = deriveKey(secret, sender, rawPublicKey(recipient));
  const cipher = createCipheriv('aes-256-gcm', key, iv);
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([sender, ciphertext, cipher.getAuthTag()]).toString('base64');
}

/**
 * Decrypts what `encryptForSecondary` made.
 *
 * @throws Error when the token is malformed, was changed, or was made for another key
 */
export function decryptAsSecondary(privateKey: KeyObject, token: string): Buffer {
  const message = decodeStandardBase64(token);
  if (message === undefined || message.length < PUBLIC_KEY_BYTES + TAG_BYTES)
    throw new Error('malformed encrypted activation token');
  const sender = message.subarray(0, PUBLIC_KEY_BYTES);
  const secret = diffieHellman({ privateKey, publicKey: readPublicKey(sender) });
  const { key, iv } = deriveKey(secret, sender, rawPublicKey(createPublicKey(privateKey)));
  const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(message.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(message.subarray(PUBLIC_KEY_BYTES, -TAG_BYTES)), decipher.final()]);
}

/** The IV may be derived because each key encrypts one message only. */
function deriveKey(secret: Buffer, sender: Buffer, recipient: Buffer): { key: Buffer; iv: Buffer } {
  const salt = Buffer.concat([sender, recipient]);
  const bytes = Buffer.from(hkdfSync('sha256', secret, salt, CONTEXT, KEY_BYTES + IV_BYTES));
  return { key: bytes.subarray(0, KEY_BYTES), iv: bytes.subarray(KEY_BYTES) };
}

function rawPublicKey(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'spki' }).subarray(SPKI_PREFIX.length);
}

function readPublicKey(raw: Buffer | undefined): KeyObject {
  if (raw?.length !== PUBLIC_KEY_BYTES) throw new Error('malformed secondary public key');
  return createPublicKey({ key: Buffer.concat([SPKI_PREFIX, raw]), format: 'der', type: 'spki' });
}
