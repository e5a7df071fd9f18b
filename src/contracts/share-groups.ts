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
