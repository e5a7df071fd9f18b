/** What a change of a paths filter sends and removes, against a model that looks at every path of a small tree. */
import { canonicalPaths, diffFilters, needsApproval, regionsInWords } from '../../../activities/filters/paths-filters';
import type { FilterState } from '../../../src/contracts/activities';

const allow = (...paths: string[]): FilterState => ({ mode: 'allow', paths });
const deny = (...paths: string[]): FilterState => ({ mode: 'deny', paths });
const words = (before: FilterState, wanted: FilterState) => {
  const { sent, removed } = diffFilters(before, wanted);
  return { sent: regionsInWords(sent), removed: regionsInWords(removed) };
};

describe('what a secondary may see after a change and could not before, and what it loses', () => {
  it.each<[string, FilterState, FilterState, string, string]>([
    ['no filter, then a denial', 'none', deny('us/'), '', 'us/'],
    ['a denial is lifted', deny('us/'), 'none', 'us/', ''],
    ['no filter, then an allowance', 'none', allow('kv/'), '', 'everything except kv/'],
    ['an allowance is lifted', allow('kv/'), 'none', 'everything except kv/', ''],
    ['denying nothing is no filter', 'none', deny(), '', ''],
    ['allowing nothing sends nothing', 'none', allow(), '', 'everything'],
    ['a denial of one mount of a denied namespace', deny('team/'), deny('team/a/'), 'team/ except team/a/', ''],
    ['a denial of the whole namespace of a denied mount', deny('team/a/'), deny('team/'), '', 'team/ except team/a/'],
    ['one that is covered already', deny('team/', 'team/a/'), deny('team/'), '', ''],
    ['a name that only begins alike', deny('team/'), deny('team-a/'), 'team/', 'team-a/'],
    ['an allowed mount, then its namespace', allow('team/a/'), allow('team/'), 'team/ except team/a/', ''],
    ['one denied for another', deny('a/'), deny('b/'), 'a/', 'b/'],
    ['denied becomes allowed', deny('a/'), allow('a/'), 'a/', 'everything except a/'],
    ['allowed becomes denied', allow('a/'), deny('a/'), 'everything except a/', 'a/'],
    ['allowed becomes a denial of something in it', allow('a/'), deny('a/x/'), 'everything except a/', 'a/x/'],
    ['the same in another writing', deny('/team', 'kv/'), deny('kv', 'team/', 'kv/'), '', ''],
    ['a hole in a hole', deny('team/'), allow('team/a/', 'kv/'), 'team/a/', 'everything except kv/, team/'],
  ])('%s', (_name, before, wanted, sent, removed) => {
    expect(words(before, wanted)).toEqual({ sent, removed });
  });

  it('names a part that begins below a part that is not meant', () => {
    // Seen before: all but team/a/. Wanted: only team/, without its b/.
    expect(words(allow('team/a/x/'), deny('team/a/'))).toEqual({
      sent: 'everything except team/a/',
      removed: 'team/a/x/',
    });
  });

  it('asks people where it widens or deletes, and for nothing else', () => {
    expect(needsApproval('none', deny('a/'))).toBe(false);
    expect(needsApproval(deny('a/'), deny('a/', 'b/'))).toBe(false);
    expect(needsApproval(deny('a/', 'b/'), deny('a/'))).toBe(true);
    expect(needsApproval(allow('a/'), allow('b/'))).toBe(true);
    expect(needsApproval(deny(), 'none')).toBe(true);
    expect(needsApproval('none', 'none')).toBe(false);
  });

  it('writes paths as the service keeps them', () => {
    expect(canonicalPaths(['/b', 'a/', 'b/', 'a//'])).toEqual(['a/', 'b/']);
  });
});

/** Park and Miller: the same numbers in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}

/** Every path of a tree with three names and three levels, and a name beside each that no filter mentions. */
const NAMES = ['a', 'aa', 'b', 'other'];
const TREE = NAMES.flatMap((x) => [
  `${x}/`,
  ...NAMES.flatMap((y) => [`${x}/${y}/`, ...NAMES.map((z) => `${x}/${y}/${z}/`)]),
]);
const NAMED = TREE.filter((path) => !path.includes('other'));

/** The plain reading of the interface: segment by segment. */
function maySee(filter: FilterState, path: string): boolean {
  if (filter === 'none') return true;
  const segments = path.split('/').filter((each) => each !== '');
  const listed = filter.paths.some((each) => {
    const wanted = each.split('/').filter((segment) => segment !== '');
    return wanted.every((segment, index) => segment === segments[index]);
  });
  return filter.mode === 'allow' ? listed : !listed;
}

describe('against the model', () => {
  it('sends and removes exactly the paths whose visibility changes, in 3000 pairs of filters', () => {
    const next = numbers(20_260_131);
    const filter = (): FilterState => {
      const kind = next(7);
      if (kind === 0) return 'none';
      const paths = Array.from({ length: next(5) }, () => NAMED[next(NAMED.length)] ?? 'a/');
      return { mode: kind < 4 ? 'allow' : 'deny', paths };
    };
    for (let round = 0; round < 3_000; round += 1) {
      const [before, wanted] = [filter(), filter()];
      const { sent, removed } = diffFilters(before, wanted);
      const holds = (list: typeof sent, path: string) =>
        list.filter(({ under, except }) => path.startsWith(under) && !except.some((each) => path.startsWith(each)))
          .length;
      for (const path of TREE) {
        const expected = [
          !maySee(before, path) && maySee(wanted, path) ? 1 : 0,
          maySee(before, path) && !maySee(wanted, path) ? 1 : 0,
        ];
        // Each path is in one region at most.
        const found = [holds(sent, path), holds(removed, path)];
        if (found.join() !== expected.join())
          throw new Error(`${path}: ${JSON.stringify({ before, wanted, sent, removed, expected, found })}`);
      }
      expect(diffFilters(wanted, before)).toEqual({ sent: removed, removed: sent });
      expect(diffFilters(before, before)).toEqual({ sent: [], removed: [] });
    }
  });
});
