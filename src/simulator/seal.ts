import { timingSafeEqual } from 'node:crypto';
import { combineShares, splitSecret } from './cryptography/shamir';
import type { SeededRandom } from './random';

/** The Shamir seal of a cluster. A secondary takes over its primary's, with the same key shares. */
export class Seal {
  readonly #rootKey: Buffer;
  readonly keyShares: readonly string[];

  constructor(
    readonly shares: number,
    readonly threshold: number,
    random: SeededRandom,
  ) {
    this.#rootKey = random.bytes(32);
    this.keyShares = splitSecret(this.#rootKey, shares, threshold, random.bytes).map((share) => share.toString('hex'));
  }

  opens(key: Buffer): boolean {
    return key.length === this.#rootKey.length && timingSafeEqual(key, this.#rootKey);
  }

  /** Whether shares, as many as the threshold, open the seal. */
  opensWithShares(shares: readonly Buffer[]): boolean {
    const [only] = shares;
    return this.opens(this.threshold === 1 && only !== undefined ? only : combineShares(shares));
  }
}
