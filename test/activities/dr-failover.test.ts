/** What a failover reads, and what its promotion refuses by itself, whatever a workflow tells it. */
import { defaultPayloadConverter } from '@temporalio/common';
import type { Authority } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { findDeployment } from '../../src/inventory';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
let bench: ActivityBench;
let token: OperationTokenReference;
let authority: Authority;

const input = (more: Readonly<Record<string, unknown>> = {}) =>
  RUNBOOK_INPUTS.drFailover.parse({ deployment: DEPLOYMENT, reason: 'a test', requestedBy: 'olga', ...more });
const assess = async (more: Readonly<Record<string, unknown>> = {}) =>
  bench.call('assessDrFailover', { input: input(more) });
const verdicts = async (more: Readonly<Record<string, unknown>> = {}) =>
  Object.fromEntries((await assess(more)).preconditions.map(({ name, verdict }) => [name, verdict]));
const promotion = (more: Partial<{ authority: Authority; cluster: string; otherCluster: string }> = {}) => ({
  kind: 'dr' as const,
  mode: 'unplanned' as const,
  deployment: DEPLOYMENT,
  cluster: 'north',
  otherCluster: 'east',
  token,
  authority,
  ...more,
});
const promoted = () => bench.calls('west', 'dr/secondary/promote') + bench.calls('north', 'dr/secondary/promote');
/** Long enough after the last heartbeat. */
const silence = () => bench.service.advanceClock(5_000);

openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    clusters: ['east', 'west', 'north'].map((name) => ({ name, nodes: 2 })),
    dr: [{ primary: 'east', secondaries: ['west', 'north'] }],
  },
  deployment: { hooks: { fence: { command: ['/bin/true'] } } },
  limits: { primaryGone: '1s' },
});
beforeAll(async () => {
  token = await bench.operationToken('north');
});

it('a wrong `from` is refused while another member, which secondaries follow, says nothing', async () => {
  const cutOff = ['east', 'west'].map((cluster) =>
    bench.service.faults.add({ cluster, endpoint: /./, action: 'reset', times: Infinity }),
  );
  // East serves its clients; nobody here sees it, and west, which is named as the lost primary, is down.
  const wrong = { from: 'west', to: 'north' };
  const { preconditions, plan } = await assess(wrong);
  expect(preconditions).toEqual([
    expect.objectContaining({ name: 'no other member can be the primary', cluster: 'east', verdict: 'fail' }),
  ]);
  expect(plan).toBeUndefined();
  expect((await bench.failure('awaitPrimaryGone', { deployment: DEPLOYMENT, ...wrong })).message).toContain('east');

  // Only where people name it, and what they attest is in the plan that they approve.
  const named = await assess({ ...wrong, alsoGone: ['east'] });
  expect(await verdicts({ ...wrong, alsoGone: ['east'] })).toMatchObject({ 'the primary does not answer': 'ok' });
  expect(named.plan?.text).toContain('"alsoGone":"east"');
  expect(named.plan?.text).toContain('that east is fenced');
  if (!named.plan) throw new Error('no plan');
  const attested = { plan: named.plan, approvals: [await bench.approval('promote', named.plan.digest)] };

  // West is back, and follows a primary: it never was the one that is gone.
  cutOff[1]?.remove();
  const refused = await bench.failure('promoteSecondary', promotion({ otherCluster: 'west', authority: attested }));
  expect(refused).toMatchObject({ code: 'PRECONDITION_FAILED', details: { cluster: 'west' } });
  expect(refused.details['next']).toContain('west follows another primary');
  expect(promoted()).toBe(0);
  cutOff[0]?.remove();
});

it('a primary whose nodes are all sealed is gone; one node that is unsealed and active is not', async () => {
  expect(await verdicts({ from: 'east' })).toMatchObject({ 'the primary does not answer': 'fail' });
  // West does not get the last write any more.
  bench.cluster('west').holdStream('dr', true);
  bench.cluster('east').write('secret/last', { at: bench.service.now() });
  bench.service.advanceClock(1_000);
  for (const index of [0, 1]) bench.cluster('east').sealNode(index);
  silence();
  expect(await verdicts()).toMatchObject({
    'the primary does not answer': 'ok',
    'heartbeats of the primary stopped': 'ok',
    'another observer agrees': 'ok',
  });
});

it('the one furthest ahead is proposed; another one may be named, with a warning, and its plan is another one', async () => {
  const { streams } = bench.cluster('north');
  const proposed = await assess();
  expect(proposed.route).toMatchObject({ from: 'east', to: 'north', otherDrSecondaries: ['west'] });
  expect(await verdicts()).toMatchObject({ 'furthest ahead': 'ok' });
  expect(await verdicts({ to: 'west' })).toMatchObject({ 'furthest ahead': 'warn' });
  // 0 says that nothing was streamed since the last comparison: it cannot be compared.
  const reached = streams.dr.lastRemoteWal;
  streams.dr.lastRemoteWal = 0n;
  expect((await assess()).route?.to).toBe('west');
  streams.dr.lastRemoteWal = reached;
  const { plan } = await assess();
  if (!plan) throw new Error('no plan');
  // What changes by itself is not in the plan.
  silence();
  expect((await assess()).plan?.digest).toBe(plan.digest);
  expect((await assess({ to: 'west' })).plan?.digest).not.toBe(plan.digest);
  authority = { plan, approvals: [await bench.approval('promote', plan.digest)] };
});

it('force needs gate force and its two approvers', async () => {
  expect((await bench.failure('promoteSecondary', { ...promotion(), mode: 'forced' })).code).toBe('NOT_APPROVED');
  const { plan, approvals } = authority;
  const one = { plan, approvals: [...approvals, await bench.approval('force', plan.digest)] };
  expect((await bench.failure('promoteSecondary', { ...promotion({ authority: one }), mode: 'forced' })).code).toBe(
    'NOT_APPROVED',
  );
  expect(promoted()).toBe(0);
});

const fencing = (more: Partial<{ authority: Authority; from: string; to: string }> = {}) => ({
  deployment: DEPLOYMENT,
  from: 'east',
  to: 'north',
  authority,
  ...more,
});

it('nothing is promoted while an observer hears the primary, or while its silence is young', async () => {
  const { streams } = bench.cluster('west');
  const now = bench.service.now();
  const heard = streams.dr.lastHeartbeatAt;
  streams.dr.lastHeartbeatAt = now;
  bench.limit({ primaryGoneMs: 120_000 });
  const refused = await bench.failure('promoteSecondary', promotion());
  expect(refused).toMatchObject({ code: 'PRECONDITION_FAILED', details: { outcomeKnown: true } });
  expect((await bench.failure('fenceLostPrimary', fencing())).code).toBe('PRECONDITION_FAILED');
  expect(promoted()).toBe(0);
  streams.dr.lastHeartbeatAt = heard;
  bench.limit();
});

it('nothing is promoted once the primary answers again, or another member is primary', async () => {
  for (const index of [0, 1]) bench.cluster('east').unsealNode(index);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect((await bench.failure('promoteSecondary', promotion())).code).toBe('STATE_DIVERGED');
  // Approved an hour ago, and it serves again: it is not cut off.
  expect(await bench.failure('fenceLostPrimary', fencing())).toMatchObject({
    code: 'STATE_DIVERGED',
    details: { outcomeKnown: true },
  });
  for (const index of [0, 1]) bench.cluster('east').sealNode(index);
  silence();
  const { setId = '' } = bench.cluster('west').snapshotState().dr;
  const role = bench.cluster('west').role('dr');
  bench
    .cluster('west')
    .setRole('dr', { mode: 'primary', setId, advertisedAddress: '', knownSecondaries: [] }, bench.service.now());
  expect((await bench.failure('promoteSecondary', promotion())).code).toBe('STATE_DIVERGED');
  bench.cluster('west').setRole('dr', role, bench.service.now());
  expect(promoted()).toBe(0);
});

it('nothing is promoted while a node of the lost primary says that it is primary, whoever leads there', async () => {
  silence();
  // Its nodes agree on no leader, and nobody hears it.
  const fault = bench.service.faults.add({
    ...{ cluster: 'east', endpoint: 'GET /v1/sys/replication/dr/status', times: Infinity },
    action: { status: 200, body: { data: { mode: 'primary' } } },
  });
  expect((await bench.failure('promoteSecondary', promotion())).code).toBe('STATE_DIVERGED');
  fault.remove();
  expect(promoted()).toBe(0);
});

it('old approvals do not end another outage than the one that they were given in, and end that one whenever', async () => {
  silence();
  const HOUR = 3_600_000;
  bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * HOUR);
  const old = await bench.failure('promoteSecondary', promotion());
  expect(old).toMatchObject({ code: 'NOT_APPROVED', details: { outcomeKnown: true } });
  expect(old.details['observed']).toContain('gate promote was met at');
  // What the run knows it by, to ask for gate promote again; nobody is sent back to a primary that is gone.
  expect(old.details['about']).toBe('approvals too old');
  expect(old.details['next']).toContain('decide retry: gate promote is asked again');
  expect(old.details['next']).not.toContain('promote-back');
  expect((await bench.failure('fenceLostPrimary', fencing())).code).toBe('NOT_APPROVED');
  expect(promoted()).toBe(0);
  const anew = await bench.approval('promote', authority.plan.digest, 'henry');
  bench.signaled('approve', [anew]);
  const { plan, approvals } = authority;
  const renewed = { plan, approvals: [...approvals, anew] };
  expect(await bench.call('fenceLostPrimary', fencing({ authority: renewed }))).toMatchObject({ outcome: 'done' });
  // A window that lies far off, of a run that the failover took over, holds no fresh approval back.
  const [notBefore, notAfter] = [20, 21].map((hours) => new Date(Date.now() + hours * HOUR).toISOString());
  const input = defaultPayloadConverter.toPayload({ window: { notBefore, notAfter } });
  bench.history = { events: [{ workflowExecutionStartedEventAttributes: { input: { payloads: [input] } } }] };
  expect(await bench.call('fenceLostPrimary', fencing())).toMatchObject({ outcome: 'done' });
  // Nobody heard the primary since: it is the same outage.
  bench.signaled('approve', authority.approvals, undefined, Date.now() - 9 * HOUR);
  bench.service.advanceClock(10 * HOUR);
  expect(await bench.call('fenceLostPrimary', fencing())).toMatchObject({ outcome: 'done' });
  // Of two that are needed, the older one was given before the primary was heard: in another outage.
  const { gates } = findDeployment(bench.inventory, DEPLOYMENT);
  const { promote } = gates;
  Object.assign(gates, { promote: { ...promote, approvals: 2 } });
  const both = async (age: number) => {
    bench.history = { events: [] };
    bench.signaled('approve', approvals, undefined, Date.now() - age);
    bench.signaled('approve', [anew]);
    return bench.call('fenceLostPrimary', fencing({ authority: renewed }));
  };
  await expect(both(12 * HOUR)).rejects.toMatchObject({ type: 'NOT_APPROVED' });
  expect(await both(9 * HOUR)).toMatchObject({ outcome: 'done' });
  Object.assign(gates, { promote });
});

it('where Temporal does not answer right before the promotion nothing was sent, and that is known', async () => {
  silence();
  bench.limit({ promoteMs: 900 });
  bench.historyError = new Error('14 UNAVAILABLE');
  const failure = await bench.failure('promoteSecondary', promotion());
  expect(failure).toMatchObject({ code: 'TEMPORAL_UNAVAILABLE', details: { outcomeKnown: true } });
  expect(failure.details['next']).toContain('Look at Temporal, then retry');
  expect(promoted()).toBe(0);
  bench.historyError = undefined;
  bench.limit();
});

it('with every sign there it is promoted once, and found there already', async () => {
  silence();
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done', calls: 1 });
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'already', calls: 0 });
  expect(promoted()).toBe(1);
});
