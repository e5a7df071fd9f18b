import { createHash } from 'node:crypto';
import { randomUuid, seededRandom, type RandomBytes } from './cryptography/tokens';

/**
 * Seeded source of everything that looks random in the simulated service: identifiers, tokens, key shares, the choice of
 * a failure inside a restart window. The same seed and the same order of calls give the same values.
 */
export class SeededRandom {
  readonly bytes: RandomBytes;
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
    this.bytes = seededRandom(seed);
  }

  /** A number in [0, 1). */
  fraction(): number {
    return this.bytes(4).readUInt32BE(0) / 2 ** 32;
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return probability > 0 && this.fraction() < probability;
  }

  /** One element of a list that is not empty. */
  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[Math.floor(this.fraction() * choices.length)] ?? choices[0];
  }

  uuid(): string {
    return randomUuid(this.bytes);
  }

  /** An independent source, so that one cluster's use of randomness does not move another's. */
  derive(name: string): SeededRandom {
    return new SeededRandom(createHash('sha256').update(`${this.#seed}/${name}`).digest().readUIntBE(0, 6));
  }
}
