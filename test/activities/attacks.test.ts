/**
 * What somebody who may write to the namespace can try: results, approvals and handles that he made up or copied,
 * activities that he starts himself. Each dangerous activity refuses them on its own, whatever workflow code says.
 */
import { randomUUID } from 'node:crypto';
import type { RunbookActivities } from '../../activities';
import type { AllowedOperation } from '../../src/contracts/plan';
import { GATE_NAMES } from '../../src/contracts/gates';
import type { GateName } from '../../src/contracts/gates';
import { ENDPOINT_GATES } from '../../src/contracts/operations';
import type { Endpoint, Operation } from '../../src/contracts/operations';
import { revokeSecondary } from '../../src/simulator/roles';
import { DEPLOYMENT, failedOf, openBench, planWith } from '../support/activity-environment';
import type { ActivityBench, Failed, SignedPlan } from '../support/activity-environment';
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

/** They look for what a plan names before they look at its approvals: the plan is that of a switchover. */
const OF_SWITCHOVER: readonly string[] = ['promoteSecondary dr planned', 'takeSnapshot'];
/** They end what has begun, or begin nothing: approvals do not get too old for them. */
const GOES_ON: readonly string[] = [
  ...['promoteSecondary', 'fenceLostPrimary', 'unfenceFormerPrimary', 'updatePrimary'],
  ...['takeSnapshot', 'takeKeptToken'],
];

describe('every activity', () => {
  it('is listed with its guard, so that a new one needs a decision', () => {
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

const WEST = { cluster: 'west', otherCluster: 'east' };
const EUROPE = { cluster: 'europe', otherCluster: 'east' };
const TO_WEST = { primary: 'east', secondary: 'west' };
const TO_EUROPE = { primary: 'east', secondary: 'europe', expected: { filter: { mode: 'deny', paths: ['kv/'] } } };
const OUTSIDE = { id: 'another-team', publicKey: Buffer.alloc(32, 7).toString('base64'), ttl: '30m' };
const idOf = (name: string) => bench.cluster(name).clusterId;

/**
 * Inputs as a real run would give them, without the authority, the kind of replication and the token of a DR secondary: by
 * the activity, its kind, and the ways in which it looks at other things before.
 */
const TRIED: Readonly<Record<string, () => object>> = {
  'demotePrimary dr': () => ({ cluster: 'east', otherCluster: 'west' }),
  'demotePrimary performance': () => ({ cluster: 'east', otherCluster: 'europe' }),
  'demotePrimary dr former': () => ({ cluster: 'east', otherCluster: 'west', former: true }),
  'promoteSecondary dr planned': () => ({ ...WEST, mode: 'planned' }),
  'promoteSecondary dr unplanned': () => ({ ...WEST, mode: 'unplanned' }),
  'promoteSecondary dr forced': () => ({ ...WEST, mode: 'forced' }),
  'promoteSecondary performance planned': () => ({ ...EUROPE, mode: 'planned' }),
  'promoteSecondary performance forced': () => ({ ...EUROPE, mode: 'forced' }),
  'updatePrimary dr': () => ({ ...TO_WEST, by: 'token' }),
  'updatePrimary performance': () => ({ ...TO_EUROPE, by: 'token' }),
  'updatePrimary performance by-addresses': () => ({ ...TO_EUROPE, by: 'addresses' }),
  'updatePrimary performance given': () => ({ ...TO_EUROPE, by: 'addresses', addresses: ['evil.example:8201'] }),
  'enablePrimary dr': () => ({ cluster: 'spare' }),
  'enablePrimary performance': () => ({ cluster: 'spare' }),
  writePathsFilter: () => ({ ...filterOfEurope(), filter: { mode: 'deny', paths: ['secret'] } }),
  'revokeSecondary dr': () => ({ cluster: 'east', id: idOf('west'), secondary: 'west' }),
  'revokeSecondary performance': () => filterOfEurope(),
  'disablePrimary dr': () => ({ cluster: 'east' }),
  'disablePrimary performance': () => ({ cluster: 'east' }),
  'disableSecondary dr': () => ({ cluster: 'west' }),
  'disableSecondary performance': () => ({ cluster: 'europe' }),
  'enableSecondary dr': () => ({ primary: 'east', secondary: 'spare' }),
  'enableSecondary performance': () => ({ primary: 'east', secondary: 'spare', expected: { filter: 'none' } }),
  fenceLostPrimary: () => ({ from: 'east', to: 'west' }),
  'unfenceFormerPrimary dr': () => ({ primary: 'west', secondary: 'east' }),
  'unfenceFormerPrimary performance': () => ({ primary: 'europe', secondary: 'east' }),
  'quiesceByQuota dr': () => ({ cluster: 'east', otherCluster: 'west' }),
  'quiesceByQuota performance': () => ({ cluster: 'east', otherCluster: 'europe' }),
  'issueOutsideToken dr': () => ({ cluster: 'east', outside: OUTSIDE }),
  'issueOutsideToken performance': () => ({ cluster: 'east', outside: OUTSIDE, expected: { filter: 'none' } }),
  takeKeptToken: () => ({ cluster: 'west', entry: randomUUID() }),
  takeSnapshot: () => ({ cluster: 'east', event: 'demotion' }),
  forgetLedgerToken: () => ({ cluster: 'west', entry: ORPHAN }),
  startDrReindex: () => ({ cluster: 'west', options: { diff: false, force: false, skipFlush: false } }),
  // They look whether the secondary is cut off before they look at the plan: it is, from here on.
  'forgetPrimary dr': () => ({ cluster: 'west' }),
  'forgetPrimary performance': () => ({ cluster: 'europe' }),
};
const filterOfEurope = () => ({ cluster: 'east', id: idOf('europe'), secondary: 'europe' });

/** A token that nobody holds. */
const ORPHAN = '11111111-1111-4111-8111-111111111111';
beforeAll(async () => {
  const of = { ...bench.run, deployment: DEPLOYMENT, cluster: 'west', clusterId: idOf('west') } as const;
  await bench.ledger.write({ ...of, version: 1, id: ORPHAN, state: 'orphan', at: new Date().toISOString() });
});

const documentOf = (operations: readonly AllowedOperation[], more: object = {}) =>
  bench.planOf(operations, { requestedBy: 'olga', ...more });

const byAll = (people: readonly string[], gate: string, digest: string, more: object = {}) =>
  Promise.all(people.map((each) => bench.approval(gate, digest, each, more)));
const byBoth = (gate: string, digest: string, more: object = {}) => byAll(['grace', 'henry'], gate, digest, more);

/** Each endpoint at each gate that may cover it, for both kinds of replication and for none. */
const EVERY_OPERATION = (Object.entries(ENDPOINT_GATES) as [Endpoint, readonly GateName[]][]).flatMap(
  ([endpoint, gates]) =>
    gates.flatMap((gate) =>
      (['dr', 'performance', undefined] as const).map((kind): Operation => ({ endpoint, gate, kind })),
    ),
);

const NOT_ALLOWED =
  /does not allow (?:(dr|performance)\/)?(\S+) at gate (\S+) on (\S+) \(cluster ID ([^)]*)\)(?: with (\S+) \(cluster ID ([^)]*)\))?(?: \((.*)\))?$/;

/** An attacker reads what was missing and writes it into a plan of his own. */
function learn(failure: Failed): AllowedOperation | undefined {
  const said = NOT_ALLOWED.exec(String(failure.details['observed']));
  if (!said) return undefined;
  const [, kind, endpoint = '', gate = '', cluster = '', clusterId = '', other, otherId = '', detail] = said;
  return {
    ...(kind !== undefined && { kind: kind as 'dr' | 'performance' }),
    ...{ endpoint: endpoint as Endpoint, gate: gate as GateName },
    on: { cluster, clusterId },
    ...(other === undefined ? {} : { with: { cluster: other, clusterId: otherId } }),
    ...(detail === undefined ? {} : { detail }),
  };
}

/** Every way to come by approvals for a gate of a plan that says exactly what is about to be done. */
async function forgeries(gate: string, planDigest: string): Promise<readonly unknown[]> {
  const said = { ...bench.run, gate, planDigest, verdict: 'approve', comment: '', iat: 1 };
  const forged = await Promise.all([
    // Of another run, of every other gate, and of another plan.
    ...(['ns', 'wid', 'rid'] as const).map((member) =>
      byBoth(gate, planDigest, { [member]: `another-${randomUUID()}` }),
    ),
    ...GATE_NAMES.filter((other) => other !== gate).map((other) => byBoth(other, planDigest)),
    byBoth(gate, documentOf([]).digest),
    // Of people outside of the group, and signed with the attacker's own key.
    byAll(['ada', 'bert', 'cleo'], gate, planDigest),
    ...['grace', 'henry'].map((name) =>
      approvalOf(makePerson(name, ['approvers']), { ...bench.run, gate, planDigest }),
    ),
  ]);
  // Without a signature, and with the number of a signal that nobody sent.
  const unsigned = ['grace', 'henry'].map((name) => ({ ...said, name }));
  return [...forged.flat(), ...unsigned, { approval: { ...said, name: 'grace' }, arrival: 1 }];
}

describe('an activity that needs an approval', () => {
  const gates = new Map<string, string>();
  const plans = new Map<string, SignedPlan['plan']>();
  const names = Object.keys(TRIED);
  let token: object;
  beforeAll(async () => {
    token = await bench.operationToken('west', ['dr.promote', 'dr.update-primary', 'dr.disable', 'dr.reindex']);
  });

  /** The activity, and what it is given. */
  function attempt(tried: string): readonly [Name, object] {
    const [name = '', kind] = tried.split(' ');
    return [name as Name, { ...TRIED[tried]?.(), token, ...(kind !== undefined && { kind }) }];
  }

  it('is tested here, for both kinds of replication', () => {
    const kinds = (name: string) =>
      new Set(names.filter((each) => each.startsWith(`${name} `)).map((each) => each.split(' ')[1]));
    expect([...new Set(names.map((each) => each.split(' ')[0]))].sort()).toEqual(guardedBy('approval').sort());
    for (const name of guardedBy('approval')) expect([name, [0, 2].includes(kinds(name).size)]).toEqual([name, true]);
  });

  it.each(names)(
    '%s refuses every plan and approval that was made up or copied, and sends no request',
    async (tried) => {
      const [name, input] = attempt(tried);
      if (tried.startsWith('forgetPrimary'))
        for (const [kind, each] of [
          ['dr', 'west'],
          ['performance', 'europe'],
        ] as const)
          revokeSecondary(bench.cluster('east'), kind, bench.cluster(each).clusterId);
      // A plan is made with a write beside the marker.
      let plan = OF_SWITCHOVER.includes(tried) ? (await bench.authority()).plan : undefined;
      const before = bench.changes();
      const failure = (authority: SignedPlan | undefined) =>
        bench.failure(name as never, { deployment: DEPLOYMENT, ...input, authority } as never);
      const refuses = async (authority: SignedPlan) => {
        const failed = await failure(authority);
        expect([name, failed.code, failed.retryable]).toEqual([name, 'NOT_APPROVED', false]);
        return failed;
      };

      // The plan is the attacker's own, and says exactly what he is about to do.
      const operations: AllowedOperation[] = [];
      while (plan === undefined) {
        const own = documentOf(operations);
        const missing = learn(await refuses({ plan: own, approvals: [] }));
        if (missing === undefined) plan = own;
        else operations.push(missing);
        expect(operations.length).toBeLessThan(4);
      }
      const refused = await refuses({ plan, approvals: [] });
      const [, gate = ''] = /^gate (\S+) is missing/.exec(String(refused.details['observed'])) ?? [];
      expect([name, GATE_NAMES.includes(gate as never)]).toEqual([name, true]);
      for (const operation of operations.slice(-1)) expect(operation.gate).toBe(gate);
      gates.set(tried, gate);
      plans.set(tried, plan);

      // All at once: if any of them counted, this would not be refused.
      const all = await refuses({ plan, approvals: await forgeries(gate, plan.digest) });
      expect(all.details['observed']).toBe(refused.details['observed']);
      // A plan that is approved, and then read as another one.
      const other = documentOf(operations, { reason: 'something else' });
      const approvals = await byBoth(gate, plan.digest);
      for (const swapped of [{ ...other, digest: plan.digest }, other, { ...plan, text: `${plan.text} ` }])
        await refuses({ plan: swapped, approvals });
      // Approved, and so long ago that nothing is begun with it.
      if (!GOES_ON.includes(name)) {
        bench.signaled('approve', approvals, undefined, Date.now() - 24 * 3_600_000);
        expect((await refuses({ plan, approvals })).details['about']).toBe('approvals too old');
        bench.history = { events: [] };
      }
      // Approved, and then no plan of this deployment, or none that can be read; rejected by one beside two who approve.
      const unread = [
        documentOf(operations, { deployment: 'billing' }),
        documentOf(operations, { force: true }),
        planWith('{'),
      ];
      for (const each of unread) await refuses({ plan: each, approvals: await byBoth(gate, each.digest) });
      const rejection = await bench.approval(gate, plan.digest, 'grace', { verdict: 'reject' });
      await refuses({ plan, approvals: [...approvals, rejection] });
      // Approved by the one who asked for it, where the policy excludes him.
      const own = documentOf(operations, { requestedBy: 'grace' });
      if (operations.length > 0)
        await refuses({ plan: own, approvals: [await bench.approval(gate, own.digest, 'grace')] });
      expect((await failure(undefined)).code).toMatch(/^(NOT_APPROVED|INTERNAL)$/);
      // That of a switchover was not made up here: it has operations of its own.
      const { operations: ofPlan } = JSON.parse(plan.text) as { readonly operations: readonly AllowedOperation[] };
      // A snapshot is of one cluster, whatever the other side of its demotion.
      const bound = name === 'takeSnapshot' ? ofPlan.map(({ with: _with, ...operation }) => operation) : ofPlan;
      await refusesOtherClusters(name, bound, input);
      expect(bench.changes().slice(before.length)).toEqual([]);
    },
  );

  /** Every operation of the table, approved at every gate by two people, for another cluster behind the same name. */
  async function refusesOtherClusters(
    name: Name,
    operations: readonly AllowedOperation[],
    input: object,
  ): Promise<void> {
    const other = (it: AllowedOperation['on']) => ({ ...it, clusterId: 'another-cluster' });
    const every = (change: (each: AllowedOperation) => AllowedOperation) =>
      documentOf(EVERY_OPERATION.flatMap((operation) => operations.map((each) => change({ ...each, ...operation }))));
    const plans = [
      every((each) => ({ ...each, on: other(each.on) })),
      ...(operations.some(({ with: side }) => side)
        ? [every((each) => (each.with ? { ...each, with: other(each.with) } : { ...each, on: other(each.on) }))]
        : []),
    ];
    for (const plan of plans) {
      const approvals = (await Promise.all(GATE_NAMES.map((gate) => byBoth(gate, plan.digest)))).flat();
      const call = { deployment: DEPLOYMENT, ...input, authority: { plan, approvals } };
      const failed = await bench.failure(name as never, call as never);
      expect([name, failed.code]).toEqual([name, 'NOT_APPROVED']);
      expect(String(failed.details['observed'])).toMatch(/does not allow|no operation of the plan/);
    }
  }

  it('accepts the same plan with genuine approvals: only the approvals were missing', async () => {
    for (const tried of ['demotePrimary dr former', 'startDrReindex', 'disableSecondary dr', 'fenceLostPrimary']) {
      const [name, given] = attempt(tried);
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

/** Inputs come through Temporal, whose writers can put anything there: each is checked at the activity's border. */
describe('an input', () => {
  const between = { deployment: DEPLOYMENT, ...TO_WEST };
  const refused = async (name: Name, input: object) => {
    const before = bench.service.calls.length;
    const failure = await bench.failure(name, input as never);
    expect(bench.service.calls.length).toBe(before);
    return failure;
  };

  it.each<[string, Name, object]>([
    ['more samples than a run takes', 'sampleWal', { deployment: DEPLOYMENT, samples: 201, everyMs: 0 }],
    ['no number of samples', 'sampleWal', { deployment: DEPLOYMENT, everyMs: 10 }],
    ['samples for longer than five hours', 'sampleWal', { deployment: DEPLOYMENT, samples: 200, everyMs: 3_600_000 }],
    ['samples without end', 'sampleWal', { deployment: DEPLOYMENT, samples: -1, everyMs: 10 }],
    ['a time of years', 'sampleWal', { deployment: DEPLOYMENT, samples: 1, everyMs: 1e12 }],
    ['a time that is no number', 'sampleWal', { deployment: DEPLOYMENT, samples: 1, everyMs: '1000' }],
    ['a WAL index that is none', 'demotePrimary', { ...between, kind: 'dr', reached: 'x' }],
    ['a WAL index of a million digits', 'demotePrimary', { ...between, kind: 'dr', reached: '9'.repeat(1_000_000) }],
    ['an id that leaves its path', 'awaitSecondaryGone', { ...between, cluster: 'east', kind: 'dr', id: '..' }],
    ['an id with a path in it', 'compareDynamicFilters', { ...between, id: 'x/../../../seal' }],
    ['a kind that there is not', 'awaitReplicationDisabled', { deployment: DEPLOYMENT, cluster: 'east', kind: '../x' }],
    ['arrivals without end', 'checkDecisions', { deployment: DEPLOYMENT, arrived: Array(100_001).fill(1) }],
    ['an epoch that is none', 'createCeremony', { deployment: DEPLOYMENT, epoch: 1.5 }],
    ['more targets than clusters', 'createCeremony', { deployment: DEPLOYMENT, targets: Array(1_001).fill({}) }],
    ['no kind of replication', 'disablePrimary', { deployment: DEPLOYMENT, cluster: 'east' }],
    ['a kind of token', 'disablePrimary', { deployment: DEPLOYMENT, cluster: 'east', kind: 'root-token' }],
    ['a DR secondary without a token', 'disableSecondary', { deployment: DEPLOYMENT, cluster: 'west', kind: 'dr' }],
    ['forgetting without a token', 'forgetPrimary', { deployment: DEPLOYMENT, cluster: 'west', kind: 'dr' }],
    ['re-pointing without a token', 'updatePrimary', { ...between, kind: 'dr' }],
    ['re-pointing without a filter', 'updatePrimary', { ...between, kind: 'performance' }],
    ['no filter for an activation token', 'enableSecondary', { ...between, kind: 'performance', expected: {} }],
    ['an input of another runbook', 'assessDrSwitchover', { input: { deployment: DEPLOYMENT, cluster: 'east' } }],
    ['a ledger entry with a path', 'disposeLedgerToken', { deployment: DEPLOYMENT, cluster: 'east', entry: '../x' }],
  ])('%s is refused before anything is read', async (_what, name, input) => {
    const failure = await refused(name, input);
    expect(failure).toMatchObject({ code: 'INVALID_INPUT', retryable: false });
    expect(failure.message).not.toContain('..');
  });

  it('every activity refuses an invalid name, and does not repeat it', async () => {
    for (const name of Object.keys(bench.activities) as Name[]) {
      const failure = await refused(name, { deployment: '../etc', cluster: 7, workflowId: 7, signals: 7 });
      expect([name, failure.code]).toEqual([name, 'INVALID_INPUT']);
      expect(failure.message).not.toContain('etc');
    }
  });
});
