import { createCipheriv, createHash } from 'node:crypto';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Length of a token: `hvs.` and 24 characters. */
export const TOKEN_LENGTH = 'hvs.'.length + 24;

/**
 * Seeded source of all randomness in the simulated service: identifiers, tokens, key shares, and the choice of a
 * failure in a restart window. The same seed and the same order of calls produce the same values. For simulated secrets
 * only.
 */
export class SeededRandom {
  readonly #seed: number;
  readonly #stream;

  constructor(seed: number) {
    this.#seed = seed;
    const key = createHash('sha256').update(`simulated service seed ${seed}`).digest();
    this.#stream = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  }

  bytes(count: number): Buffer {
    return this.#stream.update(Buffer.alloc(count));
  }

  /** A number in [0, 1). */
  fraction(): number {
    return this.bytes(4).readUInt32BE(0) / 2 ** 32;
  }

  /** A uniform integer in [0, limit), with limit at most 256; discards bytes that would bias the result. */
  below(limit: number): number {
    const unbiased = 256 - (256 % limit);
    for (;;) {
      const value = this.bytes(1).readUInt8(0);
      if (value < unbiased) return value % limit;
    }
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return probability > 0 && this.fraction() < probability;
  }

  /** One element of a non-empty list. */
  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[Math.floor(this.fraction() * choices.length)] ?? choices[0];
  }

  /** A string of uniformly chosen characters 0-9, A-Z, and a-z. */
  base62(length: number): string {
    return Array.from({ length }, () => BASE62.charAt(this.below(BASE62.length))).join('');
  }

  /** A service token. */
  token(): string {
    return `hvs.${this.base62(TOKEN_LENGTH - 'hvs.'.length)}`;
  }

  /** A version 4 UUID. */
  uuid(): string {
    const bytes = Buffer.from(this.bytes(16));
    bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x40, 6);
    bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
    return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  }

  /** An independent source, so that one cluster's use of randomness does not affect another's. */
  derive(name: string): SeededRandom {
    return new SeededRandom(createHash('sha256').update(`${this.#seed}/${name}`).digest().readUIntBE(0, 6));
  }
}
