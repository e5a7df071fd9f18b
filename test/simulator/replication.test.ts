import { startSimulatedService, type SimulatedService, type Topology } from '../../src/simulator';
import { call, deployment, eventually, join, persistently } from './client';

let service: SimulatedService;
afterEach(() => service.stop());

const DR = 'sys/replication/dr';

async function start(overrides: Partial<Topology> = {}): Promise<void> {
  service = await startSimulatedService(deployment(overrides));
}

/** Two clusters without replication. */
async function startPair(second: { version?: string } = {}): Promise<void> {
  const clusters = [
    { name: 'a', nodes: 1 },
    { name: 'b', nodes: 1, ...second },
  ];
  await start({ clusters, performance: undefined, dr: [] });
}

function promote(name: string, body: object = {}) {
  const token = service.cluster('east').createToken({ policies: ['root'], type: 'batch' });
  return call(service.cluster(name), 'POST', `${DR}/secondary/promote`, {
    body: { dr_operation_token: token, ...body },
  });
}

async function inStep(secondary: string, primary: string): Promise<void> {
  await eventually(() => {
    const [b, a] = [service.cluster(secondary).snapshotState().dr, service.cluster(primary).snapshotState().dr];
    return b.merkleRoot === a.merkleRoot && b.lastRemoteWal === a.lastWal;
  });
}

describe('the write-ahead log', () => {
  it('moves with every write and reaches the secondary after the stream delay', async () => {
    await start({ timing: { streamDelayMs: 200 } });
    const [east, west] = [service.cluster('east'), service.cluster('west')];
    const before = east.snapshotState().dr.lastWal;
    const index = east.write('secret/x', { n: 1 });
    expect(index).toBe(before + 1n);
    expect(west.snapshotState().dr.merkleRoot).not.toBe(east.snapshotState().dr.merkleRoot);
    expect(west.read('secret/x')).toBeUndefined();
    await inStep('west', 'east');
    expect(west.read('secret/x')).toEqual({ n: 1 });
  });

  it('is not shipped any more after a demotion, and the roots tell', async () => {
    await start({ timing: { streamDelayMs: 60_000 } });
    const [east, west] = [service.cluster('east'), service.cluster('west')];
    east.write('secret/x', { n: 1 });
    await call(east, 'POST', `${DR}/primary/demote`, { token: east.rootToken });
    const status = await persistently(() => call(east, 'GET', `${DR}/status`));
    expect(status.at('data', 'last_dr_wal')).toBeUndefined();
    service.advanceClock(120_000);
    expect(west.read('secret/x')).toBeUndefined();
    expect(west.snapshotState().dr.merkleRoot).not.toBe(status.textAt('data', 'merkle_root'));
  });
});

describe('a DR promotion', () => {
  it('answers 503 while the secondary knows that it lacks writes, and takes force', async () => {
    await start();
    const [east, west] = [service.cluster('east'), service.cluster('west')];
    west.holdStream('dr', true);
    east.write('secret/x', { n: 1 });
    service.advanceClock(1_000);
    expect((await promote('west')).status).toBe(503);
    west.holdStream('dr', false);
    await inStep('west', 'east');
    west.holdStream('dr', true);
    east.write('secret/y', { n: 1 });
    service.advanceClock(1_000);
    await east.kill();
    service.advanceClock(60_000);
    expect((await promote('west')).status).toBe(503);
    expect((await promote('west', { force: true })).status).toBe(200);
    expect([west.read('secret/x'), west.read('secret/y')]).toEqual([{ n: 1 }, undefined]);
  });

  it('empties the DR secondaries, keeps the performance ones, and inherits tokens and performance role', async () => {
    await start();
    const [east, west, north] = ['east', 'west', 'north'].map((name) => service.cluster(name));
    const token = east?.createToken({ policies: ['root'] });
    await inStep('west', 'east');
    await east?.kill();
    expect((await promote('west')).status).toBe(200);
    const secret = await persistently(() =>
      call(service.cluster('west'), 'POST', 'secret/y', { token: token ?? '', body: { n: 2 } }),
    );
    expect(secret.status).toBe(204);
    const state = west?.snapshotState();
    expect(state?.dr).toMatchObject({ mode: 'primary', knownSecondaries: [] });
    expect(state?.performance).toMatchObject({ mode: 'primary', knownSecondaries: [north?.clusterId] });
    await eventually(() => north?.snapshotState().performance.connectedTo === 'west');
    const status = await call(service.cluster('north'), 'GET', 'sys/replication/performance/status');
    expect(status.at('data', 'primary_cluster_addr')).toBe(west?.clusterAddress);
    await eventually(() => north?.read('secret/y'));
  });

  it('of the DR secondary of a performance secondary follows the performance primary with the same credentials', async () => {
    await start();
    const [north, south] = [service.cluster('north'), service.cluster('south')];
    await inStep('south', 'north');
    await north.kill();
    expect((await promote('south')).status).toBe(200);
    await eventually(() => south.snapshotState().performance.connectedTo === 'east');
    expect(south.snapshotState().performance.secondaryId).toBe(north.clusterId);
  });

  it('of a demoted primary back to primary works: it holds every write', async () => {
    await start();
    const east = service.cluster('east');
    await call(east, 'POST', `${DR}/primary/demote`, { token: east.rootToken });
    await persistently(() => call(east, 'GET', `${DR}/status`));
    expect((await promote('east')).status).toBe(200);
    expect(east.snapshotState().dr.mode).toBe('primary');
  });

  it('leaves secondary-token unusable for a while', async () => {
    await start({ timing: { restartMs: 0, secondaryTokenRefusedMs: 60_000 }, readings: { leaderChangeChance: 0 } });
    await inStep('west', 'east');
    const token = service.cluster('east').rootToken;
    await promote('west');
    const make = () =>
      call(service.cluster('west'), 'POST', `${DR}/primary/secondary-token`, { token, body: { id: 'x' } });
    expect([412, 500]).toContain((await make()).status);
    service.advanceClock(61_000);
    expect((await make()).status).toBe(200);
  });
});

describe('status', () => {
  it('keeps saying stream-wals with the primary dead; the peer entry tells the truth', async () => {
    await start();
    await service.cluster('east').kill();
    service.advanceClock(90_000);
    const status = await call(service.cluster('west'), 'GET', `${DR}/status`);
    expect(status.at('data', 'state')).toBe('stream-wals');
    expect(status.at('data', 'connection_state')).toBe('transient_failure');
    expect(status.at('data', 'primaries', 0, 'connection_status')).toBe('disconnected');
    const heartbeat = Date.parse(status.textAt('data', 'primaries', 0, 'last_heartbeat'));
    expect(service.now() - heartbeat).toBeGreaterThanOrEqual(90_000);
  });

  it('lists connected secondaries on the primary, with numbers as texts', async () => {
    await start({ readings: { optionalFieldMissingChance: 0 } });
    const status = await call(service.cluster('east'), 'GET', `${DR}/status`);
    expect(status.at('data', 'secondaries', 0)).toMatchObject({
      node_id: service.cluster('west').clusterId,
      connection_status: 'connected',
      clock_skew_ms: '0',
      last_heartbeat_duration_ms: '1',
    });
    expect(status.at('data', 'last_corruption_check_epoch')).toBe('-62135596800');
  });

  it('of a partitioned secondary shows the loss on both sides, and recovers', async () => {
    await start();
    service.partition('east', 'west');
    const cut = await call(service.cluster('east'), 'GET', `${DR}/status`);
    expect(cut.at('data', 'secondaries')).toEqual([]);
    expect(cut.at('data', 'known_secondaries')).toEqual([service.cluster('west').clusterId]);
    service.cluster('east').write('secret/x', { n: 1 });
    service.heal();
    await inStep('west', 'east');
  });

  it('says 0 as last_remote_wal after a comparison until a write streams', async () => {
    await startPair();
    const [a, b] = [service.cluster('a'), service.cluster('b')];
    await join('dr', a, b);
    await eventually(() => b.snapshotState().dr.state === 'stream-wals');
    expect(b.snapshotState().dr).toMatchObject({ lastRemoteWal: 0n, merkleRoot: a.snapshotState().dr.merkleRoot });
    a.write('secret/x', { n: 1 });
    await inStep('b', 'a');
  });

  it('differs from health about the performance mode on a DR secondary', async () => {
    await start();
    const west = service.cluster('west');
    const health = await call(west, 'GET', 'sys/health');
    expect([health.status, health.at('replication_performance_mode')]).toEqual([472, 'primary']);
    const status = await call(west, 'GET', 'sys/replication/performance/status');
    expect(status.at('data')).toEqual({ mode: 'disabled' });
  });
});

describe('a returning primary', () => {
  it('still believes to be primary, revokes leases, and loses what it wrote when it joins again', async () => {
    await start();
    const [east, west] = [service.cluster('east'), service.cluster('west')];
    await inStep('west', 'east');
    const batch = east.createToken({ policies: ['root'], type: 'batch' });
    await east.kill();
    expect((await promote('west')).status).toBe(200);
    const wal = east.snapshotState().dr.lastWal;
    await east.restart();
    await eventually(() => east.snapshotState().dr.lastWal > wal);
    expect(east.snapshotState().dr.mode).toBe('primary');
    east.write('secret/lost', { n: 1 });
    await persistently(() => call(east, 'POST', `${DR}/primary/demote`, { token: east.rootToken }));
    const issued = await persistently(() =>
      call(west, 'POST', `${DR}/primary/secondary-token`, { token: east.rootToken, body: { id: 'east-again' } }),
    );
    const joined = await persistently(() =>
      call(east, 'POST', `${DR}/secondary/update-primary`, {
        body: { dr_operation_token: batch, token: issued.textAt('wrap_info', 'token') },
      }),
    );
    expect(joined.status).toBe(200);
    await eventually(() => east.snapshotState().dr.connectedTo === 'west');
    await eventually(() => east.read('secret/lost') === undefined);
    expect(east.snapshotState().dr.discardedEntries).toBeGreaterThan(0);
  });
});

describe('versions', () => {
  it('older than their source never get to stream', async () => {
    await startPair({ version: '1.20.0+ent' });
    const [a, b] = [service.cluster('a'), service.cluster('b')];
    await join('dr', a, b);
    await persistently(() => call(b, 'GET', `${DR}/status`));
    for (let round = 0; round < 5; round += 1) {
      service.advanceClock(1_000);
      expect(['merkle-diff', 'merkle-sync']).toContain(b.snapshotState().dr.state);
    }
  });
});
