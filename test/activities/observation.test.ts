/** What is read of a deployment, with nodes away and optional fields missing, the evidence made of it, and when service is back. */
import { join } from 'node:path';
import { recordWorkflowId } from '../../src/contracts/record';
import {
  comparesTrees,
  describeReplication,
  heartbeatAge,
  isAlive,
  observeReplication,
} from '../../activities/observe';
import { tooSlow } from '../support/by-hand';
import { ActivityBench, clusters, DEPLOYMENT, holding, openBench } from '../support/activity-environment';

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    clusters: clusters({ east: 3, west: 3 }),
    readings: { optionalFieldMissingChance: 1, leaderChangeChance: 0 },
  },
});
afterEach(async () => {
  bench.service.faults.clear();
  bench.limit();
  for (const cluster of bench.service.clusters.values()) {
    await cluster.restart();
    for (const { index } of cluster.nodes) cluster.unsealNode(index);
  }
  bench.service.advanceClock(2_000);
});

const read = async () => (await bench.call('readDeployment', { deployment: DEPLOYMENT })).observations;
const marking = { deployment: DEPLOYMENT, kind: 'dr', cluster: 'east' } as const;
const mark = (more: { readonly secondary?: string } = {}) => bench.call('writeMarker', { ...marking, ...more });

describe('a deployment is read', () => {
  it('with every optional status field missing', async () => {
    const [east, west] = await read();
    expect(east).toMatchObject({ cluster: 'east', reachable: true, dr: { mode: 'primary' } });
    expect(west).toMatchObject({ reachable: true, dr: { mode: 'secondary' }, attempt: { started: false } });
    expect(east?.clusterId).toBe(bench.cluster('east').clusterId);
  });

  it('with one node away and one sealed: the rest is still reported', async () => {
    await bench.cluster('west').killNode(2);
    bench.cluster('east').sealNode(1);
    const [east, west] = await read();
    expect(west?.nodes.map(({ reachable }) => reachable)).toEqual([true, true, false]);
    expect(west?.nodes[2]?.error).toMatch(/^(UNREACHABLE|CONNECTION_LOST): /);
    expect(west).toMatchObject({ reachable: true, dr: { mode: 'secondary' } });
    expect(east?.nodes[1]).toMatchObject({ reachable: true, sealed: true });
  });

  it('with a whole cluster away: the other one is reported, and a switchover is refused with the observed state', async () => {
    await bench.cluster('east').kill();
    const [east, west] = await read();
    expect(east).toMatchObject({ cluster: 'east', reachable: false, error: expect.stringMatching(/./) as string });
    expect(east?.dr).toBeUndefined();
    expect(west).toMatchObject({ reachable: true });
    const { preconditions, plan } = await bench.assess('drSwitchover', { to: 'west' });
    expect(plan).toBeUndefined();
    const refused = { verdict: 'fail', observed: holding('east: '), next: holding('failover') };
    expect(preconditions).toEqual([expect.objectContaining(refused)]);
  });
});

it('with auto-unseal, and nodes that answer after 5 s, all is read in the time of two requests', async () => {
  // Which node leads, which are slow, and what is told all the same.
  const TABLE = {
    standby: [0, [1], ['secondary', true]],
    'asked-first': [1, [0], ['secondary', true]],
    active: [0, [0], [undefined, true]],
    whole: [0, [0, 1, 2], [undefined, undefined]],
  } as const;
  const names = Object.keys(TABLE);
  const clusters = ['east', ...names].map((name) => ({ name, nodes: 3, seal: { type: 'awskms' } as const }));
  const own = await ActivityBench.start({ topology: { clusters, dr: [{ primary: 'east', secondaries: names }] } });
  try {
    for (const [cluster, [leader, slow]] of Object.entries(TABLE)) {
      if (leader !== 0) own.cluster(cluster).leaderChange(leader);
      const answer = { endpoint: /./, action: { delayMs: 5_000 }, times: Infinity };
      for (const node of slow) own.service.faults.add({ cluster, node, ...answer });
    }
    own.service.advanceClock(1_000);
    const look = async () => {
      const { observations } = await own.call('readDeployment', { deployment: DEPLOYMENT });
      const told = observations.map(({ cluster, dr, seal }) => [cluster, [dr?.mode, seal?.recovery]]);
      const expected = Object.entries(TABLE).map(([name, [, , each]]) => [name, each]);
      expect(told).toEqual([['east', ['primary', true]], ...expected]);
    };
    expect(await tooSlow(7_500, look)).toEqual([]);
  } finally {
    await own.stop();
  }
});

describe('a status of the service', () => {
  const at = Date.parse('2026-01-01T00:00:10Z');
  it('keeps WAL indexes of 64 bits without loss', () => {
    const seen = observeReplication({ mode: 'primary', lastReplicatedWal: 18_446_744_073_709_551_615n }, at);
    expect(seen.lastWal).toBe('18446744073709551615');
    expect(describeReplication(seen)).toBe('primary, last WAL 18446744073709551615');
  });

  const [CONNECTED, BROKEN] = [{ connectionStatus: 'connected' }, { connectionStatus: 'disconnected' }];
  const heard = (lastHeartbeat: string) => ({ ...CONNECTED, lastHeartbeat });
  const NOW = '2026-01-01T00:00:09Z';

  it.each([
    ['no peers', [], undefined, false],
    ['a fresh heartbeat', [heard(NOW)], 1_000, true],
    ['an old heartbeat', [heard('2026-01-01T00:00:01Z')], 9_000, false],
    ['a heartbeat a moment after the second in which the clock was read', [heard('2026-01-01T00:00:10.9Z')], 0, true],
    ['a heartbeat of the future, by whichever wrong clock', [heard('2026-01-01T00:00:30Z')], undefined, false],
    ['an unreadable heartbeat', [heard('soon')], undefined, false],
    ['no heartbeat anywhere, as old versions', [CONNECTED], undefined, true],
    ["Go's zero time is no heartbeat", [heard('0001-01-01T00:00:00Z')], undefined, true],
    ['nor is it in another zone', [heard('0001-01-01T00:53:28+00:53')], undefined, true],
    ['nor the beginning of 1970', [heard('1970-01-01T00:00:00Z')], undefined, true],
    ['nor an empty text', [heard('')], undefined, true],
    ['nor 0', [heard('0')], undefined, true],
    [
      'a connection that never was, without a heartbeat',
      [{ ...BROKEN, lastHeartbeat: '0001-01-01T00:00:00Z' }],
      undefined,
      false,
    ],
    ['no heartbeat of the connected peer', [CONNECTED, { ...BROKEN, lastHeartbeat: NOW }], 1_000, false],
    ['a broken connection', [{ ...BROKEN, lastHeartbeat: NOW }], 1_000, false],
    ['a heartbeat without any clock to compare with', [heard(NOW)], undefined, false, undefined],
  ] as const)('%s', (_name, primaries, age, alive, ...clock) => {
    const status = { mode: 'secondary', primaries } as unknown as Parameters<typeof observeReplication>[0];
    const seen = observeReplication(status, clock.length > 0 ? undefined : at);
    expect([heartbeatAge(seen), isAlive(seen, 5_000)]).toEqual([age, alive]);
  });

  it.each([
    ['merkle-diff', { connectionState: 'ready' }, true],
    ['merkle-sync', { connectionState: 'ready' }, true],
    ['merkle-diff', { connectionState: 'transient_failure', primaries: [CONNECTED] }, false],
    ['merkle-diff', { primaries: [CONNECTED] }, true],
    ['merkle-diff', { primaries: [BROKEN] }, false],
    ['idle', { connectionState: 'ready' }, false],
    ['stream-wals', { connectionState: 'ready' }, false],
  ])('in state %s, with %j, a secondary compares trees: %s', (state, more, compares) => {
    const status = { mode: 'secondary', state, primaries: [], ...more } as unknown;
    const seen = observeReplication(status as Parameters<typeof observeReplication>[0], at);
    expect(comparesTrees(seen)).toBe(compares);
  });

  it('the age of a heartbeat is by the clock of the service, not of the worker', async () => {
    bench.service.advanceClock(60_000);
    const [, west] = await read();
    expect(heartbeatAge(west?.dr)).toBeLessThan(5_000);
    expect(isAlive(west?.dr, 5_000)).toBe(true);
  });

  it('a cluster without replication reports only that', () => {
    for (const mode of ['disabled', 'unsupported', 'unknown'] as const)
      expect(observeReplication({ mode }, at)).toEqual({ mode, peers: [] });
    expect(describeReplication(undefined)).toBe('not readable');
  });
});

describe('the evidence that no data is lost', () => {
  it('is a marker that the secondary has received, and no marker while replication is delayed', async () => {
    const { wal, reached = '0' } = await mark({ secondary: 'west' });
    expect(BigInt(reached)).toBeGreaterThanOrEqual(BigInt(wal));

    bench.limit({ merkleEvidenceMs: 200, catchUpMs: 300 });
    bench.cluster('west').holdStream('dr', true);
    await bench.refused('writeMarker', { ...marking, secondary: 'west' }, 'CONFIRMATION_TIMEOUT');
    const marker = await mark();
    expect(marker).not.toHaveProperty('reached');
    const sides = { deployment: DEPLOYMENT, kind: 'dr', oldPrimary: 'east', newPrimary: 'west' } as const;
    const compared = await bench.call('compareAfterDemotion', { ...sides, walBefore: marker.wal });
    expect(compared).toMatchObject({ loss: 'bounded', why: holding('equal Merkle roots were not observed') });
    // A cluster that does not answer costs no more: nothing was read, and the comparison ends all the same.
    bench.always(/./, { delayMs: 4_000 }, 'west');
    const compare = async () => {
      const unread = await bench.call('compareAfterDemotion', sides);
      expect(unread).toMatchObject({ loss: 'bounded', why: holding('how far west is behind is unknown') });
    };
    expect(await tooSlow(3_000, compare)).toEqual([]);
    bench.cluster('west').holdStream('dr', false);
  });

  it('a marker stores how far the record has come, and the next one compares it', async () => {
    await bench.records.change(DEPLOYMENT, () => ({ put: { note: 1 } }));
    for (let times = 0; times < 2; times += 1) expect(await mark()).not.toHaveProperty('findings');
    bench.recordServer.forget(recordWorkflowId(DEPLOYMENT));
    // What this worker saw itself is told once: then the marker alone knows.
    await bench.records.read(DEPLOYMENT);
    const alarm = { severity: 'critical', code: 'record-went-back' };
    expect((await mark()).findings).toEqual([expect.objectContaining(alarm)]);
  });

  it('a marker is written on a primary only', async () => {
    const before = bench.changes().length;
    const failure = await bench.failure('writeMarker', { ...marking, cluster: 'west' });
    expect(['BAD_REQUEST', 'PERMISSION_DENIED', 'PRECONDITION_FAILED']).toContain(failure.code);
    expect(bench.changes().length - before).toBeLessThanOrEqual(1);
  });
});

describe('service', () => {
  let bench: ActivityBench;
  openBench((opened) => (bench = opened));
  beforeEach(() => {
    bench.service.faults.clear();
    bench.limit();
  });
  const mark = () => bench.call('writeMarker', marking);
  const ready = { ...marking, credentialOf: 'east' };
  const wait = async (more: object = {}, on = bench) => on.call('awaitServiceReady', { ...ready, ...more });

  it('is ready once the same node is active before and after the marker was read; no write is needed', async () => {
    const marker = await mark();
    const before = bench.changes();
    const lookedUp = () => bench.service.calls.filter(({ path }) => path.includes('ui/mounts')).length;
    const found = lookedUp();
    const result = await wait({ marker });
    const [node = ''] = bench.cluster('east').addresses;
    expect(result.observed).toBe(`active node ${node} before and after, marker read`);
    // Where the marker is was found out before the outage: it is not looked up in it.
    expect([bench.changes(), lookedUp()]).toEqual([before, found]);
  });

  it('is not ready if the marker is another one, or on a secondary', async () => {
    const marker = { ...(await mark()), value: 'of another run' };
    bench.limit({ serviceReadyMs: 400 });
    const refuses = (input: object, code: string, observed: string) =>
      bench.refused('awaitServiceReady', { ...ready, ...input }, code, { retryable: false, details: { observed } });
    // Other data are for people to judge, and no answer is none about data.
    await refuses({ marker }, 'STATE_DIVERGED', 'a different marker');
    await refuses({ cluster: 'west' }, 'CONFIRMATION_TIMEOUT', holding('secondary'));
  });

  it('reads no path but the one of the inventory, and shows no credential to a cluster of another DR set', async () => {
    const forged = await ActivityBench.start({ drSets: { one: ['east'], two: ['west'] } });
    const start = forged.service.calls.length;
    await forged.refused('proveWrite', { ...ready, cluster: 'west' }, 'PRECONDITION_FAILED', {
      details: { needed: 'a credential of DR set two' },
    });
    expect(forged.service.calls).toHaveLength(start);
    await forged.stop();

    const before = bench.service.calls.length;
    const place = { mount: 'secret', path: 'of-somebody', version: 2 };
    await wait({ marker: { ...(await mark()), place } });
    const paths = bench.service.calls.slice(before).map(({ path }) => path);
    expect(paths.filter((path) => path.includes('somebody'))).toEqual([]);
    expect(paths).toContain('/v1/kv/data/runbooks-marker');
  });

  it('does not keep clients out of a cluster that refuses only the credential of the workers, and reports it', async () => {
    const bare = await ActivityBench.start({
      cluster: () => ({ credential: { file: join(bench.directory, 'no-such-token') } }),
    });
    // Nor were its quotas read: that is not the same as none.
    const findings = [expect.objectContaining({ code: 'marker-not-read' })];
    expect(await wait({ marker: undefined }, bare)).toMatchObject({ findings, clientsRefused: 'not-known' });
    await bare.stop();
    const marker = await mark();
    const refused = { endpoint: 'GET /v1/kv/data/runbooks-marker', action: { status: 403 } } as const;
    // For a moment after a promotion good tokens may be refused.
    bench.service.faults.add({ ...refused, times: 2 });
    expect(await wait({ marker })).not.toHaveProperty('findings');
    bench.service.faults.add({ ...refused, times: Infinity });
    const told = await wait({ marker });
    expect(told.findings?.[0]?.text).toContain('PERMISSION_DENIED');
    expect(told.observed).not.toContain('marker read');
  });

  const WRITE = 'POST /v1/kv/data/runbooks-marker-after';

  it('a write is proven on its own: a passing failure is waited out, a refusal is reported with what to check', async () => {
    bench.service.faults.add({ endpoint: WRITE, action: { status: 500 }, times: 2 });
    expect((await bench.call('proveWrite', { ...ready, marker: await mark() })).writtenAt).toBeGreaterThan(0);
    expect(bench.cluster('east').read('kv/runbooks-marker-after')).toEqual({ writtenOn: 'east' });
    bench.service.faults.add({ endpoint: WRITE, action: { status: 403 } });
    const findings = [expect.objectContaining({ code: 'write-not-proven', severity: 'critical' })];
    await bench.refused('proveWrite', ready, 'PERMISSION_DENIED', { retryable: false, details: { findings } });
  });

  it.each([
    [500, true],
    [502, false],
  ])('a write that is answered %i until the budget ends names a full storage: %s', async (status, full) => {
    bench.limit({ serviceReadyMs: 500 });
    bench.always(WRITE, { status });
    const { details } = await bench.failure('proveWrite', ready);
    for (const { next } of [details, (details['findings'] as { next?: unknown }[])[0] ?? {}]) {
      expect(next).toContain('stop the service on every node of east');
      expect(String(next).includes('storage of east is full')).toBe(full);
    }
  });

  it('one failed write blocks no cluster: the plan says to check again', async () => {
    bench.always(WRITE, { status: 500 });
    const failed = (await bench.assess('drSwitchover', { to: 'west' })).preconditions.find(
      ({ name, verdict }) => name === 'marker written and read back' && verdict === 'fail',
    );
    expect(failed?.next).toContain('Then look again: `runbook readiness`');
    expect(failed?.next).not.toContain('stop the service on every node');
    bench.service.faults.clear();
  });

  it('names a blocked audit device instead of a cluster that never gets ready', async () => {
    const marker = await mark();
    bench.limit({ serviceReadyMs: 400 });
    bench.cluster('east').auditBlocked = true;
    await bench.refused('awaitServiceReady', { ...ready, marker }, 'AUDIT_DEVICE_BLOCKED', {
      ...{ retryable: false, details: { next: holding('audit devices') } },
    });
    bench.cluster('east').auditBlocked = false;
  });
});
