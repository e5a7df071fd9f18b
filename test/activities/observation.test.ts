/** What is read of a deployment, with nodes away and optional fields missing, and the evidence made of it. */
import type { temporal } from '@temporalio/proto';
import { recordWorkflowId } from '../../src/contracts/record';
import { askRole, proveNotPrimary } from '../../activities/roles/prove-not-primary';
import { Clusters } from '../../activities/clusters';
import { TIMING } from '../../activities/deadline';
import type { ActivityDependencies } from '../../activities';
import { describeReplication, heartbeatAge, isAlive, observeReplication } from '../../activities/observe';
import type { ActivityEnd } from '../support/activity-events';
import { activityEvents } from '../support/activity-events';
import { DEPLOYMENT, failedOf, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    clusters: [
      { name: 'east', nodes: 3 },
      { name: 'west', nodes: 3 },
    ],
    readings: { optionalFieldMissingChance: 1, leaderChangeChance: 0 },
  },
});
afterEach(async () => {
  bench.service.faults.clear();
  bench.service.heal();
  for (const cluster of bench.service.clusters.values()) {
    await cluster.restart();
    for (const { index } of cluster.nodes) cluster.unsealNode(index);
  }
  bench.service.advanceClock(2_000);
});

const read = async () => (await bench.call('readDeployment', { deployment: DEPLOYMENT })).observations;

describe('a deployment is read', () => {
  it('with every optional status field missing', async () => {
    const [east, west] = await read();
    expect(east).toMatchObject({ cluster: 'east', reachable: true, dr: { mode: 'primary' } });
    expect(west).toMatchObject({ reachable: true, dr: { mode: 'secondary' }, attempt: { started: false } });
    expect(east?.clusterId).toBe(bench.cluster('east').clusterId);
  });

  it('with one node away and one sealed: the rest is still told', async () => {
    await bench.cluster('west').killNode(2);
    bench.cluster('east').sealNode(1);
    const [east, west] = await read();
    expect(west?.nodes.map(({ reachable }) => reachable)).toEqual([true, true, false]);
    expect(west?.nodes[2]?.error).toMatch(/^(UNREACHABLE|CONNECTION_LOST): /);
    expect(west).toMatchObject({ reachable: true, dr: { mode: 'secondary' } });
    expect(east?.nodes[1]).toMatchObject({ reachable: true, sealed: true });
  });

  it('with a whole cluster away: the other one is told, and a switchover is refused with what was seen', async () => {
    await bench.cluster('east').kill();
    const [east, west] = await read();
    expect(east).toMatchObject({ cluster: 'east', reachable: false, error: expect.stringMatching(/./) as string });
    expect(east?.dr).toBeUndefined();
    expect(west).toMatchObject({ reachable: true });
    const { preconditions, plan } = await bench.call('assessDrSwitchover', { input: bench.input() });
    expect(plan).toBeUndefined();
    const observed = expect.stringContaining('east: ') as string;
    const next = expect.stringContaining('failover') as string;
    expect(preconditions).toEqual([expect.objectContaining({ verdict: 'fail', observed, next })]);
  });
});

describe('what a status says', () => {
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
    ['no heartbeat of the connected peer', [CONNECTED, { ...BROKEN, lastHeartbeat: NOW }], 1_000, false],
    ['a broken connection', [{ ...BROKEN, lastHeartbeat: NOW }], 1_000, false],
    ['a heartbeat without any clock to compare with', [heard(NOW)], undefined, false, undefined],
  ] as const)('%s', (_name, primaries, age, alive, ...clock) => {
    const status = { mode: 'secondary', primaries } as unknown as Parameters<typeof observeReplication>[0];
    const seen = observeReplication(status, clock.length > 0 ? undefined : at);
    expect([heartbeatAge(seen), isAlive(seen, 5_000)]).toEqual([age, alive]);
  });

  it('the age of a heartbeat is by the clock of the service, not of the worker', async () => {
    bench.service.advanceClock(60_000);
    const [, west] = await read();
    expect(heartbeatAge(west?.dr)).toBeLessThan(5_000);
    expect(isAlive(west?.dr, 5_000)).toBe(true);
  });

  it('a cluster without replication says only that', () => {
    for (const mode of ['disabled', 'unsupported', 'unknown'] as const)
      expect(observeReplication({ mode }, at)).toEqual({ mode, peers: [] });
    expect(describeReplication(undefined)).toBe('not readable');
  });
});

describe('the evidence that nothing is lost', () => {
  const marking = { deployment: DEPLOYMENT, kind: 'dr', cluster: 'east' } as const;

  it('is a marker that the secondary reached', async () => {
    const { wal, reached = '0' } = await bench.call('writeMarker', { ...marking, secondary: 'west' });
    expect(BigInt(reached)).toBeGreaterThanOrEqual(BigInt(wal));
  });

  it('is not there while the secondary holds back', async () => {
    bench.limit({ merkleEvidenceMs: 200, catchUpMs: 300 });
    bench.cluster('west').holdStream('dr', true);
    const failure = await bench.failure('writeMarker', { ...marking, secondary: 'west' });
    expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT' });
    const marker = await bench.call('writeMarker', marking);
    expect(marker).not.toHaveProperty('reached');
    const compared = await bench.call('compareAfterDemotion', {
      deployment: DEPLOYMENT,
      kind: 'dr',
      oldPrimary: 'east',
      newPrimary: 'west',
      walBefore: marker.wal,
    });
    expect(compared).toMatchObject({ loss: 'bounded' });
    expect(compared.why).toContain('equal Merkle roots were not seen');
    // A cluster that does not answer costs no more: nothing was read, and the comparison ends all the same.
    const silent = bench.service.faults.add({
      cluster: 'west',
      endpoint: /./,
      action: { delayMs: 4_000 },
      times: Infinity,
    });
    const began = performance.now();
    const unread = await bench.call('compareAfterDemotion', {
      ...{ deployment: DEPLOYMENT, kind: 'dr', oldPrimary: 'east', newPrimary: 'west' },
    });
    expect(unread).toMatchObject({ loss: 'bounded', why: expect.stringContaining('how far is not known') as string });
    expect(performance.now() - began).toBeLessThan(3_000);
    silent.remove();
    bench.cluster('west').holdStream('dr', false);
    bench.limit();
  });

  it('a marker tells how far the record has come, and the next one compares it', async () => {
    const write = () => bench.call('writeMarker', marking);
    await bench.records.change(DEPLOYMENT, () => ({ put: { note: 1 } }));
    expect(await write()).not.toHaveProperty('findings');
    expect(await write()).not.toHaveProperty('findings');
    bench.recordServer.forget(recordWorkflowId(DEPLOYMENT));
    // What this worker saw itself is told once: then the marker alone knows.
    await bench.records.read(DEPLOYMENT);
    const alarm = { severity: 'critical', code: 'record-went-back' };
    expect((await write()).findings).toEqual([expect.objectContaining(alarm)]);
  });

  it('a marker is written on a primary only', async () => {
    const before = bench.changes().length;
    const failure = await bench.failure('writeMarker', { ...marking, cluster: 'west' });
    expect(['BAD_REQUEST', 'PERMISSION_DENIED', 'PRECONDITION_FAILED']).toContain(failure.code);
    expect(bench.changes().length - before).toBeLessThanOrEqual(1);
  });
});

describe('the proof that a cluster is not primary', () => {
  const prove = async (events: temporal.api.history.v1.IHistoryEvent[], settleMs = 300) => {
    const clusters = new Clusters({
      inventory: bench.inventory,
      log: { warn: () => undefined },
    } as unknown as ActivityDependencies);
    const client = { workflow: { getHandle: () => ({ fetchHistory: () => Promise.resolve({ events }) }) } };
    const { signal } = new AbortController();
    const { inventory, run } = bench;
    const timing = { ...TIMING, settleMs, lagMs: 300 };
    const execution = { temporal: client, inventory, run, signal, timing } as unknown as Parameters<
      typeof proveNotPrimary
    >[0];
    const [candidate, other] = [clusters.of(DEPLOYMENT, 'west'), clusters.of(DEPLOYMENT, 'east')];
    const promotion = { deployment: DEPLOYMENT, kind: 'dr', gate: 'go', candidate, other } as const;
    try {
      await proveNotPrimary(execution, promotion);
      return 'proven';
    } catch (error) {
      return failedOf(error).code;
    }
  };
  const activity = (type: string, cluster: string, end: 'completed' | Exclude<ActivityEnd, object> | typeof refused) =>
    activityEvents(
      type,
      { deployment: DEPLOYMENT, kind: 'dr', cluster },
      end === 'completed' ? { result: { outcome: 'done' } } : end,
    );
  const refused = { code: 'NOT_CAUGHT_UP', outcomeKnown: true };
  const doubtful = { code: 'CONFIRMATION_TIMEOUT', outcomeKnown: false };
  const demoted = () => activity('demotePrimary', 'east', 'completed');
  const promoted = (end: Parameters<typeof activity>[2]) => activity('promoteSecondary', 'east', end);

  it('a cluster that says that it is primary is believed, whatever the history says', async () => {
    expect(await prove(demoted())).toBe('STATE_DIVERGED');
  });

  const REFUSES = 'PRECONDITION_FAILED';
  it.each([
    ['nothing known', [], REFUSES],
    ['demoted by this run', demoted(), 'proven'],
    ['the other side was demoted, which looked at this one', activity('demotePrimary', 'west', 'completed'), 'proven'],
    ['a demotion that failed', activity('demotePrimary', 'east', doubtful), REFUSES],
    ['demoted, promotion refused for certain', [...demoted(), ...promoted(refused)], 'proven'],
    ['a promotion that was refused, and no demotion', promoted(refused), REFUSES],
    ['a promotion in doubt', [...demoted(), ...promoted(doubtful)], REFUSES],
    ['a promotion that worked', [...demoted(), ...promoted('completed')], REFUSES],
    ['a promotion under way', [...demoted(), ...promoted('running')], REFUSES],
  ])('a cluster that does not answer counts by what this run did to it: %s', async (_what, events, expected) => {
    await bench.cluster('east').kill();
    expect(await prove(events)).toBe(expected);
  });

  describe('where it became a secondary', () => {
    const status = 'GET /v1/sys/replication/dr/status';
    const leader = 'GET /v1/sys/leader';
    const says = (
      mode: string,
      more: { readonly node?: number; readonly skip?: number; readonly times?: number } = {},
    ) =>
      bench.service.faults.add({
        cluster: 'east',
        endpoint: status,
        action: { status: 200, body: { data: { mode } } },
        times: Infinity,
        ...more,
      });
    const asked = () =>
      bench.service.calls.filter(({ cluster, path }) => cluster === 'east' && path.endsWith('dr/status'));

    it('a promotion in doubt is waited out, looked at again and again, by a clock that nobody sets', async () => {
      says('secondary');
      const [before, began] = [asked().length, performance.now()];
      const { now } = Date;
      const clock = jest.spyOn(Date, 'now').mockImplementation(() => now() + 60_000 * asked().length);
      expect(await prove([...demoted(), ...promoted(doubtful)], 600)).toBe('proven');
      clock.mockRestore();
      expect(performance.now() - began).toBeGreaterThan(600);
      expect(asked().length - before).toBeGreaterThanOrEqual(6);
    });

    it('a standby that says so proves nothing while no node is active', async () => {
      says('secondary');
      bench.service.faults.add({ cluster: 'east', endpoint: leader, action: { status: 503 }, times: Infinity });
      expect(await prove([])).toBe('PRECONDITION_FAILED');
      expect(await prove(demoted())).toBe('proven');
    });

    it('standbys that say so prove nothing while the active node does not know', async () => {
      const active = bench.cluster('east').addresses[0] ?? '';
      const client = {
        forgetActiveNode: () => undefined,
        activeNode: async () => active,
        dr: { status: async ({ node }: { node: string }) => ({ mode: node === active ? 'unknown' : 'secondary' }) },
      };
      const said = await askRole(
        { entry: { addresses: bench.cluster('east').addresses }, client } as unknown as Parameters<typeof askRole>[0],
        new AbortController().signal,
      );
      expect(said).toEqual({ active: undefined, nodes: ['unknown', 'secondary', 'secondary'] });
    });

    const nodeSays = (times: number) => says('primary', { node: 2, times });
    const late = () => says('primary', { skip: 5 });
    it.each([
      ['its active node is believed', undefined, [], 'proven'],
      ['one node that goes on saying primary refuses', () => nodeSays(Infinity), demoted(), 'STATE_DIVERGED'],
      ['a standby that says primary for a moment is asked again', () => nodeSays(1), demoted(), 'proven'],
      ['a late effect of one in doubt is seen', late, [...demoted(), ...promoted(doubtful)], 'STATE_DIVERGED'],
      ['a promotion under way refuses', undefined, [...demoted(), ...promoted('running')], REFUSES],
    ])('%s', async (_name, arrange, events, expected) => {
      says('secondary');
      arrange?.();
      expect(await prove(events)).toBe(expected);
    });
  });
});
