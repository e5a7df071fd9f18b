import fc from 'fast-check';
import { MAX_SETS, countSets, setsToTry } from '../../../activities/ceremony/share-sets';
import { provenBad } from '../../../workflows/procedures/held-shares';

const shares = (count: number) => Array.from({ length: count }, (_, index) => ({ holder: `holder ${index + 1}` }));

/** What a service does with the sets, one after the other: a set works where none of its shares is bad. */
function burst(count: number, size: number, bad: ReadonlySet<number>) {
  const all = shares(count);
  const rejected: (typeof all)[number][][] = [];
  for (const set of setsToTry(all, size)) {
    if (!set.some((share) => bad.has(all.indexOf(share)))) return { good: set, rejected };
    rejected.push([...set]);
  }
  return { good: undefined, rejected };
}

describe('the sets of shares that are tried', () => {
  it.each([
    [5, 3, 10],
    [7, 3, 35],
    [7, 5, 21],
    [3, 4, 0],
    [4, 4, 1],
  ])('of %s shares, %s at a time, are %s', (count, size, sets) => {
    expect(countSets(count, size)).toBe(sets);
    expect(setsToTry(shares(count), size)).toHaveLength(Math.min(sets, MAX_SETS));
  });

  it('are all different, each of the right size, and never more than the bound', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 }), (count, size) => {
        const sets = setsToTry(shares(count), size);
        expect(sets).toHaveLength(Math.min(countSets(count, size), MAX_SETS));
        expect(
          new Set(
            sets.map((set) =>
              set
                .map(({ holder }) => holder)
                .sort()
                .join(),
            ),
          ).size,
        ).toBe(sets.length);
        expect(sets.every((set) => new Set(set).size === size)).toBe(true);
      }),
      { seed: 5, numRuns: 81 },
    );
  });

  it('begin with the newest share where not all fit: the others were tried before', () => {
    const all = shares(9);
    expect(countSets(9, 3)).toBeGreaterThan(MAX_SETS);
    const newest = all.at(-1);
    expect(
      setsToTry(all, 3)
        .slice(0, countSets(8, 2))
        .every((set) => newest !== undefined && set.includes(newest)),
    ).toBe(true);
  });

  it('find a good set wherever there is one and all sets fit', () => {
    fc.assert(
      fc.property(fc.subarray([0, 1, 2, 3, 4]), (bad) => {
        const { good } = burst(5, 3, new Set(bad));
        expect(good !== undefined).toBe(5 - bad.length >= 3);
      }),
      { seed: 5, numRuns: 128 },
    );
  });
});

describe('who is named for a bad share', () => {
  it('is never somebody whose share is good', () => {
    fc.assert(
      fc.property(fc.integer({ min: 3, max: 7 }), fc.subarray([0, 1, 2, 3, 4]), (count, bad) => {
        const { good, rejected } = burst(count, 3, new Set(bad));
        if (!good) return;
        const guilty = bad.map((index) => `holder ${index + 1}`);
        expect(guilty).toEqual(expect.arrayContaining(provenBad(good, rejected)));
      }),
      { seed: 5, numRuns: 500 },
    );
  });

  it('is everybody whose share is bad, where each was tried with good ones alone', () => {
    const { good, rejected } = burst(5, 3, new Set([0, 1]));
    expect(good).toBeDefined();
    expect(provenBad(good ?? [], rejected)).toEqual(['holder 1', 'holder 2']);
  });

  it('is nobody where no rejected set differs from the good one in a single share', () => {
    const [one, two, three, four, five] = shares(5);
    if (!one || !two || !three || !four || !five) throw new Error('five shares');
    // Two bad shares that were only ever tried together.
    expect(provenBad([three, four, five], [[one, two, three]])).toEqual([]);
    // A bad one that was never tried.
    expect(provenBad([one, two, three], [])).toEqual([]);
  });
});
