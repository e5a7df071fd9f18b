/** Demote and promote, approved: once, whatever happens to the answer, and told for what it is. */
import type { Authority } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { DEPLOYMENT, drDemotion, drPromotion, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const DEMOTE = 'POST /v1/sys/replication/dr/primary/demote';
const PROMOTE = 'POST /v1/sys/replication/dr/secondary/promote';

let bench: ActivityBench;
let authority: Authority;
let token: OperationTokenReference;
let setRolesBack: () => void;
let before: Readonly<Record<'demote' | 'promote', number>>;

openBench((opened) => (bench = opened), {
  topology: { readings: { leaderChangeChance: 0 } },
  // What is read later than that proves that a lost request had no effect.
});
beforeAll(async () => {
  // Roles are set back behind the service's back here: a WAL index says nothing of what the secondary has.
  authority = await bench.authority({ acceptLoss: 'bounded' });
  token = await bench.operationToken('west');
  setRolesBack = bench.rolesKept();
});
beforeEach(() => {
  bench.service.faults.clear();
  bench.limit();
  setRolesBack();
  bench.cluster('west').holdStream('dr', false);
  bench.service.advanceClock(1_000);
  before = calls();
});

const calls = () => ({
  demote: bench.calls('east', 'dr/primary/demote'),
  promote: bench.calls('west', 'dr/secondary/promote'),
});
const made = (which: keyof typeof before) => calls()[which] - before[which];
const demote = () => bench.call('demotePrimary', drDemotion(authority));
const promotion = (reference = token) => drPromotion(reference, authority);
const mode = (cluster: string) => bench.cluster(cluster).snapshotState().dr.mode;

it('a demotion and a promotion are made once, and made again they are there already', async () => {
  expect(await demote()).toMatchObject({ outcome: 'done', calls: 1, walBefore: expect.any(String) as string });
  expect(await demote()).toMatchObject({ outcome: 'already', calls: 0 });
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done', calls: 1 });
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'already', calls: 0 });
  expect([mode('east'), mode('west'), made('demote'), made('promote')]).toEqual(['secondary', 'primary', 1, 1]);
});

describe('an inventory that was changed since the plan was made', () => {
  const change = async (member: 'gates' | 'hooks', value: object, work: () => Promise<void>) => {
    const deployment = bench.inventory.deployments.get(DEPLOYMENT);
    if (!deployment) throw new Error('no deployment');
    const before = deployment[member];
    Object.assign(deployment, { [member]: { ...before, ...value } });
    await work().finally(() => Object.assign(deployment, { [member]: before }));
  };

  it.each([
    ['gates', { unfence: { approvals: 2, groups: ['approvers'], excludeRequester: true, validForMs: 60_000 } }],
    ['hooks', { traffic: { kind: 'call', url: 'http://127.0.0.1:1/', idempotent: false } }],
  ] as const)('begins no demotion where its %s changed, and does where they are put back', async (member, value) => {
    await change(member, value, async () => {
      await bench.refused('demotePrimary', drDemotion(authority), 'NOT_APPROVED', {
        details: {
          observed: 'the inventory was changed since the plan was made',
          next: expect.stringContaining('Put the inventory back') as string,
        },
      });
      expect([mode('east'), made('demote')]).toEqual(['primary', 0]);
    });
    expect(await demote()).toMatchObject({ outcome: 'done' });
  });

  it('does not keep an outage going: a corrected hook refuses no promotion', async () => {
    await demote();
    await change('hooks', { traffic: { kind: 'call', url: 'http://127.0.0.1:1/', idempotent: false } }, async () => {
      expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done' });
    });
  });

  it('names itself where a gate that needs more now is not met', async () => {
    const { plan } = bench.inventory.deployments.get(DEPLOYMENT)?.gates ?? {};
    await change('gates', { plan: { ...plan, approvals: 2 } }, async () => {
      await bench.refused('demotePrimary', drDemotion(authority), 'NOT_APPROVED', {
        details: {
          observed: expect.stringContaining('by the inventory, which was changed') as string,
          next: expect.stringContaining('Put the inventory back') as string,
        },
      });
    });
  });
});

it('a promotion goes on where the worker stood still for longer than its budget', async () => {
  await demote();
  bench.limit({ promoteMs: 300 });
  const standStill = () => {
    for (const until = performance.now() + 600; performance.now() < until;);
  };
  bench.service.faults.add({ endpoint: PROMOTE, action: standStill });
  bench.service.faults.add({ endpoint: PROMOTE, action: { status: 503 }, times: 2 });
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done', calls: 3 });
  expect([mode('west'), made('promote')]).toEqual(['primary', 3]);
});

it.each(['lose-answer', 'glue-documents'] as const)(
  'an answer lost or mangled after its effect (%s): one call each',
  async (action) => {
    bench.service.faults.add({ endpoint: DEMOTE, action });
    bench.service.faults.add({ endpoint: PROMOTE, action });
    expect(await demote()).toMatchObject({ outcome: 'done', calls: 1 });
    expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done', calls: 1 });
    expect([made('demote'), made('promote')]).toEqual([1, 1]);
  },
);

it('a connection that broke before the effect: called again after reads proved that nothing happened', async () => {
  bench.service.faults.add({ endpoint: DEMOTE, action: 'reset' });
  bench.service.faults.add({ endpoint: PROMOTE, action: 'reset' });
  expect(await demote()).toMatchObject({ outcome: 'done', calls: 2 });
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done', calls: 2 });
});

it('a cluster that does not tell its ID is waited for a quarter of the budget where there is a way back', async () => {
  await demote();
  bench.limit({ promoteMs: 800 });
  bench.always(/sys\/health/, { status: 503 }, 'west');
  const failure = await bench.failure('promoteSecondary', { ...promotion(), wayBack: true });
  expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', details: { outcomeKnown: true } });
  expect(failure.message).toContain('Not seen within 0.2 s');
});

it('and to the end where the other cluster tells nothing either: that is no way back', async () => {
  await demote();
  bench.limit({ promoteMs: 4_000 });
  const away = bench.always(/sys\/health/, { status: 503 }, 'west');
  const began = performance.now();
  // Asked again after the quarter, east is away still, and west comes back.
  const comesBack = () => {
    if (performance.now() - began >= 1_000) away.remove();
  };
  bench.always(/sys\/health/, comesBack, 'east');
  bench.always(/sys\/health/, { status: 503 }, 'east');
  expect(await bench.call('promoteSecondary', { ...promotion(), wayBack: true })).toMatchObject({ outcome: 'done' });
  expect([mode('east'), mode('west'), made('promote')]).toEqual(['secondary', 'primary', 1]);
});

it('503 of a promotion is waited out, never forced', async () => {
  await demote();
  bench.service.faults.add({ endpoint: PROMOTE, action: { status: 503 } });
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done', calls: 2 });
  const bodies = bench.service.calls
    .filter(({ path }) => path.endsWith('dr/secondary/promote'))
    .map(({ body }) => body);
  expect(bodies.every((body) => !('force' in body) || body['force'] === false)).toBe(true);
});

it('503 until the budget ends: refused with a known outcome, and no one is primary', async () => {
  await demote();
  bench.limit({ promoteMs: 300 });
  bench.always(PROMOTE, { status: 503 });
  await bench.refused('promoteSecondary', promotion(), 'NOT_CAUGHT_UP', {
    retryable: false,
    details: { outcomeKnown: true },
  });
  expect([mode('east'), mode('west')]).toEqual(['secondary', 'secondary']);
});

it('a promotion that was taken but is not seen in time leaves its outcome open', async () => {
  await demote();
  bench.limit({ promoteMs: 300 });
  bench.service.faults.add({
    cluster: 'west',
    endpoint: 'GET /v1/sys/replication/dr/status',
    // What stands before the call is read; from then on nothing is.
    skip: 1,
    action: { status: 503 },
    times: Infinity,
  });
  const failure = await bench.failure('promoteSecondary', promotion());
  expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', retryable: false, details: { outcomeKnown: false } });
  expect([mode('west'), made('promote')]).toEqual(['primary', 1]);
});

it('tokens of another run, cluster or use do not promote, and no call is made', async () => {
  await demote();
  const other = { ...bench.run, rid: '00000000-0000-4000-8000-000000000000' };
  const references: readonly OperationTokenReference[] = [
    { source: 'sealed', cluster: 'west', value: await bench.sealOperationToken('west', 'x', ['dr.promote'], other) },
    { source: 'sealed', cluster: 'west', value: await bench.sealOperationToken('west', 'x', ['dr.update-primary']) },
    { source: 'sealed', cluster: 'west', value: await bench.sealOperationToken('east', 'x', ['dr.promote']) },
    { source: 'sealed', cluster: 'east', value: await bench.sealOperationToken('east', 'x', ['dr.promote']) },
  ];
  for (const reference of references)
    await bench.refused('promoteSecondary', promotion(reference), 'SEALED_VALUE_INVALID', { retryable: false });
  expect((await bench.failure('promoteSecondary', promotion({ source: 'batch', cluster: 'west' }))).code).toBe(
    'TOKEN_SOURCE_UNAVAILABLE',
  );
  expect(made('promote')).toBe(0);
});

it('a node that restarts and tells no mode is waited for, never taken for "not there"', async () => {
  bench.service.faults.add({ endpoint: DEMOTE, action: 'lose-answer' });
  bench.service.faults.add({
    cluster: 'east',
    endpoint: 'GET /v1/sys/replication/dr/status',
    // Read before the demotion: its state, and the WAL index twice.
    skip: 3,
    times: 5,
    action: { status: 200, body: { data: { mode: 'unknown' } } },
  });
  expect(await demote()).toMatchObject({ outcome: 'done', calls: 1 });
});

it('a last look without an answer leaves no doubt: nothing was sent', async () => {
  bench.limit({ demoteMs: 300 });
  bench.always('GET /v1/sys/replication/dr/status', 'reset', 'west');
  expect(await bench.failure('demotePrimary', drDemotion(authority))).toMatchObject({
    ...{ code: 'CONNECTION_LOST', retryable: false },
    // By this the run knows that it is the candidate that is silent.
    details: { cluster: 'west', outcomeKnown: true },
  });
  expect(made('demote')).toBe(0);
});
