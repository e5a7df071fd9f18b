/** A performance secondary that does not follow is re-pointed by token, and what its filter keeps away never leaves. */
import type { Authority, PathsFilterFacts } from '../../src/contracts/activities';
import type { SimulatedCluster } from '../../src/simulator';
import { ActivityBench, DEPLOYMENT } from '../support/activity-environment';

const BASE = '/v1/sys/replication/performance';
const ISSUE = `POST ${BASE}/primary/secondary-token`;
const UPDATE = `POST ${BASE}/secondary/update-primary`;
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };
const UNDER_WAY_MS = 1_500;
const TO_WEST = { deployment: DEPLOYMENT, primary: 'west', secondary: 'europe' } as const;

let bench: ActivityBench;
let europe: SimulatedCluster;
let authority: Authority;
beforeEach(async () => {
  bench = await ActivityBench.start({
    topology: {
      mounts: ['kv/', 'secret/', 'us-customers/'],
      readings: { leaderChangeChance: 0, performanceSecondariesFollow: false },
      clusters: ['east', 'west', 'europe'].map((name) => ({ name, nodes: 1 })),
      performance: { primary: 'east', secondaries: [{ name: 'europe', filter: FILTER }] },
      dr: [{ primary: 'east', secondaries: ['west'] }],
    },
    drSets: { main: ['east', 'west'], eu: ['europe'] },
    timing: { underWayMs: UNDER_WAY_MS },
  });
  europe = bench.cluster('europe');
  authority = await bench.authority();
  await bench.switchOver(authority);
});
afterEach(async () => {
  expect(bench.leaks()).toEqual([]);
  await bench.stop();
});

const read = () => bench.call('readPathsFilter', TO_WEST);
const write = (id: string, filter: PathsFilterFacts) =>
  bench.call('writePathsFilter', {
    deployment: DEPLOYMENT,
    cluster: 'west',
    secondary: 'europe',
    id,
    filter,
    authority,
  });
const expected = { filter: FILTER };
const following = () => ({ kind: 'performance', by: 'token', ...TO_WEST, authority, expected }) as const;
const point = () => bench.call('updatePrimary', following());
const compare = (id: string, expected?: PathsFilterFacts) =>
  bench.call('compareDynamicFilters', { ...TO_WEST, id, expected });

it('keeps its filter although update-primary drops it: read, used under the cluster ID, written again, compared', async () => {
  bench.limit({ streamingMs: 300 });
  const [seen] = (await bench.call('awaitPerformanceSecondaries', { ...TO_WEST, secondaries: ['europe'] })).following;
  expect(seen).toMatchObject({ cluster: 'europe', follows: false });
  bench.limit();

  const { id, filter } = await read();
  expect({ id, filter }).toEqual({ id: europe.clusterId, filter: FILTER });
  if (!filter) throw new Error('no filter');
  await write(id, filter);
  // Somebody deletes it while the token is issued: right before the call nothing but what is expected lets europe in.
  const action = () => void bench.cluster('west').storage.write(`cluster/filter/${id}`, null, bench.service.now());
  bench.service.faults.add({ endpoint: ISSUE, when: 'after', action });
  await bench.refused('updatePrimary', following(), 'PRECONDITION_FAILED', {
    details: { observed: `no paths filter under ${id}` },
  });
  expect(bench.calls('europe', 'secondary/update-primary')).toBe(0);
  await write(id, filter);
  expect(await point()).toMatchObject({ outcome: 'done', calls: 1 });
  // Both sides agree on no filter at all: that is not what was expected.
  expect((await read()).filter).toBeUndefined();
  bench.limit({ streamingMs: 300 });
  expect(await compare(id, filter)).toMatchObject({
    equal: false,
    observed: expect.stringContaining('no paths filter') as string,
  });
  bench.limit();
  expect(await write(id, filter)).toMatchObject({ outcome: 'done', calls: 1 });
  expect(await write(id, filter)).toMatchObject({ outcome: 'already', calls: 0 });
  expect(await compare(id, filter)).toMatchObject({ equal: true });
  // Both sides agree on a filter that nobody wants.
  bench.limit({ streamingMs: 300 });
  expect(await compare(id)).toMatchObject({ equal: false });
  bench.limit();
  expect(await point()).toMatchObject({ outcome: 'already' });
  // Its id is connected now, so that nothing revokes it.
  expect(bench.cluster('west').snapshotState().performance.knownSecondaries).toContain(id);
});

it('a filter that cannot be written ends its activity', async () => {
  const { id } = await read();
  bench.cluster('west').storage.write(`cluster/filter/${id}`, null, bench.service.now());
  bench.always(`POST ${BASE}/primary/paths-filter/${id}`, { status: 403 });
  const where = { deployment: DEPLOYMENT, cluster: 'west', secondary: 'europe' } as const;
  await bench.refused('writePathsFilter', { ...where, id, filter: FILTER, authority }, 'PERMISSION_DENIED', {
    retryable: false,
  });
});

it('an update-primary without an answer is not sent again while it can be under way', async () => {
  bench.service.faults.add({ endpoint: UPDATE, action: 'reset' });
  const sent: number[] = [];
  const tell = () => void sent.push(Date.now());
  bench.service.faults.add({ endpoint: UPDATE, action: tell, times: Infinity, skip: 1 });
  const began = Date.now();
  expect(await point()).toMatchObject({ outcome: 'done', calls: 2 });
  expect(sent.map((at) => at - began >= UNDER_WAY_MS)).toEqual([true]);
});

it('a token that is not taken is followed by another, and the filter that it may have dropped is written before that', async () => {
  const { id } = await read();
  await write(id, FILTER);
  const drop = () => void bench.cluster('west').storage.write(`cluster/filter/${id}`, null, bench.service.now());
  bench.service.faults.add({ endpoint: UPDATE, action: drop });
  bench.service.faults.add({ endpoint: UPDATE, action: { status: 400 } });
  const before = bench.changes().length;
  expect(await point()).toMatchObject({ outcome: 'done', calls: 2 });
  const changes = bench
    .changes()
    .slice(before)
    .map((call) => call.split('/').at(-1));
  expect(changes.filter((call) => call === id || call === 'update-primary')).toEqual([
    'update-primary',
    id,
    'update-primary',
  ]);
});
