/**
 * Shamir's secret sharing over GF(2^8), in the share format of the service: one y byte per byte of the secret, then the
 * x coordinate.
 *
 * Written here although an audited library of the same format exists (`shamir-secret-sharing`): the library takes its
 * randomness from the platform only, which would make a seeded simulator give other shares in each run; it is
 * asynchronous; and its error texts are not those of the service. The tests check both directions against vectors made
 * with that library. It guards simulated secrets only and makes no promise about timing.
 */

/** Secret sharing input that the service refuses, with the service's text as message. */
export class ShamirError extends Error {
  override readonly name = 'ShamirError';
}

/**
 * Splits a secret.
 *
 * @param secret at least one byte
 * @param shares how many shares, 1 to 255
 * @param threshold how many of them recover the secret; 1 needs `shares` 1, and the share is then the secret itself
 * @param random source of `n` random bytes
 * @throws ShamirError
 */
export function splitSecret(
  secret: Buffer,
  shares: number,
  threshold: number,
  random: (n: number) => Buffer,
): Buffer[] {
  if (secret.length === 0) throw new ShamirError('cannot split an empty secret');
  if (!Number.isInteger(shares) || !Number.isInteger(threshold) || threshold < 1)
    throw new ShamirError('parts and threshold must be whole numbers of at least 1');
  if (shares < threshold) throw new ShamirError('parts cannot be less than threshold');
  if (shares > 255) throw new ShamirError('parts cannot exceed 255');
  if (threshold === 1) {
    if (shares > 1) throw new ShamirError('threshold must be greater than one for multiple shares');
    return [Buffer.from(secret)];
  }

  const parts = distinctCoordinates(shares, random).map((x) => {
    const part = Buffer.alloc(secret.length + 1);
    part[secret.length] = x;
    return { x, part };
  });
  for (const [index, byte] of secret.entries()) {
    const polynomial = [byte, ...random(threshold - 1)];
    for (const { x, part } of parts) part[index] = evaluate(polynomial, x);
  }
  return parts.map(({ part }) => part);
}

/**
 * Recovers the secret from shares. Wrong shares, or too few, give a wrong secret and no error.
 *
 * @throws ShamirError with the service's text: fewer than two parts, unequal lengths, the same x coordinate twice
 */
export function combineShares(parts: readonly Buffer[]): Buffer {
  const [first] = parts;
  if (first === undefined || parts.length < 2)
    throw new ShamirError('less than two parts cannot be used to reconstruct the secret');
  if (first.length < 2) throw new ShamirError('parts must be at least two bytes');
  if (parts.some((part) => part.length !== first.length)) throw new ShamirError('all parts must be the same length');
  const points = parts.map((part) => ({ x: part.readUInt8(part.length - 1), y: part.subarray(0, -1) }));
  if (new Set(points.map(({ x }) => x)).size !== points.length) throw new ShamirError('duplicate part detected');

  const secret = Buffer.alloc(first.length - 1);
  for (const { x, y } of points) {
    const weight = points
      .filter((other) => other.x !== x)
      .reduce((product, other) => multiply(product, divide(other.x, x ^ other.x)), 1);
    for (const [index, value] of y.entries()) secret[index] = secret.readUInt8(index) ^ multiply(weight, value);
  }
  return secret;
}

/** `count` different values of 1 to 255 in random order: the head of a Fisher-Yates shuffle. */
function distinctCoordinates(count: number, random: (n: number) => Buffer): number[] {
  const remaining = Array.from({ length: 255 }, (_, index) => index + 1);
  const chosen: number[] = [];
  while (chosen.length < count) chosen.push(...remaining.splice(uniformBelow(remaining.length, random), 1));
  return chosen;
}

/** A uniform number in [0, limit), limit at most 256; bytes that would bias the result are thrown away. */
export function uniformBelow(limit: number, random: (n: number) => Buffer): number {
  const unbiased = 256 - (256 % limit);
  for (;;) {
    const value = random(1).readUInt8(0);
    if (value < unbiased) return value % limit;
  }
}

/** Horner's scheme; coefficients from the constant upwards. */
function evaluate(coefficients: readonly number[], x: number): number {
  return coefficients.reduceRight((sum, coefficient) => multiply(sum, x) ^ coefficient, 0);
}

/** Product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1. */
function multiply(a: number, b: number): number {
  let product = 0;
  for (let left = a, right = b; right > 0; right >>= 1) {
    if (right & 1) product ^= left;
    left = left & 0x80 ? (left << 1) ^ 0x11b : left << 1;
  }
  return product;
}

/** Quotient in GF(2^8); `b` is not 0. */
function divide(a: number, b: number): number {
  return multiply(a, inverse(b));
}

/** b^254: the multiplicative group has order 255. */
function inverse(b: number): number {
  let power = b;
  let result = 1;
  for (let bit = 1; bit < 8; bit++) {
    power = multiply(power, power);
    result = multiply(result, power);
  }
  return result;
}
