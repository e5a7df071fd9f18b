/** Re-attaching a DR secondary: public key, activation token and update-primary are one activity. */
import type { Authority } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench, CallOptions } from '../support/activity-environment';

const DR = '/v1/sys/replication/dr';
const ISSUE = `POST ${DR}/primary/secondary-token`;
const KEY = `POST ${DR}/secondary/generate-public-key`;
const UPDATE = `POST ${DR}/secondary/update-primary`;
const TO_WEST = { deployment: DEPLOYMENT, primary: 'west', secondary: 'east' } as const;

let bench: ActivityBench;
let token: OperationTokenReference;
let authority: Authority;
/** The roles after the switchover: west is primary, and east, demoted, knows nobody. */
let setRolesBack: () => void;
let before: Readonly<Record<'update' | 'issue' | 'revoke', number>>;

openBench((opened) => (bench = opened), {
  topology: {
    clusters: [
      { name: 'east', nodes: 3 },
      { name: 'west', nodes: 1 },
    ],
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

const calls = () => ({
  update: bench.calls('east', 'secondary/update-primary'),
  issue: bench.calls('west', 'primary/secondary-token'),
  revoke: bench.calls('west', 'primary/revoke-secondary'),
});
/** Calls since the test began. */
const made = (which: keyof typeof before) => calls()[which] - before[which];
const input = (more: object = {}) => ({ kind: 'dr', by: 'token', ...TO_WEST, token, authority, ...more }) as const;
const point = (options?: CallOptions) => bench.call('updatePrimary', input(), options);
const known = () => bench.cluster('west').snapshotState().dr.knownSecondaries;
const eastId = () => bench.cluster('east').clusterId;

it('a token is issued, used once, and then it streams', async () => {
  expect(await point()).toMatchObject({ outcome: 'done', calls: 1, observed: 'east knows west as its DR primary' });
  const streaming = await bench.call('awaitDrStreaming', TO_WEST);
  expect(streaming.state).toBe('stream-wals');
  expect(streaming.observed).toContain('heartbeat');
  // What is done already is not done again.
  expect(await point()).toMatchObject({ outcome: 'already', calls: 0 });
  expect([made('update'), made('issue'), made('revoke')]).toEqual([1, 1, 0]);
  expect(known()).toEqual([eastId()]);
});

it('streaming counts with last_remote_wal 0 only where the Merkle roots are equal', async () => {
  await point();
  const streaming = await bench.call('awaitDrStreaming', TO_WEST);
  const east = bench.cluster('east').snapshotState().dr;
  const west = bench.cluster('west').snapshotState().dr;
  expect(east.merkleRoot).toBe(west.merkleRoot);
  expect(streaming.state).toBe('stream-wals');
  // Held back while the primary writes: connected, heartbeats, state stream-wals, and yet not caught up.
  bench.cluster('east').holdStream('dr', true);
  bench.cluster('west').write('secret/after', { a: 1 });
  bench.limit({ streamingMs: 300 });
  const failure = await bench.failure('awaitDrStreaming', TO_WEST);
  bench.limit();
  bench.cluster('east').holdStream('dr', false);
  expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', retryable: false });
});

it('by a wrapped token where the public key is refused', async () => {
  const keys = bench.calls('east', 'secondary/generate-public-key');
  bench.always(KEY, { status: 403 }, 'east');
  expect(await point()).toMatchObject({ outcome: 'done', calls: 1 });
  expect(bench.calls('east', 'secondary/generate-public-key') - keys).toBe(2);
});

it('a lost answer leaves a token that nobody knows: its id is revoked and it is issued again', async () => {
  bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, action: 'lose-answer' });
  expect(await point()).toMatchObject({ outcome: 'done', calls: 1 });
  expect([made('issue'), made('revoke'), made('update')]).toEqual([2, 1, 1]);
  expect(known()).toEqual([eastId()]);
});

it('412 and 500 for some seconds after a promotion are waited out', async () => {
  bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, action: { status: 412 } });
  bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, action: { status: 500 }, skip: 1 });
  expect(await point()).toMatchObject({ outcome: 'done' });
  expect(made('issue')).toBe(3);
});

it('what earlier attempts spent counts: a primary that issues nothing is asked a few times more, and not for a minute', async () => {
  bench.always(ISSUE, { status: 500 }, 'west');
  const failure = await bench.failure('updatePrimary', input(), { attempt: 2, spentMs: 60_000 });
  expect(failure.retryable).toBe(false);
  expect(failure.message).toContain('issued no activation token within 60 s');
  expect([made('issue') < 8, made('update')]).toEqual([true, 0]);
});

it('a token that is refused for certain is not asked for again', async () => {
  bench.always(ISSUE, { status: 403 }, 'west');
  await bench.refused('updatePrimary', input(), 'PERMISSION_DENIED', { retryable: false });
  expect([made('issue'), made('update')]).toEqual([1, 0]);
});

it('a leader change after the public key loses the private key: no call is made, and all is done again', async () => {
  const change = () => {
    bench.cluster('east').leaderChange(1);
    bench.service.advanceClock(1_000);
  };
  bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, when: 'after', action: change });
  expect(await point()).toMatchObject({ outcome: 'done', calls: 1 });
  expect([made('issue'), made('revoke'), made('update')]).toEqual([2, 1, 1]);
});

it('update-primary whose answer is lost after its effect is not called again', async () => {
  bench.service.faults.add({ cluster: 'east', endpoint: UPDATE, action: 'lose-answer' });
  expect(await point()).toMatchObject({ outcome: 'done', calls: 1 });
  expect(made('update')).toBe(1);
});

it('a token that is not taken counts as lost, and all is done again; three of them end the activity', async () => {
  bench.service.faults.add({ cluster: 'east', endpoint: UPDATE, action: { status: 400 } });
  expect(await point()).toMatchObject({ outcome: 'done', calls: 2 });
  expect([made('issue'), made('revoke'), made('update')]).toEqual([2, 1, 2]);

  setRolesBack();
  bench.always(UPDATE, { status: 400 }, 'east');
  expect(await bench.failure('updatePrimary', input())).toMatchObject({
    ...{ code: 'STATE_DIVERGED', retryable: false },
    // Whoever aborts now knows what is left on the primary.
    details: { outcomeKnown: true, findings: [expect.objectContaining({ code: 'activation-token-unused' })] },
  });
  expect(made('update')).toBe(5);
});

describe('an attempt that dies', () => {
  /** The first attempt is cancelled at this call; what follows it is the second one. */
  async function diesAt(cluster: string, endpoint: string, when: 'before' | 'after'): Promise<void> {
    let cancel: () => void = () => undefined;
    bench.service.faults.add({ cluster, endpoint, when, action: () => cancel() });
    const failure = await bench.failure('updatePrimary', input(), { onStart: (given) => (cancel = given) });
    expect(failure.code).toBe('CancelledFailure');
  }

  it('after its token was issued, and before it was used: nobody has the token, its id is revoked, all is done again', async () => {
    await diesAt('west', ISSUE, 'after');
    expect([made('issue'), made('revoke'), made('update')]).toEqual([1, 0, 0]);
    expect(known()).toEqual([eastId()]);
    expect(await point({ attempt: 2 })).toMatchObject({ outcome: 'done', calls: 1 });
    expect([made('issue'), made('revoke'), made('update')]).toEqual([2, 1, 1]);
    expect(known()).toEqual([eastId()]);
    await bench.call('awaitDrStreaming', TO_WEST);
  });

  it('after its token was used: the next one sees that, and revokes and issues nothing', async () => {
    await diesAt('east', UPDATE, 'after');
    expect(await point({ attempt: 2 })).toMatchObject({ outcome: 'already', calls: 0 });
    expect([made('issue'), made('revoke'), made('update')]).toEqual([1, 0, 1]);
    await bench.call('awaitDrStreaming', TO_WEST);
  });

  it('while its call may arrive late: the next one revokes nothing before that call cannot arrive any more', async () => {
    let cancel: (() => void) | undefined;
    const late = bench.service.faults.add({ cluster: 'east', endpoint: UPDATE, action: 'arrive-late' });
    const meanwhile = async () => {
      if (late.hits === 0) return;
      if (cancel === undefined) await late.arrive();
      cancel?.();
      cancel = undefined;
    };
    bench.always(`GET ${DR}/status`, meanwhile, 'east');
    const died = await bench.failure('updatePrimary', input(), { onStart: (given) => (cancel = given) });
    expect(died.code).toBe('CancelledFailure');
    expect(await point({ attempt: 2 })).toMatchObject({ outcome: 'already', calls: 0 });
    expect([made('issue'), made('revoke'), made('update')]).toEqual([1, 0, 1]);
  });

  it.each([
    ['revoke the id of its token', 0],
    ['use its token', 1],
  ])('for Temporal alone does not %s when it wakes up: another one is at work', async (_what, revoked) => {
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
    expect([made('revoke'), made('update')]).toEqual([revoked, 0]);
  });
});

it('the id of a secondary that is connected now is never revoked', async () => {
  await point();
  await bench.call('awaitDrStreaming', TO_WEST);
  // East says that it knows nobody, while west sees it connected.
  const status = { data: { mode: 'secondary', state: 'idle', cluster_id: 'x', known_primary_cluster_addrs: [] } };
  bench.always(`GET ${DR}/status`, { status: 200, body: status }, 'east');
  const failure = await bench.failure('updatePrimary', input());
  expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED', retryable: false });
  expect(failure.details['observed']).toContain('connected');
  expect([made('revoke'), made('issue')]).toEqual([0, 1]);
});

it('tokens of another run, cluster or use open nothing, and nothing is called', async () => {
  const otherRun = { ...bench.run, rid: '00000000-0000-4000-8000-000000000000' };
  const live = bench.cluster('east').issuedSecrets.at(-1) ?? '';
  const sealed = async (cluster: string, ...seal: Parameters<ActivityBench['sealOperationToken']>) =>
    ({ source: 'sealed', cluster, value: await bench.sealOperationToken(...seal) }) as const;
  const references = [
    await sealed('east', 'east', live, ['dr.update-primary'], otherRun),
    await sealed('east', 'east', live, ['dr.promote']),
    await sealed('east', 'west', live, ['dr.update-primary']),
    await sealed('west', 'east', live, ['dr.update-primary']),
  ];
  const changes = bench.changes();
  for (const reference of references)
    await bench.refused('updatePrimary', input({ token: reference }), 'SEALED_VALUE_INVALID', { retryable: false });
  const turned = await bench.failure('updatePrimary', input({ primary: 'east', secondary: 'west' }));
  expect(turned.code).toBe('PRECONDITION_FAILED');
  const batch = await bench.failure('updatePrimary', input({ token: { source: 'batch', cluster: 'east' } }));
  expect(batch.code).toBe('TOKEN_SOURCE_UNAVAILABLE');
  expect(bench.changes()).toEqual(changes);
});
