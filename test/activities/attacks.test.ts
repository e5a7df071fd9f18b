/**
 * What somebody who may write to the namespace can try: results, approvals and handles that he made up or copied,
 * activities that he starts himself. Each dangerous activity refuses them on its own, whatever workflow code says.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { RunbookActivities } from '../../activities';
import type { Authority } from '../../src/contracts/activities';
import { inventoryDigest } from '../../src/inventory';
import { GATE_NAMES, OPERATION_GATES } from '../../src/contracts/plan';
import type { AllowedOperation, GatedOperation } from '../../src/contracts/plan';
import { revokeSecondary } from '../../src/simulator/roles';
import { DEPLOYMENT, failedOf, openBench } from '../support/activity-environment';
import type { ActivityBench, Failed } from '../support/activity-environment';
import { approvalOf, makePerson } from '../support/people';
import { GUARDS, guardedBy } from '../support/activity-guards';

type Name = keyof RunbookActivities;

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    mounts: ['kv/', 'secret/'],
    clusters: ['east', 'west', 'europe', 'spare'].map((name) => ({ name, nodes: 1 })),
    performance: { primary: 'east', secondaries: [{ name: 'europe', filter: { mode: 'deny', paths: ['kv'] } }] },
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  drSets: { main: ['east', 'west'], eu: ['europe'], spare: ['spare'] },
  deployment: {
    hooks: {
      fence: { command: ['/bin/false'], timeout: '1s', idempotent: true },
      unfence: { command: ['/bin/false'], timeout: '1s', idempotent: true },
    },
    snapshot: { to: '/placeholder', before: ['demotion'] },
  },
});

/** Changes of a role that look at other things before they are made. */
const WAYS: Readonly<Record<string, readonly string[]>> = {
  'demotePrimary dr': ['', ' former'],
  'promoteSecondary dr': [' planned', ' unplanned', ' forced'],
  'promoteSecondary performance': [' planned', ' forced'],
  'updatePrimary performance': ['', ' by-addresses', ' by-given-addresses'],
};
/** They look for what a plan names before they look at its approvals: the plan is that of a switchover. */
const OF_SWITCHOVER: readonly string[] = ['promoteSecondary dr planned', 'takeSnapshot'];

/** What changed anything: asking for one's own rights does not. */
const changes = () => bench.changes().filter((call) => !call.endsWith('/sys/capabilities-self'));

describe('every activity', () => {
  it('is listed with what guards it: a new one makes somebody think', () => {
    expect(Object.keys(bench.activities).sort()).toEqual(Object.keys(GUARDS).sort());
  });

  it('refuses to be started alone, outside of any run, before anything is read or sent', async () => {
    const before = bench.service.calls.length;
    for (const [name, activity] of Object.entries(bench.activities)) {
      const info = { activityType: name, workflowExecution: undefined, inWorkflow: false };
      const environment = bench.environment(info, { name: 'a step', number: 1, attempt: 1, originalRunId: '' });
      const alone = activity as (input: object) => Promise<unknown>;
      const failed = await environment
        .run(alone, { deployment: DEPLOYMENT, cluster: 'east' })
        .then(() => undefined, failedOf);
      expect([name, failed?.code, failed?.retryable]).toEqual([name, 'NOT_APPROVED', false]);
    }
    expect(bench.service.calls.length).toBe(before);
  });
});

/** Activities that are told one of both kinds of replication. */
const OF_BOTH: readonly string[] = [
  'demotePrimary',
  'disablePrimary',
  'disableSecondary',
  'enablePrimary',
  'enableSecondary',
  'forgetPrimary',
  'issueOutsideToken',
  'promoteSecondary',
  'quiesceByQuota',
  'revokeSecondary',
  'unfenceFormerPrimary',
  'updatePrimary',
];

/** Inputs as a real run would give them, without the authority and the kind of replication. */
async function inputs(): Promise<Readonly<Record<string, object>>> {
  const token = await bench.operationToken('west', ['dr.promote', 'dr.update-primary', 'dr.disable', 'dr.reindex']);
  const dr = { primary: 'east', secondary: 'west', token };
  const europe = { primary: 'east', secondary: 'europe', expected: { filter: { mode: 'deny', paths: ['kv/'] } } };
  const id = bench.cluster('europe').clusterId;
  const onWest = { cluster: 'west', token };
  const publicKey = Buffer.alloc(32, 7).toString('base64');
  const outside = { cluster: 'east', outside: { id: 'another-team', publicKey, ttl: '30m' } };
  return {
    'demotePrimary dr': { cluster: 'east', otherCluster: 'west' },
    'demotePrimary performance': { cluster: 'east', otherCluster: 'europe' },
    'demotePrimary dr former': { cluster: 'east', otherCluster: 'west', former: true },
    'promoteSecondary dr planned': { ...onWest, otherCluster: 'east', mode: 'planned' },
    'promoteSecondary dr unplanned': { ...onWest, otherCluster: 'east', mode: 'unplanned' },
    'promoteSecondary dr forced': { ...onWest, otherCluster: 'east', mode: 'forced' },
    'promoteSecondary performance planned': { cluster: 'europe', otherCluster: 'east', mode: 'planned' },
    'promoteSecondary performance forced': { cluster: 'europe', otherCluster: 'east', mode: 'forced' },
    'updatePrimary dr': { ...dr, by: 'token' },
    'updatePrimary performance': { ...europe, by: 'token' },
    'updatePrimary performance by-addresses': { ...europe, by: 'addresses' },
    'updatePrimary performance by-given-addresses': { ...europe, by: 'addresses', addresses: ['evil.example:8201'] },
    'enablePrimary dr': { cluster: 'spare' },
    'enablePrimary performance': { cluster: 'spare' },
    writePathsFilter: { cluster: 'east', id, secondary: 'europe', filter: { mode: 'deny', paths: ['secret'] } },
    deletePathsFilter: { cluster: 'east', id, secondary: 'europe' },
    'revokeSecondary dr': { cluster: 'east', id: bench.cluster('west').clusterId, secondary: 'west' },
    'revokeSecondary performance': { cluster: 'east', id, secondary: 'europe' },
    'forgetPrimary dr': onWest,
    'forgetPrimary performance': { cluster: 'europe' },
    'disablePrimary dr': { cluster: 'east' },
    'disablePrimary performance': { cluster: 'east' },
    'disableSecondary dr': onWest,
    'disableSecondary performance': { cluster: 'europe' },
    'enableSecondary dr': { primary: 'east', secondary: 'spare' },
    'enableSecondary performance': { primary: 'east', secondary: 'spare', expected: { filter: 'none' } },
    fenceLostPrimary: { from: 'east', to: 'west' },
    'unfenceFormerPrimary dr': { primary: 'west', secondary: 'east' },
    'unfenceFormerPrimary performance': { primary: 'europe', secondary: 'east' },
    'quiesceByQuota dr': { cluster: 'east', otherCluster: 'west' },
    'quiesceByQuota performance': { cluster: 'east', otherCluster: 'europe' },
    'issueOutsideToken dr': outside,
    'issueOutsideToken performance': { ...outside, expected: { filter: 'none' } },
    takeKeptToken: { cluster: 'west', entry: randomUUID() },
    takeSnapshot: { cluster: 'east', event: 'demotion' },
    forgetLedgerToken: { cluster: 'west', entry: await orphan() },
    startDrReindex: { ...onWest, options: { diff: false, force: false, skipFlush: false } },
  };
}

/** A token that nobody holds. */
async function orphan(id = '11111111-1111-4111-8111-111111111111'): Promise<string> {
  const { clusterId } = bench.cluster('west');
  const of = { ...bench.run, deployment: DEPLOYMENT, cluster: 'west', clusterId } as const;
  await bench.ledger.write({ ...of, version: 1, id, state: 'orphan', at: new Date().toISOString() });
  return id;
}

/** They look whether the secondary is cut off before they look at the plan. */
const CUT_OFF: readonly string[] = ['forgetPrimary dr', 'forgetPrimary performance'];

function documentOf(operations: readonly AllowedOperation[], more: object = {}): Authority['plan'] {
  const text = JSON.stringify({
    ...{ runbook: 'a runbook', deployment: DEPLOYMENT, clusters: [], warnings: [], steps: [], choices: {} },
    ...{ inventory: inventoryDigest(bench.inventory, DEPLOYMENT) },
    ...{ operations, reason: 'made up', requestedBy: 'olga', ...more },
  });
  return made(text);
}

function made(text: string): Authority['plan'] {
  return { text, digest: createHash('sha256').update(text).digest('base64url') };
}

const byBoth = (gate: string, digest: string) =>
  Promise.all(['grace', 'henry'].map((by) => bench.approval(gate, digest, by)));

const NOT_ALLOWED =
  /does not allow (\S+) on (\S+) \(cluster ID ([^)]*)\)(?: with (\S+) \(cluster ID ([^)]*)\))?(?: \((.*)\))?$/;

/** An attacker reads what was missing and writes it into a plan of his own. */
function learn(failure: Failed): AllowedOperation | undefined {
  const said = NOT_ALLOWED.exec(String(failure.details['observed']));
  if (!said) return undefined;
  const [, operation = '', cluster = '', clusterId = '', other, otherId = '', detail] = said;
  return {
    operation: operation as GatedOperation,
    on: { cluster, clusterId },
    ...(other === undefined ? {} : { with: { cluster: other, clusterId: otherId } }),
    ...(detail === undefined ? {} : { detail }),
  };
}

/** Ways to come by approvals for `gate` of a plan that says exactly what is about to be done. */
const FORGERIES: readonly (readonly [string, (gate: string, digest: string) => Promise<readonly unknown[]>])[] = [
  ...(['ns', 'wid', 'rid'] as const).map(
    (member) =>
      [
        `of another run (${member})`,
        (gate: string, digest: string) =>
          Promise.all(
            ['grace', 'henry'].map((by) => bench.approval(gate, digest, by, { [member]: `another-${randomUUID()}` })),
          ),
      ] as const,
  ),
  [
    'of every other gate',
    (gate, digest) =>
      Promise.all(
        GATE_NAMES.filter((each) => each !== gate).flatMap((other) =>
          ['grace', 'henry'].map((by) => bench.approval(other, digest, by)),
        ),
      ),
  ],
  ['of another plan', (gate) => byBoth(gate, documentOf([]).digest)],
  [
    'of people outside of the group',
    (gate, digest) => Promise.all(['ada', 'bert', 'cleo'].map((by) => bench.approval(gate, digest, by))),
  ],
  [
    "signed with the attacker's own key",
    (gate, digest) =>
      Promise.all(
        ['grace', 'henry'].map((name) =>
          approvalOf(makePerson(name, ['approvers']), { ...bench.run, gate, planDigest: digest }),
        ),
      ),
  ],
  [
    'without a signature',
    (gate, planDigest) =>
      Promise.resolve(
        ['grace', 'henry'].map((name) => ({
          ...{ ...bench.run, gate, planDigest, verdict: 'approve', comment: '', name, iat: 1 },
        })),
      ),
  ],
  [
    'with the number of a signal that nobody sent',
    (gate, planDigest) =>
      Promise.resolve([
        {
          approval: { ...bench.run, gate, planDigest, verdict: 'approve', comment: '', name: 'grace', iat: 1 },
          arrival: 1,
        },
      ]),
  ],
];

describe('an activity that needs an approval', () => {
  const gates = new Map<string, string>();
  const plans = new Map<string, Authority['plan']>();
  const names = guardedBy('approval')
    .flatMap((name) => (OF_BOTH.includes(name) ? [`${name} dr`, `${name} performance`] : [name]))
    .flatMap((name) => WAYS[name]?.map((way) => `${name}${way}`) ?? [name]);
  names.sort((a, b) => Number(CUT_OFF.includes(a)) - Number(CUT_OFF.includes(b)));

  /** The activity, and what it is given. */
  async function attempt(tried: string): Promise<readonly [Name, object]> {
    const [name = '', kind] = tried.split(' ');
    const input = (await inputs())[tried] ?? {};
    return [name as Name, kind === undefined ? input : { ...input, kind }];
  }

  it('is tried here, whichever it is', async () => {
    expect(Object.keys(await inputs()).sort()).toEqual([...names].sort());
  });

  it.each(names)('%s refuses every plan and approval that was made up or copied, and sends nothing', async (tried) => {
    const [name, input] = await attempt(tried);
    if (CUT_OFF.includes(tried))
      for (const [kind, each] of [
        ['dr', 'west'],
        ['performance', 'europe'],
      ] as const)
        revokeSecondary(bench.cluster('east'), kind, bench.cluster(each).clusterId);
    // A plan is made with a write beside the marker.
    let plan = OF_SWITCHOVER.includes(tried) ? (await bench.authority()).plan : undefined;
    const before = changes();
    const failure = (authority: Authority | undefined) =>
      bench.failure(name as never, { deployment: DEPLOYMENT, ...input, authority } as never);

    // The plan is the attacker's own, and says exactly what he is about to do.
    const operations: AllowedOperation[] = [];
    while (plan === undefined) {
      const own = documentOf(operations);
      const failed = await failure({ plan: own, approvals: [] });
      expect([name, failed.code]).toEqual([name, 'NOT_APPROVED']);
      const missing = learn(failed);
      if (missing === undefined) plan = own;
      else operations.push(missing);
      expect(operations.length).toBeLessThan(4);
    }
    const refused = await failure({ plan, approvals: [] });
    const [, gate = ''] = /^gate (\S+) misses/.exec(String(refused.details['observed'])) ?? [];
    expect([name, GATE_NAMES.includes(gate as never)]).toEqual([name, true]);
    for (const { operation } of operations.slice(-1)) expect(OPERATION_GATES[operation]).toBe(gate);
    gates.set(tried, gate);
    plans.set(tried, plan);

    // All at once: if any of them counted, this would not be refused.
    const forged = (await Promise.all(FORGERIES.map(([, forge]) => forge(gate, plan.digest)))).flat();
    const all = await failure({ plan, approvals: forged });
    expect([name, all.code, all.retryable]).toEqual([name, 'NOT_APPROVED', false]);
    expect(all.details['observed']).toBe(refused.details['observed']);
    // A plan that is approved, and then read as another one.
    const other = documentOf(operations, { reason: 'something else' });
    const approvals = await byBoth(gate, plan.digest);
    for (const swapped of [{ ...other, digest: plan.digest }, other, { ...plan, text: `${plan.text} ` }]) {
      const failed = await failure({ plan: swapped, approvals });
      expect([name, failed.code]).toEqual([name, 'NOT_APPROVED']);
    }
    // Approved, and then no plan of this deployment, or none that can be read; rejected by one beside two who approve.
    const unread = [
      documentOf(operations, { deployment: 'billing' }),
      documentOf(operations, { force: true }),
      made('{'),
    ];
    for (const each of unread) {
      const failed = await failure({ plan: each, approvals: await byBoth(gate, each.digest) });
      expect([name, failed.code]).toEqual([name, 'NOT_APPROVED']);
    }
    const rejection = await bench.approval(gate, plan.digest, 'grace', { verdict: 'reject' });
    const rejected = await failure({ plan, approvals: [...approvals, rejection] });
    expect([name, rejected.code]).toEqual([name, 'NOT_APPROVED']);
    // Approved by the one who asked for it, where the policy excludes him.
    const own = documentOf(operations, { requestedBy: 'grace' });
    if (operations.length > 0) {
      const failed = await failure({ plan: own, approvals: [await bench.approval(gate, own.digest, 'grace')] });
      expect([name, failed.code]).toEqual([name, 'NOT_APPROVED']);
    }
    expect((await bench.failure(name as never, { deployment: DEPLOYMENT, ...input } as never)).code).toMatch(
      /^(NOT_APPROVED|INTERNAL)$/,
    );
    // That of a switchover was not made up here: it has operations of its own.
    const { operations: ofPlan } = JSON.parse(plan.text) as { readonly operations: readonly AllowedOperation[] };
    // A snapshot is of one cluster, whatever the other side of its demotion.
    const bound = name === 'takeSnapshot' ? ofPlan.map(({ operation, on }) => ({ operation, on })) : ofPlan;
    await refusesOtherClusters(name, bound, input);
    expect(changes().slice(before.length)).toEqual([]);
  });

  /** Every operation of the table, approved at every gate by two people, for another cluster behind the same name. */
  async function refusesOtherClusters(
    name: Name,
    operations: readonly AllowedOperation[],
    input: object,
  ): Promise<void> {
    const other = (it: AllowedOperation['on']) => ({ ...it, clusterId: 'another-cluster' });
    const every = (change: (each: AllowedOperation) => AllowedOperation) =>
      documentOf(
        (Object.keys(OPERATION_GATES) as GatedOperation[]).flatMap((operation) =>
          operations.map((each) => change({ ...each, operation })),
        ),
      );
    const plans = [
      every((each) => ({ ...each, on: other(each.on) })),
      ...(operations.some(({ with: side }) => side)
        ? [every((each) => (each.with ? { ...each, with: other(each.with) } : { ...each, on: other(each.on) }))]
        : []),
    ];
    for (const plan of plans) {
      const approvals = await Promise.all(
        GATE_NAMES.flatMap((gate) => ['grace', 'henry'].map((by) => bench.approval(gate, plan.digest, by))),
      );
      const call = { deployment: DEPLOYMENT, ...input, authority: { plan, approvals } };
      const failed = await bench.failure(name as never, call as never);
      expect([name, failed.code]).toEqual([name, 'NOT_APPROVED']);
      expect(String(failed.details['observed'])).toMatch(/does not allow|no operation of the plan/);
    }
  }

  it('takes the same plan with true approvals: it was the approvals that were missing', async () => {
    for (const tried of ['demotePrimary dr former', 'startDrReindex', 'disableSecondary dr', 'fenceLostPrimary']) {
      const [name, given] = await attempt(tried);
      const plan = plans.get(tried);
      const gate = gates.get(tried) ?? '';
      if (!plan) throw new Error(`${tried} was not tried`);
      const approvals = await byBoth(gate, plan.digest);
      const wrong = { source: 'sealed', cluster: 'west', value: 'not a sealed value' };
      const input = { ...given, deployment: DEPLOYMENT, token: wrong };
      const { code } = await bench.failure(name as never, { ...input, authority: { plan, approvals } } as never);
      // Past the approval: something else stops it here.
      expect([name, code]).not.toEqual([name, 'NOT_APPROVED']);
    }
  });
});
