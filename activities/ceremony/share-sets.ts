import type { KeyRecords, OpenedShare, RecordName } from '../../src/keys';

/**
 * Sets of shares that one burst tries at most where the service rejects some: the stated upper bound. It holds every set
 * of 3 out of 7 shares, of 4 out of 7, and of 5 out of 7.
 */
export const MAX_SETS = 35;
/**
 * Sets that one cluster rejects at most under one invitation, over all bursts and corrections. None is given to it twice.
 */
export const MAX_SETS_OF_EPOCH = 210;

/** What of a share tells it from the others. */
type Held = Pick<OpenedShare, 'holder'>;

/** Sets that this cluster rejected under this invitation, with exactly these envelopes. */
export class RejectedSets {
  readonly #records: KeyRecords;
  readonly #record: RecordName;
  readonly #cluster: string;
  readonly #known: Set<string>;

  private constructor(records: KeyRecords, record: RecordName, cluster: string, known: readonly string[]) {
    this.#records = records;
    this.#record = record;
    this.#cluster = cluster;
    this.#known = new Set(known);
  }

  static async read(records: KeyRecords, record: RecordName, cluster: string): Promise<RejectedSets> {
    return new RejectedSets(records, record, cluster, await records.rejectedSets(record, cluster));
  }

  get count(): number {
    return this.#known.size;
  }

  /** Whether the shares of these holders were rejected together. */
  has(shares: readonly OpenedShare[], holders: readonly string[]): boolean {
    return this.#known.has(markOf(shares.filter(({ holder }) => holders.includes(holder))));
  }

  /** Those that can be made of these shares. */
  among(shares: readonly OpenedShare[]): readonly (readonly OpenedShare[])[] {
    const byDigest = new Map(shares.map((share) => [share.envelopeDigest, share]));
    return [...this.#known].flatMap((mark) => {
      const set = mark.split(' ').flatMap((digest) => byDigest.get(digest) ?? []);
      return markOf(set) === mark ? [set] : [];
    });
  }

  async note(set: readonly OpenedShare[]): Promise<void> {
    const mark = markOf(set);
    this.#known.add(mark);
    await this.#records.noteRejectedSet(this.#record, this.#cluster, mark);
  }
}

function markOf(set: readonly OpenedShare[]): string {
  return set
    .map(({ envelopeDigest }) => envelopeDigest)
    .sort()
    .join(' ');
}

/** How many sets of `size` there are among `count` shares. */
export function countSets(count: number, size: number): number {
  if (size < 0 || size > count) return 0;
  let sets = 1;
  for (let taken = 1; taken <= size; taken += 1) sets = (sets * (count - size + taken)) / taken;
  return sets;
}

/**
 * The sets of `size` shares that one burst tries, {@link MAX_SETS} at most. Where all fit: the earliest holders first.
 * Where they do not: those with the newest share first, since bursts before this one tried the others.
 *
 * @param fits - whether the shares of these holders may make a token together; any may where it is not given
 */
export function setsToTry<S extends Held>(
  shares: readonly S[],
  size: number,
  fits: (holders: readonly string[]) => boolean = () => true,
): (readonly S[])[] {
  const allowed = (set: readonly S[]) => fits(set.map(({ holder }) => holder));
  const newest = shares.at(-1);
  if (countSets(shares.length, size) <= MAX_SETS || newest === undefined) return take(setsOf(shares, size), allowed);
  const earlier = shares.slice(0, -1);
  return take(
    (function* () {
      for (const set of setsOf(earlier, size - 1)) yield [...set, newest];
      yield* setsOf(earlier, size);
    })(),
    allowed,
  );
}

function take<T>(sets: Iterable<T>, allowed: (set: T) => boolean): T[] {
  const taken: T[] = [];
  for (const set of sets) {
    if (!allowed(set)) continue;
    if (taken.length === MAX_SETS) break;
    taken.push(set);
  }
  return taken;
}

/** Every set of `size` shares, the earliest holders first. */
function* setsOf<S extends Held>(shares: readonly S[], size: number): Generator<readonly S[]> {
  if (size === 0) {
    yield [];
    return;
  }
  for (const [index, share] of shares.entries())
    for (const rest of setsOf(shares.slice(index + 1), size - 1)) yield [share, ...rest];
}

/**
 * Holders whose share is proven to be bad: a rejected set in which it is the only one outside of the set that worked.
 * One bad share alone can never be in a set that works. Two can, where their holders made them so that they cancel out:
 * then the proof accuses whoever was tried with one of them. The finding says so.
 */
export function provenBad(good: readonly Held[], rejected: readonly (readonly Held[])[]): string[] {
  const bad = new Set<string>();
  for (const set of rejected) {
    const [only, ...more] = set.filter((share) => !good.includes(share));
    if (only !== undefined && more.length === 0) bad.add(only.holder);
  }
  return [...bad];
}
