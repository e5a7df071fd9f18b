import type { EnvelopeVerdict } from '../../src/contracts/ceremony';

/** A share in hand: whose, and the number of the signal that brought it. */
interface HeldShare {
  readonly holder: string;
  readonly arrival: number;
}

/** Sets of shares that one cluster rejected, and how many of them since the shares in hand changed. */
interface Rejected {
  readonly sets: (readonly HeldShare[])[];
  tried: number;
}

/** The shares of one epoch that were accepted, each holder's latest one, and how many are needed. */
export class HeldShares {
  readonly #shares: HeldShare[] = [];
  readonly #threshold: number;
  readonly #rejected = new Map<string, Rejected>();
  /** More than the threshold once the service rejected some. */
  #needed: number;

  constructor(threshold = 0) {
    this.#threshold = threshold;
    this.#needed = threshold;
  }

  /** Whose shares are in hand. */
  get held(): readonly string[] {
    return this.#shares.map(({ holder }) => holder);
  }

  /** How many are needed before the next token generation. */
  get needed(): number {
    return this.#needed;
  }

  get arrivals(): readonly number[] {
    return this.#shares.map(({ arrival }) => arrival);
  }

  /** Takes what was accepted. */
  take(verdicts: readonly EnvelopeVerdict[]): void {
    for (const { arrival, code, holder } of verdicts) {
      if (code !== 'accepted' || !holder) continue;
      const earlier = this.#shares.findIndex((each) => each.holder === holder.name);
      // A corrected share takes the place of the old one and makes a rejected set worth another try.
      if (earlier >= 0) {
        this.#shares.splice(earlier, 1);
        this.#needed = Math.max(this.#threshold, Math.min(this.#needed, this.#shares.length + 1));
      }
      this.#shares.push({ holder: holder.name, arrival });
      for (const rejected of this.#rejected.values()) rejected.tried = 0;
    }
  }

  /** What a cluster rejected, as a token generation there is told. */
  rejectedBy(cluster: string): { readonly rejected: readonly (readonly number[])[]; readonly tried: number } {
    const { sets = [], tried = 0 } = this.#rejected.get(cluster) ?? {};
    return { rejected: sets.map((set) => set.map(({ arrival }) => arrival)), tried };
  }

  /** A cluster rejected these shares together. */
  reject(cluster: string, set: readonly number[]): void {
    const rejected = this.#rejected.get(cluster) ?? { sets: [], tried: 0 };
    rejected.sets.push(this.#shares.filter(({ arrival }) => set.includes(arrival)));
    rejected.tried += 1;
    this.#rejected.set(cluster, rejected);
  }

  /**
   * Holders whose share is proven to be bad, once a set worked: a rejected set in which it is the only one outside of the set
   * that worked. One bad share alone can never be in a set that works. Two can, where their holders made them so that they
   * cancel out: then the proof accuses whoever was tried with one of them. The finding says so.
   */
  provenBad(cluster: string, good: readonly number[]): readonly string[] {
    const bad = new Set<string>();
    for (const set of this.#rejected.get(cluster)?.sets ?? []) {
      const [only, ...more] = set.filter(({ arrival }) => !good.includes(arrival));
      if (only !== undefined && more.length === 0) bad.add(only.holder);
    }
    return [...bad];
  }

  /** No set of what is in hand works: one more share, or a corrected one, makes another try worth it. */
  askForMore(): void {
    this.#needed = this.#shares.length + 1;
  }
}
