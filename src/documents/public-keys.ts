import { sha256 } from '@noble/hashes/sha2.js';
import { hex } from '@scure/base';
import type { JWK } from 'jose';
import { spelled } from '../contracts/words';
import { decodeBase64url, encodeBase64url } from './base64url';

/** An Ed25519 public key, listed in the inventory and the pins as `<kid>:<x>`. */
export interface PublicKeyEntry {
  /** RFC 7638 thumbprint of the key. */
  readonly kid: string;
  /** The key, base64url. */
  readonly x: string;
}

/** A workers' public key that somebody pinned for an environment. */
export interface PinnedKey extends PublicKeyEntry {
  readonly environment: string;
}

const BASE64URL_32_BYTES = /^[A-Za-z0-9_-]{43}$/;

/** RFC 7638 thumbprint (SHA-256, base64url) of the Ed25519 public key `x`. */
export function thumbprint(x: string): string {
  return encodeBase64url(sha256(new TextEncoder().encode(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`)));
}

/** The public key `x` (base64url) in the form that verifies signatures. */
export function importPublicKey(x: string): JWK {
  return { kty: 'OKP', crv: 'Ed25519', x };
}

/**
 * Reads `<kid>:<x>`. Returns undefined unless both are strict base64url of 32 bytes and `kid` is the thumbprint of `x`.
 * A miscopied line is therefore noticed at once, and not when a signature is refused.
 */
export function parsePublicKey(line: string): PublicKeyEntry | undefined {
  const [kid, x, ...rest] = line.split(':');
  if (kid === undefined || x === undefined || rest.length > 0) return undefined;
  if (!BASE64URL_32_BYTES.test(x) || decodeBase64url(x) === undefined) return undefined;
  return thumbprint(x) === kid ? { kid, x } : undefined;
}

/** The line `<kid>:<x>` for inventory and pins. */
export function formatPublicKey(key: PublicKeyEntry): string {
  return `${key.kid}:${key.x}`;
}

/** The fingerprint in the form that two people compare by voice: hexadecimal in groups of four. */
export function spokenFingerprint(kid: string): string {
  const bytes = decodeBase64url(kid);
  return bytes === undefined ? 'unreadable' : spelled(hex.encode(bytes));
}

/**
 * Reads a fingerprint as a person wrote it down: hexadecimal with or without spaces, the thumbprint itself, or the
 * complete line `<kid>:<x>`.
 *
 * @returns the thumbprint (`kid`); undefined if the text is none of these, or is incomplete.
 */
export function parseFingerprint(text: string): string | undefined {
  const trimmed = text.trim();
  const line = parsePublicKey(trimmed);
  if (line !== undefined) return line.kid;
  const digits = trimmed.replace(/[\s:-]+/g, '').toLowerCase();
  if (/^[0-9a-f]{64}$/.test(digits)) return encodeBase64url(hex.decode(digits));
  return BASE64URL_32_BYTES.test(trimmed) && decodeBase64url(trimmed) !== undefined ? trimmed : undefined;
}
