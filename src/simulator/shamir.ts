import { badRequest } from './messages';
import type { SeededRandom } from './random';

/*
 * Shamir's secret sharing over GF(2^8), in the share format of the service: one y byte per byte of the secret, followed
 * by the x coordinate.
 *
 * There is an audited library with the same format (`shamir-secret-sharing`). It is not used, because it takes
 * randomness only from the platform, so a seeded simulator would produce different shares in each run; it is
 * asynchronous; and its error texts are not those of the service. The tests combine shares created with that library.
 * This code protects only simulated secrets and is not constant-time.
 */

/** The Shamir seal of a cluster. A secondary takes over the seal of its primary, with the same key shares. */
export class Seal {
  readonly #rootKey: Buffer;
  /** In hex. */
  readonly keyShares: readonly string[];

  constructor(
    readonly shares: number,
    readonly threshold: number,
    random: SeededRandom,
  ) {
    this.#rootKey = random.bytes(32);
    this.keyShares = splitSecret(this.#rootKey, shares, threshold, random).map((share) => share.toString('hex'));
  }

  /**
   * Whether the shares, as many as the threshold, combine to the root key of the seal.
   *
   * @throws ServiceFault if they cannot be combined at all
   */
  opensWith(shares: readonly Buffer[]): boolean {
    return combineShares(shares).equals(this.#rootKey);
  }
}

/**
 * Splits a secret.
 *
 * @param threshold number of shares that recover the secret, at least 2
 */
function splitSecret(secret: Buffer, shares: number, threshold: number, random: SeededRandom): Buffer[] {
  if (threshold < 2 || shares < threshold || shares > 255)
    throw new RangeError(`cannot split a secret into ${shares} shares with threshold ${threshold}`);
  const parts = distinctCoordinates(shares, random).map((x) => {
    const part = Buffer.alloc(secret.length + 1);
    part[secret.length] = x;
    return { x, part };
  });
  for (const [index, byte] of secret.entries()) {
    const polynomial = [byte, ...random.bytes(threshold - 1)];
    for (const { x, part } of parts) part[index] = evaluate(polynomial, x);
  }
  return parts.map(({ part }) => part);
}

/**
 * Recovers the secret from shares of at least two bytes. Wrong shares, or too few, produce a wrong secret and no error.
 *
 * @throws ServiceFault for unequal lengths or a duplicate x coordinate
 */
function combineShares(parts: readonly Buffer[]): Buffer {
  const length = parts[0]?.length ?? 0;
  if (parts.some((part) => part.length !== length)) throw cannotCombine('all parts must be the same length');
  const points = parts.map((part) => ({ x: part.readUInt8(length - 1), y: part.subarray(0, -1) }));
  if (new Set(points.map(({ x }) => x)).size !== points.length) throw cannotCombine('duplicate part detected');
  const secret = Buffer.alloc(length - 1);
  for (const { x, y } of points) {
    const others = points.filter((other) => other.x !== x);
    const weight = others.reduce((product, other) => multiply(product, divide(other.x, x ^ other.x)), 1);
    for (const [index, value] of y.entries()) secret[index] = secret.readUInt8(index) ^ multiply(weight, value);
  }
  return secret;
}

function cannotCombine(reason: string) {
  return badRequest(`failed to compute root key: ${reason}`);
}

/** `count` distinct values from 1 to 255 in random order: the start of a Fisher-Yates shuffle. */
function distinctCoordinates(count: number, random: SeededRandom): number[] {
  const remaining = Array.from({ length: 255 }, (_, index) => index + 1);
  return Array.from({ length: count }, () => remaining.splice(random.below(remaining.length), 1)[0] ?? 0);
}

/** Evaluates a polynomial with Horner's method; the coefficients start with the constant. */
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

/** Quotient in GF(2^8) for nonzero `b`: multiplies by b^254, because the multiplicative group has order 255. */
function divide(a: number, b: number): number {
  let quotient = a;
  let power = b;
  for (let bit = 1; bit < 8; bit++) {
    power = multiply(power, power);
    quotient = multiply(quotient, power);
  }
  return quotient;
}
