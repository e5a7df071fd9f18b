import { canSatisfyGroups, groupStates, satisfiesGroups } from '../../src/contracts/share-groups';
import type { ShareGroup } from '../../src/contracts/share-groups';

const security: ShareGroup = { group: 'security', shares: 1, members: ['ada', 'bert'] };
const finance: ShareGroup = { group: 'finance', shares: 2, members: ['bert', 'cleo', 'dora'] };

/** Every set of `size`, tried one by one. */
function byTrying(groups: readonly ShareGroup[], names: readonly string[], size: number): boolean {
  const sets = (rest: readonly string[], left: number): string[][] =>
    left === 0
      ? [[]]
      : rest.flatMap((name, index) => sets(rest.slice(index + 1), left - 1).map((more) => [name, ...more]));
  return sets(names, size).some((set) => satisfiesGroups(groups, set));
}

describe('groups of key holders', () => {
  it('are met by the members among those who gave', () => {
    expect(satisfiesGroups([security, finance], ['ada', 'cleo', 'dora'])).toBe(true);
    expect(satisfiesGroups([security, finance], ['bert', 'cleo'])).toBe(true);
    expect(satisfiesGroups([security, finance], ['cleo', 'dora', 'emil'])).toBe(false);
    expect(satisfiesGroups([], [])).toBe(true);
  });

  it('need a set of the size that makes a token, not any number of shares', () => {
    const groups = [
      { ...security, shares: 2 },
      { ...finance, members: ['cleo', 'dora'] },
    ];
    const all = ['ada', 'bert', 'cleo', 'dora', 'emil'];
    expect(canSatisfyGroups(groups, all, 4)).toBe(true);
    expect(canSatisfyGroups(groups, all, 3)).toBe(false);
    expect(canSatisfyGroups([security], ['cleo', 'dora', 'emil'], 3)).toBe(false);
    expect(canSatisfyGroups([security], ['cleo', 'dora', 'emil', 'ada'], 3)).toBe(true);
    expect(canSatisfyGroups([], ['ada'], 2)).toBe(false);
  });

  it('are judged as trying every set judges them', () => {
    let seed = 7;
    const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    for (let round = 0; round < 400; round += 1) {
      const groups = Array.from({ length: 1 + random(4) }, (_each, index) => ({
        group: `g${index}`,
        shares: 1 + random(3),
        members: names.filter(() => random(2) === 0),
      }));
      const some = names.filter(() => random(3) > 0);
      const size = 1 + random(5);
      expect(canSatisfyGroups(groups, some, size)).toBe(some.length >= size && byTrying(groups, some, size));
    }
  });

  it('stay quick where many people are in many groups and nothing fits', () => {
    const names = Array.from({ length: 40 }, (_each, index) => `p${index}`);
    const groups = [0, 1, 2, 3, 4].map((digit) => ({
      group: `g${digit}`,
      shares: 5,
      members: names.filter((_name, index) => index % 5 === digit),
    }));
    const began = performance.now();
    expect(canSatisfyGroups(groups, names, 20)).toBe(false);
    expect(canSatisfyGroups(groups, names, 25)).toBe(true);
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  it('say who could still give what they lack', () => {
    expect(groupStates([finance], ['cleo', 'ada'], ['bert', 'emil'])).toEqual([
      { group: 'finance', needed: 2, held: ['cleo'], outOf: ['bert'] },
    ]);
  });
});
