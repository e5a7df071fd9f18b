import {
  createDecipheriv,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
} from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { ml_kem768 } from '@noble/post-quantum/ml-kem.js';
import { base64nopad, bech32 } from '@scure/base';
import type { Identity } from 'age-encryption';
import type { Secret } from '../secret';

/*
 * The opening half of age's recipient `mlkem768x25519`: the file key is sealed by HPKE (RFC 9180, base mode) with X-Wing
 * (draft-connolly-cfrg-xwing-kem), HKDF-SHA256 and ChaCha20-Poly1305. The library does all of it in JavaScript, and
 * expands the key for each file anew; a holder waits for it. Here the key is expanded once for all files of one look, and
 * all but ML-KEM is what Node.js has. Sealing stays with the library.
 */

type Stanza = Parameters<Identity['unwrapFileKey']>[0][number];

const STANZA = 'mlkem768x25519';
const ENCAPSULATED_BYTES = { mlKem: 1088, x25519: 32 } as const;
const SEALED_BYTES = 32;
const TAG_BYTES = 16;
/** PKCS #8 (RFC 8410) of an X25519 private key, up to its 32 bytes. */
const X25519_PKCS8 = Buffer.from('302e020100300506032b656e04220420', 'hex');
const XWING_LABEL = Buffer.from('\\.//^\\', 'latin1');
/** HPKE's suite: X-Wing, HKDF-SHA256, ChaCha20-Poly1305. */
const SUITE = Buffer.concat([Buffer.from('HPKE'), Buffer.from('647a00010003', 'hex')]);
/** HPKE's mode base, without a pre-shared key. */
const KEY_SCHEDULE = Buffer.concat([
  Buffer.of(0),
  labeledExtract(Buffer.alloc(0), 'psk_id_hash', Buffer.alloc(0)),
  labeledExtract(Buffer.alloc(0), 'info_hash', Buffer.from(`age-encryption.org/${STANZA}`)),
]);

/** The private half of a hybrid age recipient, expanded. {@link forget} it when the files of one look are opened. */
export class HybridAgeIdentity implements Identity {
  readonly #mlKem: Uint8Array;
  readonly #x25519: KeyObject;
  readonly #x25519Public: Buffer;

  /** @throws TypeError for anything but `AGE-SECRET-KEY-PQ-1...` */
  constructor(identity: Secret<'private-key'>) {
    const seed = seedOf(identity.reveal());
    const expanded = createHash('shake256', { outputLength: 96 }).update(seed).digest();
    try {
      this.#mlKem = ml_kem768.keygen(expanded.subarray(0, 64)).secretKey;
      this.#x25519 = x25519Private(expanded.subarray(64));
      this.#x25519Public = x25519Raw(createPublicKey(this.#x25519));
    } finally {
      seed.fill(0);
      expanded.fill(0);
    }
  }

  /** The file key; null where no stanza is sealed to this identity. @throws TypeError for a stanza that is malformed */
  unwrapFileKey(stanzas: readonly Stanza[]): Uint8Array | null {
    for (const { args, body } of stanzas) {
      const [type, encoded] = args;
      if (type !== STANZA) continue;
      if (encoded === undefined || args.length !== 2 || body.length !== SEALED_BYTES) throw malformed();
      const opened = this.#open(base64nopad.decode(encoded), body);
      if (opened) return opened;
    }
    return null;
  }

  /** Overwrites what can be overwritten. It opens nothing any more. */
  forget(): void {
    this.#mlKem.fill(0);
  }

  #open(encapsulated: Uint8Array, sealed: Uint8Array): Uint8Array | undefined {
    const { mlKem, x25519 } = ENCAPSULATED_BYTES;
    if (encapsulated.length !== mlKem + x25519) throw malformed();
    const theirs = encapsulated.subarray(mlKem);
    const inner = ml_kem768.decapsulate(encapsulated.subarray(0, mlKem), this.#mlKem);
    const outer = diffieHellman({ privateKey: this.#x25519, publicKey: x25519Public(theirs) });
    const shared = createHash('sha3-256')
      .update(inner)
      .update(outer)
      .update(theirs)
      .update(this.#x25519Public)
      .update(XWING_LABEL)
      .digest();
    const secret = labeledExtract(shared, 'secret', Buffer.alloc(0));
    const key = labeledExpand(secret, 'key', 32);
    const nonce = labeledExpand(secret, 'base_nonce', 12);
    try {
      return opened(key, nonce, sealed);
    } finally {
      for (const each of [inner, outer, shared, secret, key, nonce]) each.fill(0);
    }
  }
}

function seedOf(identity: string): Uint8Array {
  const { prefix, bytes } = bech32.decodeToBytes(identity);
  if (prefix.toUpperCase() === 'AGE-SECRET-KEY-PQ-' && bytes.length === 32) return bytes;
  throw new TypeError('The identity is not a hybrid one.');
}

function malformed(): TypeError {
  return new TypeError('The stanza is malformed.');
}

function x25519Private(scalar: Uint8Array): KeyObject {
  const der = Buffer.concat([X25519_PKCS8, scalar]);
  try {
    return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  } finally {
    der.fill(0);
  }
}

/** As a JWK: OpenSSL takes ten times as long over the encoded form. */
function x25519Public(raw: Uint8Array): KeyObject {
  const x = Buffer.from(raw).toString('base64url');
  return createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x }, format: 'jwk' });
}

function x25519Raw(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url');
}

function opened(key: Buffer, nonce: Buffer, sealed: Uint8Array): Uint8Array | undefined {
  const decipher = createDecipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  const plaintext = decipher.update(sealed.subarray(0, -TAG_BYTES));
  try {
    decipher.final();
    return new Uint8Array(plaintext);
  } catch {
    return undefined;
  } finally {
    plaintext.fill(0);
  }
}

function labeledExtract(salt: Buffer, label: string, key: Buffer): Buffer {
  return createHmac('sha256', salt).update('HPKE-v1').update(SUITE).update(label).update(key).digest();
}

/** One block of HKDF's output. `bytes`: at most 32 */
function labeledExpand(secret: Buffer, label: string, bytes: number): Buffer {
  const block = createHmac('sha256', secret)
    .update(Buffer.of(0, bytes))
    .update('HPKE-v1')
    .update(SUITE)
    .update(label)
    .update(KEY_SCHEDULE)
    .update(Buffer.of(1))
    .digest();
  return block.subarray(0, bytes);
}
