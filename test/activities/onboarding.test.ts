import { createHash } from 'node:crypto';
import type { Authority } from '../../src/contracts/activities';
import type { GateName, GatedOperation } from '../../src/contracts/plan';
import { inventoryDigest } from '../../src/inventory';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const UNDER_WAY_MS = 400;
const ISSUE = 'POST /v1/sys/replication/dr/primary/secondary-token';
const SEALS = 'GET /v1/sys/seal-status';
const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };
const ASKED = { deployment: DEPLOYMENT, reason: 'a test', requestedBy: 'olga', dryRun: false, primary: 'east' };

/** East is performance primary and DR primary of west; north and south may be wiped. */
let bench: ActivityBench;
const idOf = (cluster: string) => bench.cluster(cluster).clusterId;

openBench((opened) => (bench = opened), {
  topology: {
    mounts: ['kv/', 'us-customers/'],
    clusters: ['east', 'west', 'north', 'south', 'europe'].map((name) => ({ name, nodes: 1 })),
    performance: { primary: 'east', secondaries: [] },
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  timing: { underWayMs: UNDER_WAY_MS },
  drSets: { main: ['east', 'west', 'north', 'south'], eu: ['europe'] },
  deployment: { pathsFilters: { europe: FILTER } },
});

async function planFor(secondary: string): Promise<Authority> {
  const input = { ...ASKED, secondary, form: 'auto' as const };
  const { plan, preconditions } =
    secondary === 'europe'
      ? await bench.call('assessPerformanceSecondaryOnboarding', { input: { ...input, filter: 'inventory' } })
      : await bench.call('assessDrSecondaryOnboarding', { input });
  expect(preconditions.filter(({ verdict }) => verdict === 'fail')).toEqual([]);
  if (!plan) throw new Error('no plan');
  return { plan, approvals: [await bench.approval('wipe', plan.digest)] };
}

const joining = (secondary: string, authority: Authority) =>
  ({ deployment: DEPLOYMENT, kind: 'dr', primary: 'east', secondary, authority }) as const;
const enables = (cluster: string) => bench.calls(cluster, 'secondary/enable');
const issued = () => bench.calls('east', 'primary/secondary-token');

describe('the wipe of a cluster', () => {
  it('is refused where its approvals are older than they count, also where they became so while its token was issued', async () => {
    const authority = await planFor('north');
    bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * 3_600_000);
    const refused = await bench.failure('enableSecondary', joining('north', authority));
    bench.history = { events: [] };
    expect(refused).toMatchObject({ code: 'NOT_APPROVED', details: { outcomeKnown: true } });
    expect(refused.details['observed']).toContain('gate wipe was met at');
    expect([issued(), enables('north')]).toEqual([0, 0]);

    const action = () => void bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * 3_600_000);
    bench.service.faults.add({ cluster: 'east', endpoint: ISSUE, when: 'after', action });
    const late = await bench.failure('enableSecondary', joining('north', authority));
    bench.history = { events: [] };
    expect(late).toMatchObject({ code: 'NOT_APPROVED', details: { about: 'approvals too old', outcomeKnown: true } });
    expect([issued(), enables('north')]).toEqual([1, 0]);
  });

  it('has a warning in its plan for a path of the filter that is no mount, and for no other', async () => {
    const filter = { mode: 'deny' as const, paths: ['kv/', 'us-custmers/'] };
    const { plan } = await bench.call('assessPerformanceSecondaryOnboarding', {
      input: { ...ASKED, secondary: 'europe', form: 'auto', filter },
    });
    expect(plan?.text.match(/seen to be mounted at [^:]+/g)).toEqual(['seen to be mounted at us-custmers/']);
  });

  it('is refused where the paths filter is not the one that was approved', async () => {
    const authority = await planFor('europe');
    const id = idOf('europe');
    const join = { ...joining('europe', authority), kind: 'performance' } as const;
    expect(await bench.failure('enableSecondary', { ...join, expected: { filter: FILTER } })).toMatchObject({
      code: 'PRECONDITION_FAILED',
      details: { observed: `no paths filter under ${id}`, needed: `deny us-customers/ under ${id}` },
    });
    const without = await bench.failure('enableSecondary', { ...join, expected: { filter: 'none' } });
    expect(without.code).toBe('NOT_APPROVED');
    expect(enables('europe')).toBe(0);
  });

  it.each([
    ['began to replicate', 'DR disabled, performance primary', () => makePrimary('north')],
    ['has a node that does not answer', 'does not answer', () => silence('north')],
  ])(
    'is refused where the cluster %s while its token was issued, which stays unused',
    async (_what, observed, change) => {
      const authority = await planFor('north');
      bench.service.faults.add({ cluster: 'east', endpoint: ISSUE, when: 'after', action: change });
      const failure = await bench.failure('enableSecondary', joining('north', authority));
      bench.service.faults.clear();
      bench.cluster('north').setRole('performance', { mode: 'disabled' }, bench.service.now());
      expect(failure).toMatchObject({
        code: 'PRECONDITION_FAILED',
        details: {
          observed: expect.stringContaining(observed) as string,
          outcomeKnown: true,
          findings: [expect.objectContaining({ code: 'activation-token-unused' })],
        },
      });
      expect(enables('north')).toBe(0);
      expect(bench.leaks()).toEqual([]);
    },
  );

  it('by an attempt after one that may have sent it: waits for that one, then revokes what was not used and wipes once', async () => {
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

  it('is followed until every node says several times in a row that it is unsealed: a silent one may be sealed', async () => {
    const watch = { deployment: DEPLOYMENT, kind: 'dr', primary: 'east', secondary: 'west' } as const;
    bench.service.calls.length = 0;
    bench.service.faults.add({ cluster: 'west', endpoint: SEALS, action: 'reset', skip: 1, times: 1 });
    await bench.call('followBootstrap', watch);
    const looks = bench.service.calls.filter(({ method, path }) => `${method} ${path}` === SEALS);
    expect(looks.map(({ status }) => status)).toEqual([200, 0, 200, 200, 200]);

    bench.limit({ unsealMs: 1 });
    silence('west');
    expect(await bench.failure('followBootstrap', watch)).toMatchObject({
      code: 'CONFIRMATION_TIMEOUT',
      details: { observed: expect.stringContaining('sealed or silent: http') as string },
    });
    bench.limit();
    bench.service.faults.clear();
  });
});

function makePrimary(cluster: string): void {
  const role = { mode: 'primary', setId: 'a-set', advertisedAddress: '', knownSecondaries: [] } as const;
  bench.cluster(cluster).setRole('performance', role, bench.service.now());
}

function silence(cluster: string): void {
  bench.service.faults.add({ cluster, endpoint: SEALS, action: 'reset', times: Infinity });
}

it('no second primary is made while one of its set is silent, although it answered before', async () => {
  const authority = await enablingOf('south', 'dr.primary.enable', 'plan');
  bench.service.faults.add({ cluster: 'east', endpoint: /./, action: 'reset', times: Infinity });
  const failure = await bench.failure('enablePrimary', {
    kind: 'dr',
    deployment: DEPLOYMENT,
    cluster: 'south',
    authority,
  });
  bench.service.faults.clear();
  expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED', details: { outcomeKnown: true } });
  expect(failure.message).toBe('Whether east is DR primary is not known.');
  expect(bench.calls('south', 'primary/enable')).toBe(0);
});

it('a cluster is made primary by a plan that says so, or that wipes a secondary for it, and by no other', async () => {
  const asked = { deployment: DEPLOYMENT, cluster: 'south' };
  for (const authority of [
    await enablingOf('south', 'dr.primary.enable', 'wipe'),
    await enablingOf('south', 'dr.primary.enable-for-secondary', 'plan'),
    await enablingOf('south', 'performance.primary.enable', 'plan'),
    await enablingOf('north', 'dr.primary.enable', 'plan'),
    await enablingOf('south', 'dr.secondary.enable', 'wipe'),
  ])
    expect((await bench.failure('enablePrimary', { kind: 'dr', ...asked, authority })).code).toBe('NOT_APPROVED');
  expect(bench.calls('south', 'primary/enable')).toBe(0);
  // Past the approval: east is primary of this set.
  for (const [operation, gate] of [
    ['dr.primary.enable', 'plan'],
    ['dr.primary.enable-for-secondary', 'wipe'],
  ] as const) {
    const authority = await enablingOf('south', operation, gate);
    expect((await bench.failure('enablePrimary', { kind: 'dr', ...asked, authority })).message).toBe(
      'east is DR primary already.',
    );
    // Of both names, what new approvals would end is told: the run asks for them.
    bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * 3_600_000);
    const old = await bench.failure('enablePrimary', { kind: 'dr', ...asked, authority });
    bench.history = { events: [] };
    expect(old).toMatchObject({ code: 'NOT_APPROVED', details: { about: 'approvals too old', outcomeKnown: true } });
  }
});

/** A plan that makes a cluster primary, as no assessment would give it here. */
async function enablingOf(cluster: string, operation: GatedOperation, gate: GateName): Promise<Authority> {
  const { plan } = planOf(operation, cluster);
  return { plan, approvals: [await bench.approval(gate, plan.digest)] };
}

function planOf(operation: GatedOperation, cluster: string): Pick<Authority, 'plan'> {
  const operations = [{ operation, on: { cluster, clusterId: idOf(cluster) } }];
  const text = JSON.stringify({
    ...{ runbook: 'primaryEnablement', deployment: DEPLOYMENT, clusters: [], warnings: [], steps: [], choices: {} },
    ...{ operations, reason: 'a test', inventory: inventoryDigest(bench.inventory, DEPLOYMENT) },
  });
  return { plan: { text, digest: createHash('sha256').update(text).digest('base64url') } };
}
