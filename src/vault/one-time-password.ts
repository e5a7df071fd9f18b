import { RunbookError } from '../errors';
import { Secret } from '../secret';
import type { GeneratedTokenKind } from './answers';

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
