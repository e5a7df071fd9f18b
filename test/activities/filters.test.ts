/** Every change of a filter needs an approval of exactly that. The activities decide it themselves. */
import type { FilterState, PathsFilterFacts } from '../../src/contracts/activities';
import { isWider } from '../../activities/filters/paths-filters';
import { DEPLOYMENT, failing, openBench, replicating } from '../support/activity-environment';
import type { ActivityBench, Input } from '../support/activity-environment';

const deny = (...paths: string[]) => ({ mode: 'deny' as const, paths });
const KNOWN = 'eu-cluster';

const FILTERS = { europe: deny('us-customers/'), asia: deny('kv/') };

let bench: ActivityBench;
/** East is performance primary of europe, which it knows by another id than its cluster ID, and of asia. */
openBench((opened) => (bench = opened), {
  ...replicating({ main: ['east'], eu: ['europe'], ap: ['asia'] }, FILTERS, { readings: { leaderChangeChance: 0 } }),
  deployment: { pathsFilters: { europe: deny('us-customers/'), asia: deny('kv/', 'from-inventory/') } },
});
beforeAll(async () => {
  renameEurope();
});

/** The activation token of europe was issued for an id of its own. */
function renameEurope(): void {
  const [east, europe] = [bench.cluster('east'), bench.cluster('europe')];
  const [primary, secondary] = [east.effectiveRole('performance'), europe.effectiveRole('performance')];
  if (primary.mode !== 'primary' || secondary.mode !== 'secondary') throw new Error('not the roles of the topology');
  const now = bench.service.now();
  const knownSecondaries = primary.knownSecondaries.map((each) =>
    each.id === europe.clusterId ? { ...each, id: KNOWN } : each,
  );
  east.setRole('performance', { ...primary, knownSecondaries }, now);
  europe.setRole('performance', { ...secondary, secondaryId: KNOWN }, now);
}

const idOf = (name: string) => bench.cluster(name).clusterId;
const assess = (filters?: object) => bench.assess('filterReconciliation', { filters });
const there = (id: string) => bench.cluster('east').filterOf(id);
const authorityFor = (filters: object) => bench.authorityOf('filterReconciliation', { filters }, 'filter');

describe('a secondary that the primary lists under another id than its cluster ID', () => {
  it('has its filter read and written under both', async () => {
    const assessed = await assess({ europe: deny('us-customers') });
    const { route, gates } = assessed;
    expect(route?.changes).toEqual([{ secondary: 'europe', id: KNOWN, before: 'none', wanted: deny('us-customers/') }]);
    expect(Object.keys(gates)).toEqual(['filter']);
    expect(route?.secondaries.find(({ secondary }) => secondary === 'europe')).toMatchObject({
      id: KNOWN,
      filters: [
        { id: KNOWN, filter: 'none' },
        { id: idOf('europe'), filter: deny('us-customers/') },
      ],
    });
    expect(failing(assessed)).toEqual([]);
  });

  it.each([
    ['of the input', { europe: deny('us-customers', 'us-custmers', 'secret') }, 'us-custmers/'],
    ['of the inventory', undefined, 'from-inventory/'],
  ])(
    'a path %s that is no mount is a warning of the plan, before the approval; a mount is none',
    async (_whose, filters, path) => {
      const { plan } = await assess(filters);
      const { warnings } = JSON.parse(plan?.text ?? '{}') as { readonly warnings: readonly string[] };
      expect(warnings.filter((each) => each.includes('No mount was found'))).toEqual([
        expect.stringContaining(`at ${path}.`),
      ]);
    },
  );

  it('has the existing filter deleted, under either id, with one approval', async () => {
    const { route, plan } = await assess({ europe: 'none' });
    expect(route?.changes.map(({ id }) => id)).toEqual([idOf('europe')]);
    expect(JSON.parse(plan?.text ?? '{}')).toMatchObject({
      operations: [
        {
          ...{ kind: 'performance', endpoint: 'primary/paths-filter', gate: 'filter' },
          on: bench.named('east'),
          with: bench.named('europe'),
          detail: 'no paths filter',
        },
      ],
    });
  });
});

describe('writing and deleting a filter', () => {
  const ofAsia = () => ({ deployment: DEPLOYMENT, cluster: 'east', id: idOf('asia') });
  /** Without an authority it was made by hand. */
  const write = (filter: PathsFilterFacts, more: object = {}) =>
    ({ ...ofAsia(), filter, ...more }) as Input<'writePathsFilter'>;

  it('a change that only narrows deletes the filtered data of the secondary, and needs an approval as well', async () => {
    const wanted = deny('kv/', 'secret/');
    const authority = await authorityFor({ asia: wanted });
    await bench.refusedUnsent('writePathsFilter', write(wanted), 'NOT_APPROVED');
    const input = write(wanted, { secondary: 'asia', authority });
    expect(await bench.call('writePathsFilter', input)).toMatchObject({
      outcome: 'done',
      observed: 'deny kv/, secret/; before: deny kv/',
    });
  });

  it('a change that widens is refused without an approval, with that of another filter and of another secondary', async () => {
    const wanted = deny('secret/');
    const refused = { retryable: false };
    await bench.refusedUnsent('writePathsFilter', write(wanted), 'NOT_APPROVED', refused);
    for (const authority of [await authorityFor({ asia: deny('kv/') }), await authorityFor({ europe: wanted })]) {
      const input = write(wanted, { secondary: 'asia', authority });
      await bench.refusedUnsent('writePathsFilter', input, 'NOT_APPROVED', refused);
    }
    // An approval for one secondary does not serve another one's filter.
    const authority = await authorityFor({ asia: wanted });
    const other = await bench.failure('writePathsFilter', {
      ...{ deployment: DEPLOYMENT, cluster: 'east', id: idOf('europe'), secondary: 'asia', filter: 'none' },
      authority: await authorityFor({ asia: 'none' }),
    });
    expect(other.message).toContain(`${idOf('europe')} is not an id of asia`);
    expect(there(idOf('asia'))).toEqual(deny('kv/', 'secret/'));

    const input = write(wanted, { secondary: 'asia', authority });
    expect(await bench.call('writePathsFilter', input)).toMatchObject({ outcome: 'done' });
    expect(await bench.call('writePathsFilter', write(wanted))).toMatchObject({ outcome: 'already', calls: 0 });
  });

  it('a filter is deleted with its approval only', async () => {
    const input = { ...ofAsia(), secondary: 'asia', filter: 'none' as const };
    const other = await authorityFor({ asia: deny('a/') });
    await bench.refusedUnsent('writePathsFilter', { ...input, authority: other }, 'NOT_APPROVED');
    const authority = await authorityFor({ asia: 'none' });
    const deleted = await bench.call('writePathsFilter', { ...input, authority });
    expect(deleted).toMatchObject({ outcome: 'done', observed: 'no paths filter; before: deny secret/' });
    expect(there(idOf('asia'))).toBeUndefined();
    expect(await bench.call('writePathsFilter', { ...input, authority })).toMatchObject({ outcome: 'already' });
  });
});

const allow = (...paths: string[]) => ({ mode: 'allow' as const, paths });

it.each<[boolean, FilterState, FilterState]>([
  [false, 'none', 'none'],
  [false, 'none', deny('a/')],
  [false, 'none', allow()],
  [false, deny('/team', 'kv/'), deny('kv', 'team/', 'kv/')],
  [false, deny('a/'), deny('a/', 'b/')],
  [true, deny('a/', 'b/'), deny('a/')],
  [true, deny('team/'), deny('team-a/')],
  [true, deny(), 'none'],
  [false, allow('a/', 'b/'), allow('a/')],
  [true, allow('a/'), allow('a/', 'b/')],
  [true, deny('a/'), allow('a/')],
  [true, allow('a/'), deny('a/')],
  // What is below a path is in it.
  [false, deny('team/', 'team/a/'), deny('team/')],
  [false, deny('team/a/'), deny('team/')],
  [true, deny('team/'), deny('team/a/')],
  [true, deny('team-a/'), deny('team/')],
  [false, allow('team/'), allow('team/a/')],
  [true, allow('team/a/'), allow('team/')],
  [true, allow('team/'), allow('team-a/')],
  // What only a look at the tree could tell counts as wider.
  [true, deny('team/'), allow('other/')],
])('people are asked for more than a plain narrowing: %s for %j to %j', (asked, before, wanted) => {
  expect(isWider(before, wanted)).toBe(asked);
});
