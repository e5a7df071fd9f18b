import { RunbookError } from '../errors';
import { Secret } from '../secret';
import type { Fields } from './fields';

/** Kinds of token that a generation attempt ends in. */
export type GeneratedTokenKind = 'operation-token' | 'root-token';

/** State of the generation attempt (interface section 2; facts 5.1). */
export interface GenerationAttempt<K extends GeneratedTokenKind = GeneratedTokenKind> {
  readonly started: boolean;
  /** Absent where no attempt runs. */
  readonly nonce?: string;
  /** Key shares accepted so far. Falls back to 0 when a full set does not combine. */
  readonly progress: number;
  /** Key shares needed. */
  readonly required: number;
  readonly complete: boolean;
  /** Lower-case hex fingerprint of the PGP key that the token will be encrypted with. */
  readonly pgpFingerprint?: string;
  /** Given once, by the start that generated it. */
  readonly otp?: Secret<'one-time-password'>;
  /** Characters of the one-time password; absent or 0 before version 1.0 of the service. */
  readonly otpLength?: number;
  /** Given once, by the last share: encrypted with the PGP key, or to be decoded with {@link decodeOneTimePassword}. */
  readonly encodedToken?: Secret<K>;
}

/** Reads a generation attempt from flat fields. */
export function readGenerationAttempt<K extends GeneratedTokenKind>(kind: K, fields: Fields): GenerationAttempt<K> {
  const otp = fields.filledText('otp');
  const encoded = fields.filledText('encoded_token') ?? fields.filledText('encoded_root_token');
  return {
    started: fields.flag('started') ?? false,
    nonce: fields.filledText('nonce'),
    progress: fields.neededNumber('progress'),
    required: fields.neededNumber('required'),
    complete: fields.neededFlag('complete'),
    pgpFingerprint: fields.filledText('pgp_fingerprint')?.toLowerCase(),
    otp: otp === undefined ? undefined : new Secret('one-time-password', otp),
    otpLength: fields.number('otp_length'),
    encodedToken: encoded === undefined ? undefined : new Secret(kind, encoded),
  };
}

const LEGACY_OTP_BYTES = 16;

/**
 * The token inside an encoded token: base64 of the token XOR the one-time password (facts 5.2). Tokens of before version
 * 1.0 (16 random bytes as one-time password) become an UUID.
 *
 * @throws RunbookError INVALID_INPUT where the two do not fit each other.
 */
export function decodeOneTimePassword<K extends GeneratedTokenKind>(
  encodedToken: Secret<K>,
  otp: Secret<'one-time-password'>,
): Secret<K> {
  const encoded = Buffer.from(encodedToken.reveal(), 'base64');
  const password = Buffer.from(otp.reveal(), 'utf8');
  if (encoded.length > 0 && encoded.length === password.length) {
    return new Secret(encodedToken.kind, xor(encoded, password).toString('utf8'));
  }
  const legacy = Buffer.from(otp.reveal(), 'base64');
  if (encoded.length === LEGACY_OTP_BYTES && legacy.length === LEGACY_OTP_BYTES) {
    const hex = xor(encoded, legacy).toString('hex');
    const uuid = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
    return new Secret(encodedToken.kind, uuid);
  }
  throw new RunbookError('INVALID_INPUT', 'the encoded token and the one-time password differ in length', {
    observed: `${encoded.length} and ${password.length} bytes`,
    needed: 'equal lengths',
  });
}

function xor(left: Buffer, right: Buffer): Buffer {
  return Buffer.from(left.map((byte, position) => byte ^ (right[position] ?? 0)));
}
