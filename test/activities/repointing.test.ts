/** Re-pointing a secondary: public key, activation token and update-primary are one activity, and a filter keeps away what it kept. */
import { follows } from '../../activities/joining/following';
import type { PathsFilterFacts } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { SimulatedCluster } from '../../src/simulator';
import { ActivityBench, clusters, DEPLOYMENT, holding, openBench, replicating } from '../support/activity-environment';
import type { CallOptions, SignedPlan } from '../support/activity-environment';

/** Calls since the test began: update-primary, issued activation tokens, revocations. */
type Made = readonly [update: number, issue: number, revoke: number];

describe('a DR secondary', () => {
  const DR = '/v1/sys/replication/dr';
  const ISSUE = `POST ${DR}/primary/secondary-token`;
  const KEY = `POST ${DR}/secondary/generate-public-key`;
  const UPDATE = `POST ${DR}/secondary/update-primary`;
  const TO_WEST = { deployment: DEPLOYMENT, primary: 'west', secondary: 'east' } as const;
  const ONCE = { outcome: 'done', calls: 1 };

  let bench: ActivityBench;
  let token: OperationTokenReference;
  let authority: SignedPlan;
  /** The roles after the switchover: west is primary, and east, demoted, knows nobody. */
  let setRolesBack: () => void;
  let before: Made;

  openBench((opened) => (bench = opened), {
    topology: {
      clusters: clusters({ east: 3, west: 1 }),
      readings: { leaderChangeChance: 0 },
    },
  });
  beforeAll(async () => {
    authority = await bench.authority();
    await bench.switchOver(authority);
    setRolesBack = bench.rolesKept();
    token = await bench.operationToken('east');
  });
  beforeEach(() => {
    bench.service.faults.clear();
    bench.isGivenUp = false;
    setRolesBack();
    bench.cluster('east').leaderChange(0);
    bench.service.advanceClock(1_000);
    before = calls();
  });

  const calls = (): Made => [
    bench.calls('east', 'secondary/update-primary'),
    bench.calls('west', 'primary/secondary-token'),
    bench.calls('west', 'primary/revoke-secondary'),
  ];
  const expectMade = (...made: Made) =>
    expect(calls().map((count, index) => count - (before[index] ?? 0))).toEqual(made);
  const input = (more: object = {}) => ({ kind: 'dr', by: 'token', ...TO_WEST, token, authority, ...more }) as const;
  const point = (options?: CallOptions) => bench.call('updatePrimary', input(), options);
  const refuses = (code: string, expected: object = {}, options?: CallOptions) =>
    bench.refused('updatePrimary', input(), code, { retryable: false, ...expected }, options);
  const stream = () => bench.call('awaitDrStreaming', TO_WEST);
  const known = () => bench.cluster('west').snapshotState().dr.knownSecondaries;
  const eastId = () => bench.cluster('east').clusterId;
  const fault = (cluster: string, endpoint: string, ...actions: Parameters<ActivityBench['always']>[1][]) =>
    actions.forEach((action, skip) => bench.service.faults.add({ cluster, endpoint, action, skip }));

  it('a token is issued, used once, and then it streams', async () => {
    expect(await point()).toMatchObject({ ...ONCE, observed: 'east has west configured as its DR primary' });
    expect(await stream()).toMatchObject({ observed: expect.stringMatching(/stream-wals.*heartbeat/) as string });
    // What is done already is not done again.
    expect(await point()).toMatchObject({ outcome: 'already', calls: 0 });
    expectMade(1, 1, 0);
    expect(known()).toEqual([eastId()]);
  });

  it('streaming counts with last_remote_wal 0 only if the Merkle roots are equal', async () => {
    await point();
    const streaming = await stream();
    const [east, west] = [bench.cluster('east'), bench.cluster('west')];
    expect(east.snapshotState().dr.merkleRoot).toBe(west.snapshotState().dr.merkleRoot);
    expect(streaming.observed).toContain('stream-wals');
    // Held back while the primary writes: connected, heartbeats, state stream-wals, and yet not caught up.
    east.holdStream('dr', true);
    west.write('secret/after', { a: 1 });
    bench.limit({ streamingMs: 300 });
    await bench.refused('awaitDrStreaming', TO_WEST, 'CONFIRMATION_TIMEOUT', { retryable: false });
    bench.limit();
    east.holdStream('dr', false);
  });

  it('by a wrapped token if the public key is refused', async () => {
    const keys = bench.calls('east', 'secondary/generate-public-key');
    bench.always(KEY, { status: 403 }, 'east');
    expect(await point()).toMatchObject(ONCE);
    expect(bench.calls('east', 'secondary/generate-public-key') - keys).toBe(2);
  });

  it.each<[string, () => unknown, number, Made]>([
    [
      'a lost answer leaves an unknown token: its id is revoked and it is issued again',
      () => fault('west', ISSUE, 'lose-answer'),
      1,
      [1, 2, 1],
    ],
    [
      '412 and 500 for some seconds after a promotion are waited out',
      () => fault('west', ISSUE, { status: 412 }, { status: 500 }),
      1,
      [1, 3, 0],
    ],
    [
      'a leader change after the public key loses the private key: no call is made, and all is done again',
      () => {
        const action = () => {
          bench.cluster('east').leaderChange(1);
          bench.service.advanceClock(1_000);
        };
        bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, when: 'after', action });
      },
      1,
      [1, 2, 1],
    ],
    [
      'update-primary whose answer is lost after its effect is not called again',
      () => fault('east', UPDATE, 'lose-answer'),
      1,
      [1, 1, 0],
    ],
    [
      'a token that is not taken counts as lost, and all is done again',
      () => fault('east', UPDATE, { status: 400 }),
      2,
      [2, 2, 1],
    ],
  ])('%s', async (_what, arrange, called, made) => {
    arrange();
    expect(await point()).toMatchObject({ outcome: 'done', calls: called });
    expectMade(...made);
    expect(known()).toEqual([eastId()]);
  });

  it('three refused tokens end the activity', async () => {
    bench.always(UPDATE, { status: 400 }, 'east');
    // Whoever aborts now knows what is left on the primary.
    const findings = [expect.objectContaining({ code: 'activation-token-unused' })];
    await refuses('STATE_DIVERGED', { details: { outcomeKnown: true, findings } });
    expect(calls()[0] - before[0]).toBe(3);
  });

  it('the attempts of earlier tries count: a primary that issues no token is asked a few times more, and not for a minute', async () => {
    bench.always(ISSUE, { status: 500 }, 'west');
    // The last answer was an error of the server: whether it made a token is not known.
    const failure = await bench.failure('updatePrimary', input(), { attempt: 2, spentMs: 60_000 });
    expect(failure).toMatchObject({
      ...{ code: 'SERVICE_ERROR', retryable: false, details: { outcomeKnown: false } },
      ...{ message: holding('issued no activation token within 60 s') },
    });
    const [update, issue] = calls();
    expect([update - before[0], issue - before[1] < 8]).toEqual([0, true]);
  });

  it('a token that is refused for certain is not requested again', async () => {
    bench.always(ISSUE, { status: 403 }, 'west');
    await refuses('PERMISSION_DENIED');
    expectMade(0, 1, 0);
  });

  describe('an attempt that is lost', () => {
    const diesBy = async (arrange: (cancel: () => void) => unknown) => {
      let cancel: () => void = () => undefined;
      arrange(() => cancel());
      const options = { onStart: (given: () => void) => (cancel = given) };
      await bench.refused('updatePrimary', input(), 'CancelledFailure', {}, options);
    };
    /** The first attempt is cancelled after this call; what follows it is the second one. */
    const diesAfter = (cluster: string, endpoint: string) =>
      diesBy((action) => bench.service.faults.add({ cluster, endpoint, when: 'after', action }));

    it('after its token was issued, and before it was used: nobody has the token, its id is revoked, and a new one is used', async () => {
      await diesAfter('west', ISSUE);
      expectMade(0, 1, 0);
      expect(known()).toEqual([eastId()]);
      expect(await point({ attempt: 2 })).toMatchObject(ONCE);
      expectMade(1, 2, 1);
      expect(known()).toEqual([eastId()]);
      await stream();
    });

    it('after its token was used: the next one detects that, and neither revokes nor issues one', async () => {
      await diesAfter('east', UPDATE);
      expect(await point({ attempt: 2 })).toMatchObject({ outcome: 'already', calls: 0 });
      expectMade(1, 1, 0);
      await stream();
    });

    it('while its call may arrive late: the next one does not revoke an id before that call cannot arrive any more', async () => {
      await diesBy((cancel) => {
        const late = bench.service.faults.add({ cluster: 'east', endpoint: UPDATE, action: 'arrive-late' });
        let cancelled = false;
        const meanwhile = async () => {
          if (late.hits === 0) return;
          if (cancelled) await late.arrive();
          else cancel();
          cancelled = true;
        };
        bench.always(`GET ${DR}/status`, meanwhile, 'east');
      });
      expect(await point({ attempt: 2 })).toMatchObject({ outcome: 'already', calls: 0 });
      expectMade(1, 1, 0);
    });

    it.each([
      ['revoke the id of its token', 0],
      ['use its token', 1],
    ])('for Temporal alone does not %s when it continues: another one is at work', async (_what, revoked) => {
      const { now } = Date;
      let stillMs = 0;
      jest.spyOn(Date, 'now').mockImplementation(() => now() + stillMs);
      const standStill = () => {
        bench.isGivenUp = true;
        stillMs = 6_000;
      };
      // The answer with the first token is lost: its id is to be revoked.
      bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, action: 'lose-answer' });
      bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, skip: revoked, action: standStill });
      const failure = await bench.failure('updatePrimary', input());
      jest.restoreAllMocks();
      expect(failure.code).toBe('CancelledFailure');
      const [update, , revoke] = calls();
      expect([update - before[0], revoke - before[2]]).toEqual([0, revoked]);
    });
  });

  it('the id of a secondary that is connected now is never revoked', async () => {
    await point();
    await stream();
    // East says that it knows nobody, while west sees it connected.
    const data = { mode: 'secondary', state: 'idle', cluster_id: 'x', known_primary_cluster_addrs: [] };
    bench.always(`GET ${DR}/status`, { status: 200, body: { data } }, 'east');
    await refuses('PRECONDITION_FAILED', { details: { observed: holding('connected') } });
    expectMade(1, 1, 0);
  });

  it('a token that the secondary refuses is named, with the way to get another', async () => {
    fault('east', UPDATE, { status: 403 });
    const told = {
      observed: 'east refused the operation token of this run',
      next: holding('another run, which makes'),
    };
    await refuses('PERMISSION_DENIED', { details: { outcomeKnown: true, ...told } });
  });

  it('a token of another use or cluster does not open, and no request is sent', async () => {
    const live = bench.cluster('east').issuedSecrets.at(-1) ?? '';
    const sealedFor = async (cluster: string, use: string) =>
      ({ source: 'sealed', cluster, value: await bench.sealOperationToken('east', live, [use]) }) as const;
    const refusesUnsent = (more: object, code: string) => bench.refusedUnsent('updatePrimary', input(more), code);
    for (const reference of [await sealedFor('east', 'dr.promote'), await sealedFor('west', 'dr.update-primary')])
      await refusesUnsent({ token: reference }, 'SEALED_VALUE_INVALID');
    await refusesUnsent({ primary: 'east', secondary: 'west' }, 'PRECONDITION_FAILED');
    await refusesUnsent({ token: { source: 'batch', cluster: 'east' } }, 'TOKEN_SOURCE_UNAVAILABLE');
  });
});

describe('a performance secondary that does not follow', () => {
  const BASE = '/v1/sys/replication/performance';
  const ISSUE = `POST ${BASE}/primary/secondary-token`;
  const UPDATE = `POST ${BASE}/secondary/update-primary`;
  const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };
  const UNDER_WAY_MS = 1_500;
  const TO_WEST = { deployment: DEPLOYMENT, primary: 'west', secondary: 'europe' } as const;

  let bench: ActivityBench;
  let europe: SimulatedCluster;
  let authority: SignedPlan;
  const readings = { leaderChangeChance: 0, performanceSecondariesFollow: false };
  beforeEach(async () => {
    bench = await ActivityBench.start({
      ...replicating({ main: ['east', 'west'], eu: ['europe'] }, { europe: FILTER }, { readings }),
      timing: { underWayMs: UNDER_WAY_MS },
    });
    europe = bench.cluster('europe');
    authority = await bench.authority();
    await bench.switchOver(authority);
  });
  afterEach(() => bench.stop());

  const read = () => bench.call('readPathsFilter', TO_WEST);
  const writing = (id: string, filter: PathsFilterFacts = FILTER) => {
    return { deployment: DEPLOYMENT, cluster: 'west', secondary: 'europe', id, filter, authority } as const;
  };
  const write = (id: string) => bench.call('writePathsFilter', writing(id));
  const following = () =>
    ({ kind: 'performance', by: 'token', ...TO_WEST, authority, expected: { filter: FILTER } }) as const;
  const point = () => bench.call('updatePrimary', following());
  /** Somebody, or the service itself, takes the filter away. */
  const drop = (id: string) =>
    void bench.cluster('west').storage.write(`cluster/filter/${id}`, null, bench.service.now());

  it('keeps its filter although update-primary drops it: read, used under the cluster ID, written again, compared', async () => {
    const compare = async (id: string, expected?: PathsFilterFacts) => {
      bench.limit({ streamingMs: 300 });
      return bench.call('compareDynamicFilters', { ...TO_WEST, id, expected }).finally(() => bench.limit());
    };
    bench.limit({ streamingMs: 300 });
    const [seen] = (await bench.call('awaitPerformanceSecondaries', { ...TO_WEST, secondaries: ['europe'] })).following;
    expect(seen).toMatchObject({ cluster: 'europe', follows: false });
    bench.limit();

    const { id, filter } = await read();
    expect({ id, filter }).toEqual({ id: europe.clusterId, filter: FILTER });
    await write(id);
    // Somebody deletes it while the token is issued: right before the call nothing but what is expected lets europe in.
    bench.service.faults.add({ endpoint: ISSUE, when: 'after', action: () => drop(id) });
    await bench.refused('updatePrimary', following(), 'PRECONDITION_FAILED', {
      details: { observed: `no paths filter under ${id}` },
    });
    expect(bench.calls('europe', 'secondary/update-primary')).toBe(0);
    await write(id);
    expect(await point()).toMatchObject({ outcome: 'done', calls: 1 });
    // Both sides agree on no filter at all: that is not what was expected.
    expect((await read()).filter).toBeUndefined();
    expect(await compare(id, FILTER)).toMatchObject({ equal: false, observed: holding('no paths filter') });
    expect(await write(id)).toMatchObject({ outcome: 'done', calls: 1 });
    expect(await write(id)).toMatchObject({ outcome: 'already', calls: 0 });
    expect(await bench.call('compareDynamicFilters', { ...TO_WEST, id, expected: FILTER })).toMatchObject({
      equal: true,
    });
    // Both sides agree on a filter that nobody wants.
    expect(await compare(id)).toMatchObject({ equal: false });
    expect(await point()).toMatchObject({ outcome: 'already' });
    // Its id is connected now, so that nothing revokes it.
    expect(bench.cluster('west').snapshotState().performance.knownSecondaries).toContain(id);
  });

  it('whose update-primary is not answered does not get another while that can be under way', async () => {
    bench.service.faults.add({ endpoint: UPDATE, action: 'reset' });
    const sent: number[] = [];
    const tell = () => void sent.push(Date.now());
    bench.service.faults.add({ endpoint: UPDATE, action: tell, times: Infinity, skip: 1 });
    const began = Date.now();
    expect(await point()).toMatchObject({ outcome: 'done', calls: 2 });
    expect(sent.map((at) => at - began >= UNDER_WAY_MS)).toEqual([true]);
  });

  it('gets another token if one is refused, after the filter that the refused one may have dropped; one that cannot be written ends its activity', async () => {
    const { id } = await read();
    await write(id);
    bench.service.faults.add({ endpoint: UPDATE, action: () => drop(id) });
    bench.service.faults.add({ endpoint: UPDATE, action: { status: 400 } });
    const before = bench.changes().length;
    expect(await point()).toMatchObject({ outcome: 'done', calls: 2 });
    const changes = bench.changes().map((call) => call.split('/').at(-1));
    expect(changes.slice(before).filter((call) => call === id || call === 'update-primary')).toEqual([
      ...['update-primary', id, 'update-primary'],
    ]);
    drop(id);
    bench.always(`POST ${BASE}/primary/paths-filter/${id}`, { status: 403 });
    await bench.refused('writePathsFilter', writing(id), 'PERMISSION_DENIED', { retryable: false });
  });
});

it('a secondary follows an address with or without a scheme: the service accepts both, and reports the given one', () => {
  const at = (primaryClusterAddress: string) => ({ mode: 'secondary', primaryClusterAddress }) as const;
  const known = new Set(['https://lb.example:8201']);
  for (const reported of ['lb.example:8201', 'https://lb.example:8201', 'https://lb.example:8201/'])
    expect(follows({ ...at(reported), peers: [] }, known)).toBe(true);
  expect(follows({ ...at('https://lb.example:8201'), peers: [] }, new Set(['lb.example:8201']))).toBe(true);
  for (const reported of ['', 'lb.example:8202', 'other.example:8201'])
    expect(follows({ ...at(reported), peers: [] }, known)).toBe(false);
});
