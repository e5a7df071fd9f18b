/** Sets of shares that are tried at most before the holders are asked again: every set of 3 out of 5 shares. */
export const MAX_SETS = 10;

/** How many sets of `size` there are among `count` shares. */
export function countSets(count: number, size: number): number {
  if (size < 0 || size > count) return 0;
  let sets = 1;
  for (let taken = 1; taken <= size; taken += 1) sets = (sets * (count - size + taken)) / taken;
  return sets;
}

/**
 * The sets of `size` shares to try, {@link MAX_SETS} at most. Where there are no more than that: the earliest holders
 * first. Where there are: those with the newest share first, since the others were tried before it came.
 *
 * @param allowed - whether a set may be tried; any may where it is not given
 */
export function setsToTry<S>(
  shares: readonly S[],
  size: number,
  allowed: (set: readonly S[]) => boolean = () => true,
): (readonly S[])[] {
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
function* setsOf<S>(shares: readonly S[], size: number): Generator<readonly S[]> {
  if (size === 0) {
    yield [];
    return;
  }
  for (const [index, share] of shares.entries())
    for (const rest of setsOf(shares.slice(index + 1), size - 1)) yield [share, ...rest];
}
