/** A performance secondary that does not follow is re-pointed by token, and what its filter keeps away never leaves. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ActivationTokenResult, Authority, PathsFilterFacts } from '../../src/contracts/activities';
import type { SimulatedCluster } from '../../src/simulator';
import { ActivityBench, DEPLOYMENT, drDemotion } from '../support/activity-environment';

const BASE = '/v1/sys/replication/performance';
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };
const UNDER_WAY_MS = 1_500;
const TO_WEST = { deployment: DEPLOYMENT, primary: 'west', secondary: 'europe' } as const;

let bench: ActivityBench;
let europe: SimulatedCluster;
let directory: string;
let authority: Authority;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'performance-'));
  bench = await ActivityBench.start({
    topology: {
      mounts: ['kv/', 'secret/', 'us-customers/'],
      readings: { leaderChangeChance: 0, performanceSecondariesFollow: false },
      clusters: ['east', 'west', 'europe'].map((name) => ({ name, nodes: 1, seal: { shares: 5, threshold: 3 } })),
      performance: { primary: 'east', secondaries: [{ name: 'europe', filter: FILTER }] },
      dr: [{ primary: 'east', secondaries: ['west'] }],
    },
    drSets: { main: ['east', 'west'], eu: ['europe'] },
    changeUnderWayMs: UNDER_WAY_MS,
    // Tokens of the primary are not known on a performance secondary.
    cluster: (name) => (name === 'europe' ? { credential: { file: join(directory, 'token') } } : {}),
  });
  europe = bench.cluster('europe');
  await writeFile(join(directory, 'token'), europe.rootToken, { mode: 0o600 });
  authority = await bench.authority();
  const token = await bench.operationToken('west');
  await bench.call('demotePrimary', drDemotion(authority));
  const promotion = { deployment: DEPLOYMENT, cluster: 'west', otherCluster: 'east', token, authority };
  await bench.call('promoteSecondary', { kind: 'dr', mode: 'planned', ...promotion });
  bench.service.advanceClock(1_000);
});
afterEach(async () => {
  expect(bench.leaks()).toEqual([]);
  await bench.stop();
  await rm(directory, { recursive: true });
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
const issue = () =>
  bench.call('issueActivationToken', { use: 'update-primary', kind: 'performance', ...TO_WEST, authority, expected });
const point = (activation: ActivationTokenResult) =>
  bench.call('updatePrimary', { kind: 'performance', ...TO_WEST, activation, authority, expected });
const compare = (id: string, expected?: PathsFilterFacts) =>
  bench.call('compareDynamicFilters', { ...TO_WEST, id, expected });

it('keeps its filter although update-primary drops it: read, used under the cluster ID, written again, compared', async () => {
  bench.limit({ streamingMs: 900 });
  const [seen] = (await bench.call('awaitPerformanceSecondaries', { ...TO_WEST, secondaries: ['europe'] })).following;
  expect(seen).toMatchObject({ cluster: 'europe', follows: false });
  bench.limit();

  const { id, filter } = await read();
  expect({ id, filter }).toEqual({ id: europe.clusterId, filter: FILTER });
  if (!filter) throw new Error('no filter');
  await write(id, filter);
  const activation = await issue();
  expect(activation.id).toBe(europe.clusterId);
  // Somebody deleted it meanwhile: right before the call nothing but what is expected lets europe in.
  const { storage } = bench.cluster('west');
  storage.write(`cluster/filter/${id}`, null, bench.service.now());
  const changes = bench.changes();
  expect(
    await bench.failure('updatePrimary', { kind: 'performance', ...TO_WEST, activation, authority, expected }),
  ).toMatchObject({
    code: 'PRECONDITION_FAILED',
    details: { observed: `no paths filter under ${id}` },
  });
  expect(bench.changes()).toEqual(changes);
  await write(id, filter);
  expect(await point(activation)).toMatchObject({ outcome: 'done', calls: 1 });
  // Both sides agree on no filter at all: that is not what was expected.
  expect((await read()).filter).toBeUndefined();
  bench.limit({ streamingMs: 900 });
  expect(await compare(id, filter)).toMatchObject({
    equal: false,
    observed: expect.stringContaining('no paths filter') as string,
  });
  bench.limit();
  expect(await write(id, filter)).toMatchObject({ outcome: 'done', calls: 1 });
  expect(await write(id, filter)).toMatchObject({ outcome: 'already', calls: 0 });
  expect(await compare(id, filter)).toMatchObject({ equal: true });
  // Both sides agree on a filter that nobody wants.
  bench.limit({ streamingMs: 900 });
  expect(await compare(id)).toMatchObject({ equal: false });
  bench.limit();
  expect(await issue()).toMatchObject({ form: 'none' });
  // Its id is connected now, so that nothing revokes it.
  expect(bench.cluster('west').snapshotState().performance.knownSecondaries).toContain(id);
});

it('a filter that cannot be written ends its activity', async () => {
  const { id } = await read();
  bench.cluster('west').storage.write(`cluster/filter/${id}`, null, bench.service.now());
  bench.service.faults.add({
    endpoint: `POST ${BASE}/primary/paths-filter/${id}`,
    action: { status: 403 },
    times: Infinity,
  });
  const where = { deployment: DEPLOYMENT, cluster: 'west', secondary: 'europe' } as const;
  expect(await bench.failure('writePathsFilter', { ...where, id, filter: FILTER, authority })).toMatchObject({
    code: 'PERMISSION_DENIED',
    retryable: false,
  });
});

it('an update-primary without an answer is not sent again while it can be under way', async () => {
  const activation = await issue();
  const endpoint = `POST ${BASE}/secondary/update-primary`;
  bench.service.faults.add({ endpoint, action: 'reset' });
  const sent: number[] = [];
  const tell = () => void sent.push(Date.now());
  bench.service.faults.add({ endpoint, action: tell, times: Infinity, skip: 1 });
  const began = Date.now();
  expect(await point(activation)).toMatchObject({ outcome: 'done', calls: 2 });
  expect(sent.map((at) => at - began >= UNDER_WAY_MS)).toEqual([true]);
});

it('an update-primary that is refused is told as not done, with its calls; without an approved plan it is not sent', async () => {
  const activation = await issue();
  const changes = bench.changes();
  const { plan } = authority;
  for (const given of [undefined, { plan, approvals: [] }]) {
    const asked = { ...TO_WEST, authority: given as Authority, expected };
    expect(
      (await bench.failure('issueActivationToken', { use: 'update-primary', kind: 'performance', ...asked })).code,
    ).toBe('NOT_APPROVED');
    expect((await bench.failure('updatePrimary', { kind: 'performance', ...asked, activation })).code).toBe(
      'NOT_APPROVED',
    );
  }
  expect(bench.changes()).toEqual(changes);
  bench.service.faults.add({ endpoint: `POST ${BASE}/secondary/update-primary`, action: { status: 400 } });
  expect(await point(activation)).toMatchObject({ outcome: 'not-done', calls: 1 });
});
