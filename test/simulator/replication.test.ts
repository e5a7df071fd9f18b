/** What is read harshly of the roles and the streams of clusters, beside what every runbook shows anyway. */
import { startSimulatedService, type SimulatedService, type Topology } from '../../src/simulator';
import { call, deployment, eventually, join, persistently } from './client';

let service: SimulatedService;
afterEach(() => service.stop());

async function start(overrides: Partial<Topology> = {}): Promise<void> {
  service = await startSimulatedService(deployment(overrides));
}

/** Single nodes without replication. */
async function startApart(...more: readonly { readonly version?: string }[]): Promise<void> {
  const clusters = ['a', 'b', 'c'].map((name, index) => ({ name, nodes: 1, ...more[index] }));
  await start({ clusters, performance: undefined, dr: [], readings: { leaderChangeChance: 0 } });
}

const DR = 'sys/replication/dr';
const cluster = (name: string) => service.cluster(name);
const state = (name: string) => service.cluster(name).snapshotState();

function post(name: string, path: string, body: object = {}, token = cluster(name).rootToken) {
  return persistently(() => call(cluster(name), 'POST', `sys/replication/${path}`, { token, body }));
}

const batchToken = () => cluster('east').createToken({ policies: ['root'], type: 'batch' });
/** Not again where it is refused. */
function promote(name: string, body: object = {}) {
  const asked = { dr_operation_token: batchToken(), ...body };
  return call(cluster(name), 'POST', `${DR}/secondary/promote`, { body: asked });
}

const inStep = (secondary: string, primary: string) =>
  eventually(() => {
    const [below, above] = [state(secondary).dr, state(primary).dr];
    return below.merkleRoot === above.merkleRoot && below.lastRemoteWal === above.lastWal;
  });

it('a write is on the secondary after the stream delay, and never after a demotion: the roots show it', async () => {
  await start({ timing: { streamDelayMs: 60_000 } });
  const before = state('east').dr.lastWal;
  expect(cluster('east').write('secret/x', { n: 1 })).toBe(before + 1n);
  expect(state('west').dr.merkleRoot).not.toBe(state('east').dr.merkleRoot);
  service.advanceClock(60_000);
  expect(cluster('west').read('secret/x')).toEqual({ n: 1 });
  cluster('east').write('secret/y', { n: 1 });
  await post('east', 'dr/primary/demote');
  const status = await persistently(() => call(cluster('east'), 'GET', `${DR}/status`));
  expect(status.at('data', 'last_dr_wal')).toBeUndefined();
  service.advanceClock(120_000);
  expect(cluster('west').read('secret/y')).toBeUndefined();
  expect(state('west').dr.merkleRoot).not.toBe(status.textAt('data', 'merkle_root'));
});

it('a promotion empties the DR secondaries, keeps the performance ones, and leaves secondary-token unusable for a while', async () => {
  const timing = { restartMs: 0, secondaryTokenRefusedMs: 60_000 };
  await start({ timing, readings: { leaderChangeChance: 0 } });
  const [west, north] = [cluster('west'), cluster('north')];
  const token = cluster('east').createToken({ policies: ['root'] });
  await inStep('west', 'east');
  expect((await call(west, 'GET', 'sys/health')).at('replication_performance_mode')).toBe('primary');
  expect(state('west').performance.mode).toBe('disabled');
  await cluster('east').kill();
  expect((await promote('west')).status).toBe(200);
  expect(state('west')).toMatchObject({
    dr: { mode: 'primary', knownSecondaries: [] },
    performance: { mode: 'primary', knownSecondaries: [north.clusterId] },
  });
  expect((await call(west, 'POST', 'secret/y', { token, body: { n: 2 } })).status).toBe(204);
  await eventually(() => north.read('secret/y'));
  expect(state('north').performance.connectedTo).toBe('west');
  const make = () => call(west, 'POST', `${DR}/primary/secondary-token`, { token, body: { id: 'x' } });
  expect([412, 500]).toContain((await make()).status);
  service.advanceClock(61_000);
  expect((await make()).status).toBe(200);
});

it('a secondary reports 0 as last_remote_wal until a write streams, and never streams with an older version', async () => {
  await startApart({}, {}, { version: '1.20.0+ent' });
  for (const name of ['b', 'c']) await join('dr', cluster('a'), cluster(name));
  await eventually(() => state('b').dr.state === 'stream-wals');
  expect(state('b').dr).toMatchObject({ lastRemoteWal: 0n, merkleRoot: state('a').dr.merkleRoot });
  cluster('a').write('secret/x', { n: 1 });
  await inStep('b', 'a');
  for (let round = 0; round < 5; round += 1) {
    service.advanceClock(1_000);
    expect(['merkle-diff', 'merkle-sync']).toContain(state('c').dr.state);
  }
});

it('a demoted cluster follows no addresses', async () => {
  await start();
  const follow = (name: string, address: string) =>
    post(name, 'dr/secondary/update-primary', { dr_operation_token: batchToken(), update_primary_addrs: [address] });
  expect((await follow('west', cluster('east').clusterAddress)).status).toBe(200);
  await post('east', 'dr/primary/demote');
  expect((await follow('east', cluster('west').clusterAddress)).status).toBe(400);
});

it('a paths filter removes newly excluded data, and brings newly included data', async () => {
  await start();
  const [east, west, north] = [cluster('east'), cluster('west'), cluster('north')];
  const filter = (mode: string) =>
    post('east', `performance/primary/paths-filter/${north.clusterId}`, { mode, paths: ['kv/'] });
  east.write('kv/x', { n: 1 });
  await eventually(() => north.read('kv/x'));
  await filter('deny');
  await eventually(() => north.read('kv/x') === undefined);
  // The DR secondary of the primary has it after its promotion.
  await eventually(() => west.snapshotState().filters.includes(north.clusterId));
  east.write('kv/y', { n: 2 });
  expect(north.read('kv/y')).toBeUndefined();
  await filter('allow');
  await eventually(() => north.read('kv/y'));
});

describe('activation tokens', () => {
  beforeEach(async () => {
    await startApart();
    await post('a', 'dr/primary/enable');
  });
  const issue = (body: object) => post('a', 'dr/primary/secondary-token', body);
  const keyOf = async (name: string) =>
    (await post(name, 'dr/secondary/generate-public-key')).textAt('data', 'secondary_public_key');
  /** Not again where it is refused. */
  const enable = async (name: string, token: string, kind = 'dr') => {
    const given = { token: cluster(name).rootToken, body: { token } };
    return (await call(cluster(name), 'POST', `sys/replication/${kind}/secondary/enable`, given)).status;
  };

  it('are for one kind, work once, and give another cluster ID', async () => {
    const token = (await issue({ id: 'b-id' })).textAt('wrap_info', 'token');
    const before = cluster('b').clusterId;
    expect(await enable('b', token)).toBe(200);
    expect(cluster('b').clusterId).not.toBe(before);
    expect(state('a').dr.knownSecondaries).toEqual(['b-id']);
    expect(await enable('c', token)).toBe(500);
    expect(await enable('c', (await issue({ id: 'c-id' })).textAt('wrap_info', 'token'), 'performance')).toBe(400);
    expect([state('c').dr.mode, state('c').performance.mode]).toEqual(['disabled', 'disabled']);
  });

  it('expire, and are readable in the encrypted form only by the process that made the public key', async () => {
    const issued = await issue({ id: 'b-id', secondary_public_key: await keyOf('b') });
    expect(issued.at('wrap_info')).toBeNull();
    const token = issued.textAt('data', 'token');
    expect(await enable('c', token)).toBe(500);
    await cluster('b').killNode(0);
    await cluster('b').startNode(0);
    await eventually(async () => (await call(cluster('b'), 'GET', `${DR}/status`)).status === 200);
    expect(await enable('b', token)).toBe(500);
    const wrapped = (await issue({ id: 'x', ttl: '10s' })).textAt('wrap_info', 'token');
    const encrypted = await issue({ id: 'y', ttl: 10, secondary_public_key: await keyOf('c') });
    service.advanceClock(11_000);
    expect([await enable('b', wrapped), await enable('c', encrypted.textAt('data', 'token'))]).toEqual([500, 500]);
  });
});
