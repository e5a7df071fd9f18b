/** Demote and promote: what they refuse before anything reaches the service, and that they happen once, whatever becomes of the answer. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defaultPayloadConverter } from '@temporalio/common';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { findDeployment, inventoryDigest } from '../../src/inventory';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';
import {
  clusters,
  DEPLOYMENT,
  drDemotion,
  drPromotion,
  holding,
  openBench,
  replicating,
} from '../support/activity-environment';
import { planWith } from '../support/activity-environment';
import { CHANGING } from '../support/faults';
import { workersToken } from '../support/least-privilege';
import { approvalOf } from '../support/people';

const { demote: DEMOTE, promote: PROMOTE } = CHANGING;
const STATUS = 'GET /v1/sys/replication/dr/status';
const HOUR = 3_600_000;

let bench: ActivityBench;
let authority: SignedPlan;
let token: OperationTokenReference;
let setRolesBack: () => void;
let before: Readonly<Record<'demote' | 'promote', number>>;

openBench((opened) => (bench = opened), {
  topology: {
    clusters: clusters({ east: 1, west: 3 }),
    readings: { leaderChangeChance: 0 },
  },
});
beforeAll(async () => {
  // Roles are set back behind the service's back here: a WAL index says nothing of what the secondary has.
  authority = await bench.authority({ acceptLoss: 'bounded', requestedBy: 'olga' });
  token = await bench.operationToken('west');
  setRolesBack = bench.rolesKept();
});
beforeEach(() => {
  bench.service.faults.clear();
  bench.service.heal();
  bench.limit();
  bench.history = { events: [] };
  setRolesBack();
  bench.service.advanceClock(1_000);
  before = calls();
});

const calls = () => ({
  demote: bench.calls('east', 'dr/primary/demote'),
  promote: bench.calls('west', 'dr/secondary/promote'),
});
const sent = () => bench.service.calls.filter(({ path }) => path.endsWith('dr/secondary/promote'));
const made = (which: keyof typeof before) => calls()[which] - before[which];
const demotion = (more: Partial<SignedPlan> = {}) => drDemotion({ ...authority, ...more });
const promotion = (reference = token, given = authority) => drPromotion(reference, given);
const demote = () => bench.call('demotePrimary', demotion());
const promote = () => bench.call('promoteSecondary', promotion());
const mode = (cluster: string) => bench.cluster(cluster).snapshotState().dr.mode;
/** East does not reach west any more, which then is no successor: where its approvals count, that stops a demotion. */
const cutOff = () => {
  bench.service.partition('east', 'west');
  bench.service.advanceClock(6_000);
};
/** A plan of this text, approved at both gates. */
const approved = (text: string) => bench.approved({ plan: planWith(text), preconditions: [] }, 'plan', ['go', 'henry']);
const PUT_BACK = holding('Restore the inventory');

describe('is refused, and no request reaches the service', () => {
  it.each([
    ['an approval of one gate only', async () => authority.approvals.slice(0, 1)],
    ['the same approval twice instead of both gates', async () => [authority.approvals[0], authority.approvals[0]]],
  ])('%s', async (_name, make) => {
    const forged = { ...authority, approvals: await make() };
    const told = { retryable: false, details: { observed: expect.any(String) as string, needed: holding('gate ') } };
    await bench.refusedUnsent('demotePrimary', demotion(forged), 'NOT_APPROVED', told);
    await bench.refusedUnsent('promoteSecondary', promotion(token, forged), 'NOT_APPROVED', told);
  });

  it('a cluster that the approved plan does not change gets no request', async () => {
    const not = { details: { observed: holding('the plan does not allow') } };
    const turned = { cluster: 'west', otherCluster: 'east' };
    await bench.refusedUnsent('demotePrimary', { ...demotion(), ...turned }, 'NOT_APPROVED', not);
    await bench.refusedUnsent('promoteSecondary', { ...promotion(), otherCluster: 'west' }, 'NOT_APPROVED', not);
  });

  it('a cluster with another ID than the inventory pins is not changed, whatever was approved', async () => {
    const pinned = findDeployment(bench.inventory, DEPLOYMENT).clusters.get('east') ?? {};
    Object.assign(pinned, { clusterId: 'another-cluster' });
    await bench.refusedUnsent('demotePrimary', demotion(), 'STATE_DIVERGED', { details: { cluster: 'east' } });
    Object.assign(pinned, { clusterId: undefined });
  });

  const HEARD = () => [{ connection_status: 'connected', last_heartbeat: new Date(bench.service.now()).toISOString() }];
  it.each([
    ['receives no heartbeat from it', undefined, undefined],
    ['does not stream', { state: 'merkle-sync', last_remote_wal: 1_000_000 }, undefined],
    ['has not reached what was caught up with', { last_remote_wal: 99 }, '100'],
    ['reports no WAL index', {}, '1'],
  ] as const)('a primary is not demoted while its successor %s', async (_name, said, reached) => {
    const data = { mode: 'secondary', state: 'stream-wals', primaries: HEARD(), ...said };
    if (said === undefined) cutOff();
    else bench.always(STATUS, { status: 200, body: { data } }, 'west');
    await bench.refusedUnsent('demotePrimary', { ...demotion(), ...(reached && { reached }) }, 'PRECONDITION_FAILED');
  });

  it.each([
    ['does not report its ID', /sys\/health/, 'CONFIRMATION_TIMEOUT', 'Not observed within 1.5 s: west answers.'],
    ['stops responding before the last check', STATUS, 'SERVICE_UNAVAILABLE', holding('GET sys/replication/dr/status')],
  ])(
    'clients stay quiesced for a quarter of the budget for a successor that %s',
    async (_what, endpoint, code, message) => {
      bench.limit({ demoteMs: 6_000 });
      bench.always(endpoint, { status: 503 }, 'west');
      const looks = () =>
        bench.service.calls.filter((call) => call.cluster === 'east' && call.path.endsWith('dr/status'));
      const before = looks().length;
      await bench.refusedUnsent('demotePrimary', demotion(), code, { message, details: { cluster: 'west' } });
      // Else forty, until the budget ends.
      expect(looks().length - before).toBeLessThan(30);
    },
  );

  it('a primary that refused a token is not demoted with another before its successor is checked again', async () => {
    const body = { data: { mode: 'secondary', state: 'merkle-sync', last_remote_wal: 1_000_000, primaries: [] } };
    bench.service.faults.add({
      endpoint: DEMOTE,
      action: async (east) => {
        east.storage.keys('token/').forEach((key) => east.storage.write(key, null, bench.service.now()));
        await writeFile(join(bench.directory, 'token'), workersToken(east, bench.inventory, DEPLOYMENT));
        bench.always(STATUS, { status: 200, body }, 'west');
      },
    });
    const known = { details: { outcomeKnown: true } };
    await bench.refused('demotePrimary', demotion(), 'PRECONDITION_FAILED', known);
    expect([mode('east'), made('demote')]).toEqual(['primary', 1]);
  });

  it('a secondary is not promoted while the other cluster reports primary', async () => {
    const told = { details: { observed: 'primary' } };
    await bench.refusedUnsent('promoteSecondary', promotion(), 'STATE_DIVERGED', told);
  });
});

describe('approvals that are older than they count', () => {
  const signaled = (age = 0, approvals = authority.approvals) =>
    void bench.signaled('approve', approvals, undefined, Date.now() - age);
  const refuses = (code: string, expected: object = {}, given: Partial<SignedPlan> = {}) =>
    bench.refusedUnsent('demotePrimary', demotion(given), code, expected);
  /** The beginning of a run whose window lies there, in ms from now. */
  const windowFrom = (from: number, to: number) => {
    const [notBefore, notAfter] = [from, to].map((each) => new Date(Date.now() + each).toISOString());
    const input = defaultPayloadConverter.toPayload({ window: { notBefore, notAfter } });
    bench.history = { events: [{ workflowExecutionStartedEventAttributes: { input: { payloads: [input] } } }] };
  };
  beforeEach(cutOff);

  it('begin no outage, even if they are sent again: each counts from its first signal', async () => {
    signaled(2 * HOUR);
    signaled();
    const next = holding('Decide retry: the run asks gate go again');
    const told = { retryable: false, details: { observed: holding('gate go was met at'), next } };
    await refuses('NOT_APPROVED', told);
  });

  it('begin none either if an update brought them first, and signals later', async () => {
    for (const each of authority.approvals) bench.updated('approve', each, Date.now() - 2 * HOUR);
    signaled();
    await refuses('NOT_APPROVED');
  });

  it('approvals that people gave again count from then, beside the old ones', async () => {
    const { digest } = authority.plan;
    const anew = await approvalOf(bench.person('henry'), { ...bench.run, gate: 'go', planDigest: digest, iat: 1 });
    const approvals = [...authority.approvals, anew];
    signaled(9 * HOUR);
    signaled(0, [anew]);
    await refuses('PRECONDITION_FAILED', {}, { approvals });
    // Sent again, the old one is as old as it was.
    signaled();
    await refuses('NOT_APPROVED');
  });

  it.each([
    ['within an hour of their end', HOUR, undefined, 'PRECONDITION_FAILED'],
    ['from the beginning of the window', 9 * HOUR, [-HOUR, HOUR], 'PRECONDITION_FAILED'],
    ['not long after it began', 9 * HOUR, [-3 * HOUR, HOUR], 'NOT_APPROVED'],
    ['not long before it', 9 * HOUR, [2 * HOUR, 3 * HOUR], 'NOT_APPROVED'],
    ['not long after its end', 0, [-4 * HOUR, -2 * HOUR], 'NOT_APPROVED'],
  ] as const)('they count %s', async (_when, age, window, code) => {
    if (window) windowFrom(window[0], window[1]);
    signaled(age);
    await refuses(code);
  });

  it('a fresh approval beside one that was too old for the open gate does not begin the change', async () => {
    const { gates } = findDeployment(bench.inventory, DEPLOYMENT);
    const { go } = gates;
    Object.assign(gates, { go: { ...go, approvals: 2 } });
    // A plan of the inventory of now: it is the age alone that refuses.
    const inventory = inventoryDigest(bench.inventory, DEPLOYMENT);
    const held = await approved(JSON.stringify({ ...(JSON.parse(authority.plan.text) as object), inventory }));
    const fresh = await bench.approval('go', held.plan.digest, 'grace');
    const beside = async (age: number, code: string, expected = {}) => {
      bench.history = { events: [] };
      signaled(age, held.approvals);
      signaled(60_000, [fresh]);
      await refuses(code, expected, { ...held, approvals: [...held.approvals, fresh] });
    };
    // The gate is open for its validFor, and what it approved counts for as long and an hour.
    await beside(HOUR + 1.9 * go.validForMs, 'PRECONDITION_FAILED');
    const late = { about: 'approvals too old', observed: holding('with an approval of') };
    for (const age of [HOUR + 2.1 * go.validForMs, 90 * HOUR]) await beside(age, 'NOT_APPROVED', { details: late });
    Object.assign(gates, { go });
  });
});

describe('an inventory that was changed since the plan was made', () => {
  const change = async (member: 'gates' | 'hooks', value: object, work: () => Promise<unknown>) => {
    const deployment = findDeployment(bench.inventory, DEPLOYMENT);
    const { [member]: usual } = deployment;
    Object.assign(deployment, { [member]: { ...usual, ...value } });
    await work().finally(() => Object.assign(deployment, { [member]: usual }));
  };
  const HOOK = { traffic: { kind: 'call', url: 'http://127.0.0.1:1/', idempotent: false } };

  it.each([
    ['gates', { unfence: { approvals: 2, groups: ['approvers'], excludeRequester: true, validForMs: 60_000 } }],
    ['hooks', HOOK],
  ] as const)('begins no demotion if its %s changed, and does once the change is undone', async (member, value) => {
    const details = { observed: 'the inventory has changed since the plan was made', next: PUT_BACK };
    await change(member, value, () => bench.refusedUnsent('demotePrimary', demotion(), 'NOT_APPROVED', { details }));
    expect(await demote()).toMatchObject({ outcome: 'done' });
  });

  it('does not prolong an outage: a promotion is not refused because of a corrected hook', async () => {
    await demote();
    await change('hooks', HOOK, async () => expect(await promote()).toMatchObject({ outcome: 'done' }));
  });

  it('names itself if a gate that needs more now is not met', async () => {
    const { plan } = findDeployment(bench.inventory, DEPLOYMENT).gates;
    const details = { observed: holding('(the inventory has changed'), next: PUT_BACK };
    await change('gates', { plan: { ...plan, approvals: 2 } }, () =>
      bench.refusedUnsent('demotePrimary', demotion(), 'NOT_APPROVED', { details }),
    );
  });
});

it('a demotion and a promotion take effect once, and are found in effect when repeated', async () => {
  expect(await demote()).toMatchObject({ outcome: 'done', calls: 1, walBefore: expect.any(String) as string });
  expect(await demote()).toMatchObject({ outcome: 'already', calls: 0 });
  expect(await promote()).toMatchObject({ outcome: 'done', calls: 1 });
  expect(await promote()).toMatchObject({ outcome: 'already', calls: 0 });
  expect([mode('east'), mode('west'), made('demote'), made('promote')]).toEqual(['secondary', 'primary', 1, 1]);
});

it.each([
  ['lost after its effect: it is not sent again', 'lose-answer', 1],
  ['mangled after its effect: it is not sent again', 'glue-documents', 1],
  ['broken off before its effect: sent again after reads proved that it had none', 'reset', 2],
] as const)('an answer to either call is %s', async (_what, action, times) => {
  for (const endpoint of [DEMOTE, PROMOTE]) bench.service.faults.add({ endpoint, action });
  expect(await demote()).toMatchObject({ outcome: 'done', calls: times });
  expect(await promote()).toMatchObject({ outcome: 'done', calls: times });
  expect([made('demote'), made('promote')]).toEqual([times, times]);
});

it('a node that restarts and reports no mode is waited for, and does not count as absent', async () => {
  bench.service.faults.add({ endpoint: DEMOTE, action: 'lose-answer' });
  // Read before the demotion: its state, and the WAL index twice.
  const unknown = { status: 200, body: { data: { mode: 'unknown' } } };
  bench.service.faults.add({ cluster: 'east', endpoint: STATUS, skip: 3, times: 5, action: unknown });
  expect(await demote()).toMatchObject({ outcome: 'done', calls: 1 });
});

describe('a promotion', () => {
  beforeEach(demote);

  it('continues if the worker stood still for longer than its budget', async () => {
    bench.limit({ promoteMs: 300 });
    const standStill = () => {
      for (const until = performance.now() + 600; performance.now() < until;);
    };
    bench.service.faults.add({ endpoint: PROMOTE, action: standStill });
    bench.service.faults.add({ endpoint: PROMOTE, action: { status: 503 }, times: 2 });
    expect(await promote()).toMatchObject({ outcome: 'done', calls: 3 });
    expect([mode('west'), made('promote')]).toEqual(['primary', 3]);
  });

  it('waits a quarter of its budget for a cluster that does not report its ID, if there is a way back', async () => {
    bench.limit({ promoteMs: 800 });
    bench.always(/sys\/health/, { status: 503 }, 'west');
    await bench.refusedUnsent('promoteSecondary', { ...promotion(), wayBack: true }, 'CONFIRMATION_TIMEOUT', {
      message: holding('Not observed within 0.2 s'),
    });
  });

  it('waits its whole budget if the other cluster does not report its ID either: there is no way back', async () => {
    bench.limit({ promoteMs: 8_000 });
    const away = bench.always(/sys\/health/, { status: 503 }, 'west');
    const began = performance.now();
    // Asked again after the quarter, east is away still, and west comes back.
    const comesBack = () => {
      if (performance.now() - began >= 2_000) away.remove();
    };
    bench.always(/sys\/health/, comesBack, 'east');
    bench.always(/sys\/health/, { status: 503 }, 'east');
    expect(await bench.call('promoteSecondary', { ...promotion(), wayBack: true })).toMatchObject({ outcome: 'done' });
    expect([mode('east'), mode('west'), made('promote')]).toEqual(['secondary', 'primary', 1]);
  });

  it('goes to the current leader if the leader changes right before the call and a standby is sealed', async () => {
    const west = bench.cluster('west');
    west.leaderChange(1);
    bench.service.advanceClock(1_000);
    west.sealNode(0);
    const action = () => {
      west.leaderChange(2);
      bench.service.advanceClock(1_000);
    };
    bench.service.faults.add({ endpoint: PROMOTE, action });
    const earlier = sent().length;
    expect(await promote()).toMatchObject({ outcome: 'done', calls: 1 });
    const asked = sent().slice(earlier);
    west.unsealNode(0);
    // The redirect names the load balancer, so it does not tell whom to ask next.
    expect(asked.map(({ node, status }) => [node, status])).toEqual([
      [1, 307],
      [0, 503],
      [2, 200],
    ]);
  });

  it('at a leader that was sealed right before the call waits for the next leader', async () => {
    const west = bench.cluster('west');
    const { activeNode = 0 } = west.snapshotState();
    bench.service.faults.add({ endpoint: PROMOTE, action: () => west.sealNode(activeNode) });
    expect(await promote()).toMatchObject({ outcome: 'done', calls: 2 });
    west.unsealNode(activeNode);
  });

  it('that is answered 503 is waited for, never forced', async () => {
    bench.service.faults.add({ endpoint: PROMOTE, action: { status: 503 } });
    expect(await promote()).toMatchObject({ outcome: 'done', calls: 2 });
    expect(sent().every(({ body }) => !('force' in body) || body['force'] === false)).toBe(true);
  });

  it('that is answered 503 is not sent again if the old primary became primary meanwhile', async () => {
    bench.service.faults.add({ endpoint: PROMOTE, action: () => setRolesBack() });
    bench.service.faults.add({ endpoint: PROMOTE, action: { status: 503 } });
    await bench.refused('promoteSecondary', promotion(), 'STATE_DIVERGED', { details: { outcomeKnown: true } });
    expect([mode('east'), mode('west'), made('promote')]).toEqual(['primary', 'secondary', 1]);
  });

  it('that is answered 503 until the budget ends is refused with a known outcome, and no cluster is primary', async () => {
    bench.limit({ promoteMs: 300 });
    bench.always(PROMOTE, { status: 503 });
    const told = { retryable: false, details: { outcomeKnown: true } };
    await bench.refused('promoteSecondary', promotion(), 'NOT_CAUGHT_UP', told);
    expect([mode('east'), mode('west')]).toEqual(['secondary', 'secondary']);
  });

  it('that was accepted but is not confirmed in time leaves its outcome unknown', async () => {
    bench.limit({ promoteMs: 300 });
    // What stands before the call is read; from then on nothing is.
    const action = { status: 503 };
    bench.service.faults.add({ cluster: 'west', endpoint: STATUS, skip: 1, action, times: Infinity });
    const told = { retryable: false, details: { outcomeKnown: false } };
    await bench.refused('promoteSecondary', promotion(), 'CONFIRMATION_TIMEOUT', told);
    expect([mode('west'), made('promote')]).toEqual(['primary', 1]);
  });
});

describe('a DR set with a third member', () => {
  let three: ActivityBench;
  let given: SignedPlan;
  openBench((opened) => (three = opened), {
    ...replicating({ main: ['east', 'west', 'north'] }, {}, { readings: { leaderChangeChance: 0 } }),
  });
  beforeAll(async () => {
    given = await three.authority();
    await three.call('demotePrimary', drDemotion(given));
  });
  const toWest = async () => drPromotion(await three.operationToken('west'), given);

  it('that reports primary: no other cluster is promoted', async () => {
    const says = three.always(STATUS, { status: 200, body: { data: { mode: 'primary' } } }, 'north');
    const north = { details: { cluster: 'north' } };
    await three.refusedUnsent('promoteSecondary', await toWest(), 'STATE_DIVERGED', north);
    says.remove();
  });

  it('that reports primary after the demotion: refused, without hiding the demotion', async () => {
    const says = three.always(STATUS, { status: 200, body: { data: { mode: 'primary' } } }, 'north');
    const details = { cluster: 'north', outcomeKnown: false };
    await three.refusedUnsent('demotePrimary', drDemotion(given), 'STATE_DIVERGED', { details });
    says.remove();
  });

  it('that does not respond: promoted, with a warning, unless this run may have made it primary; the outage has begun, and approvals to end it do not expire', async () => {
    await three.cluster('north').kill();
    // This run may have made it primary: then its silence says nothing.
    const doubtful = { code: 'CONFIRMATION_TIMEOUT', outcomeKnown: false };
    three.happened('promoteSecondary', { kind: 'dr', cluster: 'north' }, doubtful);
    const observed = holding('a promotion of north that may have succeeded');
    await three.refusedUnsent('promoteSecondary', await toWest(), 'STATE_DIVERGED', { details: { observed } });
    three.history = { events: [] };
    three.signaled('approve', given.approvals, undefined, Date.now() - 48 * HOUR);
    expect(await three.call('demotePrimary', drDemotion(given))).toMatchObject({ outcome: 'already' });
    const findings = [expect.objectContaining({ severity: 'warning', code: 'dr-member-silent' })];
    expect(await three.call('promoteSecondary', await toWest())).toMatchObject({ outcome: 'done', findings });
  });
});
