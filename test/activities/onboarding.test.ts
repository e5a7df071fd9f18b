import type { Operation } from '../../src/contracts/operations';
import { DEPLOYMENT, holding, openBench } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';
import { until } from '../support/by-hand';
import { join } from '../simulator/client';

const UNDER_WAY_MS = 400;
const SEALING_MS = 1_500;
const A_MINUTE = 60_000;
const ISSUE = 'POST /v1/sys/replication/dr/primary/secondary-token';
const SEALS = 'GET /v1/sys/seal-status';
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };
const ASKED = { requestedBy: 'olga', primary: 'east' };

/** East is performance primary and DR primary of west; north and south may be wiped. */
let bench: ActivityBench;
const idOf = (cluster: string) => bench.cluster(cluster).clusterId;

openBench((opened) => (bench = opened), {
  topology: {
    mounts: ['kv/', 'us-customers/'],
    clusters: [
      ...['east', 'west', 'north', 'south', 'europe'].map((name) => ({ name, nodes: 1 })),
      { name: 'river', nodes: 3 },
    ],
    timing: { standbySealMs: A_MINUTE },
    readings: { leaderChangeChance: 0 },
    performance: { primary: 'east', secondaries: [] },
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  timing: { underWayMs: UNDER_WAY_MS, sealingMs: SEALING_MS },
  drSets: { main: ['east', 'west', 'north', 'south', 'river'], eu: ['europe'] },
  deployment: { pathsFilters: { europe: FILTER } },
});

const planFor = (secondary: string): Promise<SignedPlan> =>
  secondary === 'europe'
    ? bench.authorityOf('performanceSecondaryOnboarding', { ...ASKED, secondary, filter: 'inventory' }, 'wipe')
    : bench.authorityOf('drSecondaryOnboarding', { ...ASKED, secondary }, 'wipe');

const joining = (secondary: string, authority: SignedPlan) =>
  ({ deployment: DEPLOYMENT, kind: 'dr', primary: 'east', secondary, authority }) as const;
const enables = (cluster: string) => bench.calls(cluster, 'secondary/enable');
const issued = () => bench.calls('east', 'primary/secondary-token');

describe('the wipe of a cluster', () => {
  it('is refused if its approvals are older than they count, also if they became so while its token was issued', async () => {
    const authority = await planFor('north');
    bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * 3_600_000);
    const details = { about: 'approvals too old', observed: holding('gate wipe was met at'), outcomeKnown: true };
    await bench.refusedUnsent('enableSecondary', joining('north', authority), 'NOT_APPROVED', { details });
    bench.history = { events: [] };

    const now = Date.now.bind(Date);
    const clock = jest.spyOn(Date, 'now');
    const action = () => void clock.mockImplementation(() => now() + 9 * 3_600_000);
    bench.service.faults.add({ cluster: 'east', endpoint: ISSUE, when: 'after', action });
    await bench.refused('enableSecondary', joining('north', authority), 'NOT_APPROVED', { details });
    clock.mockRestore();
    expect([issued(), enables('north')]).toEqual([1, 0]);
  });

  it('has a warning in its plan for a path of the filter that is no mount, and for no other', async () => {
    const filter = { mode: 'deny' as const, paths: ['kv/', 'us-custmers/'] };
    const { plan } = await bench.assess('performanceSecondaryOnboarding', { ...ASKED, secondary: 'europe', filter });
    expect(plan?.text.match(/No mount was found at [^.]+/g)).toEqual(['No mount was found at us-custmers/']);
  });

  it('is refused if the paths filter differs from the approved one', async () => {
    const authority = await planFor('europe');
    const id = idOf('europe');
    const join = { ...joining('europe', authority), kind: 'performance' } as const;
    const details = { observed: `no paths filter under ${id}`, needed: `deny us-customers/ under ${id}` };
    const wanted = { ...join, expected: { filter: FILTER } };
    await bench.refused('enableSecondary', wanted, 'PRECONDITION_FAILED', { details });
    await bench.refusedUnsent('enableSecondary', { ...join, expected: { filter: 'none' } }, 'NOT_APPROVED');
    expect(enables('europe')).toBe(0);
  });

  it.each([
    ['began to replicate', 'DR disabled, performance primary', () => makePrimary('north')],
    ['has a node that does not answer', 'does not answer', () => silence('north')],
    ['reports another cluster ID', 'a different cluster ID than a moment ago', () => tellAnotherId('north')],
  ])('is refused if the cluster %s while its token was issued, which stays unused', async (_what, observed, change) => {
    const authority = await planFor('north');
    bench.service.faults.add({ cluster: 'east', endpoint: ISSUE, when: 'after', action: change });
    const findings = [expect.objectContaining({ code: 'activation-token-unused' })];
    const details = { observed: holding(observed), outcomeKnown: true, findings };
    await bench.refused('enableSecondary', joining('north', authority), 'PRECONDITION_FAILED', { details });
    bench.service.faults.clear();
    bench.cluster('north').setRole('performance', { mode: 'disabled' }, bench.service.now());
    expect(enables('north')).toBe(0);
  });

  it('by an attempt after one that may have sent it waits for that one, then revokes unused tokens and wipes once', async () => {
    const authority = await planFor('north');
    const revoked = bench.calls('east', 'primary/revoke-secondary');
    const began = Date.now();
    expect(await bench.call('enableSecondary', joining('north', authority), { attempt: 2 })).toMatchObject({
      outcome: 'done',
      calls: 1,
    });
    expect(Date.now() - began).toBeGreaterThan(UNDER_WAY_MS);
    expect(bench.calls('east', 'primary/revoke-secondary') - revoked).toBe(1);
    // A worker that dies now knows nothing of it, and the cluster has another ID since: it is done all the same.
    const before = issued();
    expect(await bench.call('enableSecondary', joining('north', authority), { attempt: 3 })).toMatchObject({
      outcome: 'already',
      calls: 0,
    });
    expect([issued(), enables('north')]).toEqual([before, 1]);
  });

  it('is followed until every node reports several times in a row that it is unsealed: a node that does not respond may be sealed', async () => {
    const watch = { deployment: DEPLOYMENT, kind: 'dr', primary: 'east', secondary: 'west' } as const;
    bench.service.calls.length = 0;
    bench.service.faults.add({ cluster: 'west', endpoint: SEALS, action: 'reset', skip: 1, times: 1 });
    await bench.call('followBootstrap', watch);
    const looks = bench.service.calls.filter(({ method, path }) => `${method} ${path}` === SEALS);
    expect(looks.map(({ status }) => status)).toEqual([200, 0, 200, 200, 200]);

    bench.limit({ unsealMs: 1 });
    silence('west');
    const details = { observed: holding('sealed or not responding: http') };
    await bench.refused('followBootstrap', watch, 'CONFIRMATION_TIMEOUT', { details });
    bench.limit();
    bench.service.faults.clear();
  });
});

it('a secondary that streams is not finished before each standby has been sealed once, or had the time to seal itself', async () => {
  const watch = { deployment: DEPLOYMENT, kind: 'dr', primary: 'east', secondary: 'river' } as const;
  const [east, river] = [bench.cluster('east'), bench.cluster('river')];
  expect((await join('dr', east, river)).status).toBe(200);
  const began = performance.now();
  expect(await bench.call('followBootstrap', watch)).toMatchObject({
    ...{ observed: holding('0 of 2 standbys have been confirmed sealed'), sealsSeen: false },
  });
  expect(performance.now() - began).toBeGreaterThan(SEALING_MS);

  bench.service.advanceClock(A_MINUTE);
  expect(river.snapshotState()).toMatchObject({ activeNode: 0, nodes: [{ sealed: false }, {}, { sealed: true }] });
  const looks = () => bench.service.calls.filter(({ cluster, path }) => cluster === 'river' && path === SEALS.slice(4));
  bench.service.calls.length = 0;
  const following = bench.call('followBootstrap', watch);
  await until('the seals were read', () => looks().length >= 6);
  for (const index of [1, 2]) river.unsealNode(index);
  expect(await following).toMatchObject({ sealsSeen: true });
});

function makePrimary(cluster: string): void {
  const role = { mode: 'primary', setId: 'a-set', advertisedAddress: '', knownSecondaries: [] } as const;
  bench.cluster(cluster).setRole('performance', role, bench.service.now());
}

/** As where the address leads to another cluster now, which was approved for nothing. */
function tellAnotherId(cluster: string): void {
  const body = { initialized: true, sealed: false, standby: false, version: '1.21.4', cluster_id: 'another-cluster' };
  bench.always('GET /v1/sys/health', { status: 200, body }, cluster);
}

function silence(cluster: string): void {
  bench.always(SEALS, 'reset', cluster);
}

const SOUTH = { kind: 'dr', deployment: DEPLOYMENT, cluster: 'south' } as const;
const ENABLE = { kind: 'dr', endpoint: 'primary/enable', gate: 'plan' } as const;

it('no second primary is enabled while a member of its set does not respond, although it answered before', async () => {
  const authority = await enablingOf('south', ENABLE, 'plan');
  bench.always(/./, 'reset', 'east');
  await bench.refusedUnsent('enablePrimary', { ...SOUTH, authority }, 'PRECONDITION_FAILED', {
    message: holding('"no other DR primary in the set" (east)'),
    details: { observed: expect.stringMatching(/^[A-Z_]+: /) as string },
  });
  bench.service.faults.clear();
});

it('a cluster is made primary by a plan that says so, or that wipes a secondary for it, and by no other', async () => {
  for (const authority of [
    await enablingOf('south', ENABLE, 'wipe'),
    await enablingOf('south', { ...ENABLE, gate: 'wipe' }, 'plan'),
    await enablingOf('south', { ...ENABLE, kind: 'performance' }, 'plan'),
    await enablingOf('north', ENABLE, 'plan'),
    await enablingOf('south', { kind: 'dr', endpoint: 'secondary/enable', gate: 'wipe' }, 'wipe'),
  ])
    await bench.refusedUnsent('enablePrimary', { ...SOUTH, authority }, 'NOT_APPROVED');
  // Past the approval: east is primary of this set.
  for (const gate of ['plan', 'wipe'] as const) {
    const authority = await enablingOf('south', { ...ENABLE, gate }, gate);
    const known = {
      cluster: 'east',
      observed: holding('DR primary'),
      needed: 'east reports that it is not DR primary',
    };
    expect((await bench.failure('enablePrimary', { ...SOUTH, authority })).details).toMatchObject(known);
    // Of both names, what new approvals would end is told: the run asks for them.
    bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * 3_600_000);
    const details = { about: 'approvals too old' };
    await bench.refusedUnsent('enablePrimary', { ...SOUTH, authority }, 'NOT_APPROVED', { details });
    bench.history = { events: [] };
  }
});

/** A plan that makes a cluster primary, as no assessment would give it here. */
const enablingOf = (cluster: string, operation: Operation, gate: string): Promise<SignedPlan> => {
  const plan = bench.planOf([{ ...operation, on: bench.named(cluster) }]);
  return bench.approved({ plan, preconditions: [] }, gate);
};
