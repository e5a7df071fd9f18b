/**
 * So many key shares must come from people of this group. Our policy, not Shamir's: to the service any shares that reach
 * the threshold are as good as others.
 */
export interface ShareGroup {
  readonly group: string;
  readonly shares: number;
  /** Names of the roster that are in the group. */
  readonly members: readonly string[];
}

/** What one group has and lacks, by the shares in hand. */
export interface ShareGroupState {
  readonly group: string;
  readonly needed: number;
  readonly held: readonly string[];
  /** Members who could still give, where the group lacks shares. */
  readonly outOf: readonly string[];
}

/** How each group stands. Pure. */
export function groupStates(
  groups: readonly ShareGroup[],
  held: readonly string[],
  available: readonly string[],
): ShareGroupState[] {
  return groups.map(({ group, shares, members }) => ({
    group,
    needed: shares,
    held: held.filter((name) => members.includes(name)),
    outOf: available.filter((name) => members.includes(name) && !held.includes(name)),
  }));
}

/** Whether these very people satisfy every group. Pure. */
export function satisfiesGroups(groups: readonly ShareGroup[], names: readonly string[]): boolean {
  return groups.every(({ shares, members }) => names.filter((name) => members.includes(name)).length >= shares);
}

/**
 * Whether some set of exactly `size` out of `names` satisfies every group: only so many shares make a token, and one
 * person may stand for several groups. Pure; people in the same groups are alike, so that the search stays small.
 */
export function canSatisfyGroups(groups: readonly ShareGroup[], names: readonly string[], size: number): boolean {
  const people = [...new Set(names)];
  if (people.length < size) return false;
  const kinds = new Map<string, { readonly inGroups: readonly boolean[]; count: number }>();
  for (const name of people) {
    const inGroups = groups.map(({ members }) => members.includes(name));
    const kind = kinds.get(inGroups.join()) ?? { inGroups, count: 0 };
    kind.count += 1;
    kinds.set(inGroups.join(), kind);
  }
  const failed = new Set<string>();
  const search = (lacking: readonly number[], left: number): boolean => {
    const first = lacking.findIndex((each) => each > 0);
    if (first < 0) return true;
    const state = `${[...kinds.values()].map(({ count }) => count).join()} ${left}`;
    if (left === 0 || failed.has(state)) return false;
    for (const kind of kinds.values()) {
      if (kind.inGroups[first] !== true || kind.count === 0) continue;
      kind.count -= 1;
      const found = search(
        lacking.map((each, index) => (kind.inGroups[index] === true ? each - 1 : each)),
        left - 1,
      );
      kind.count += 1;
      if (found) return true;
    }
    failed.add(state);
    return false;
  };
  return search(
    groups.map(({ shares }) => shares),
    size,
  );
}

/** The rule in words, as people see it wherever they are asked. */
export function groupRule(groups: readonly Pick<ShareGroup, 'group' | 'shares'>[]): string {
  return groups.map(({ group, shares }) => `${shares} of ${group}`).join(' and ');
}

/** Said beside every rule of groups: nobody may take it for something that the service enforces. */
export const GROUPS_ARE_OURS = "our policy, checked by the workers; not Shamir's: the service takes any key shares";

/** Sets of shares that are tried at most before the holders are asked again: every set of 3 out of 5 shares. */
export const MAX_SETS = 10;

/** What of a share tells it from the others. */
interface Held {
  readonly holder: string;
}

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
