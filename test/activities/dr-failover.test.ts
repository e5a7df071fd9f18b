/** What a failover reads, and what its promotion refuses by itself, whatever a workflow tells it. */
import { defaultPayloadConverter } from '@temporalio/common';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { findDeployment } from '../../src/inventory';
import { DEPLOYMENT, holding, openBench } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';

const HOUR = 3_600_000;
const STATUS = 'GET /v1/sys/replication/dr/status';

let bench: ActivityBench;
let token: OperationTokenReference;
let authority: SignedPlan;
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
afterEach(() => bench.limit());

const assess = (more: object = {}) => bench.assess('drFailover', { requestedBy: 'olga', ...more });
const verdicts = async (more: object = {}) =>
  Object.fromEntries((await assess(more)).preconditions.map(({ name, verdict }) => [name, verdict]));
const promotion = (more: object = {}) => {
  const sides = {
    kind: 'dr',
    mode: 'unplanned',
    deployment: DEPLOYMENT,
    cluster: 'north',
    otherCluster: 'east',
  } as const;
  return { ...sides, token, authority, ...more };
};
const fencing = (given = authority) => ({ deployment: DEPLOYMENT, from: 'east', to: 'north', authority: given });
const refusesPromotion = (code: string, expected: object = {}, more: object = {}) =>
  bench.refusedUnsent('promoteSecondary', promotion(more), code, expected);
const refusesFence = (code: string, given = authority) => bench.refusedUnsent('fenceLostPrimary', fencing(given), code);
const fences = async (given = authority) =>
  expect(await bench.call('fenceLostPrimary', fencing(given))).toMatchObject({ outcome: 'done' });
/** Long enough after the last heartbeat. */
const silence = () => bench.service.advanceClock(5_000);
const east = (seal: boolean) => {
  for (const index of [0, 1]) bench.cluster('east')[seal ? 'sealNode' : 'unsealNode'](index);
};

it('a candidate is refused if another cluster answers than the inventory pins', async () => {
  const entry = bench.inventory.deployments.get(DEPLOYMENT)?.clusters.get('north') ?? {};
  Object.assign(entry, { clusterId: 'pinned' });
  const judged = await verdicts({ to: 'north' }).finally(() => Object.assign(entry, { clusterId: undefined }));
  expect(judged['cluster ID']).toBe('fail');
  expect((await verdicts({ to: 'north' }))['cluster ID']).toBeUndefined();
});

it('a wrong `from` is refused while another member that secondaries follow does not answer', async () => {
  const [eastAway, westAway] = ['east', 'west'].map((cluster) => bench.always(/./, 'reset', cluster));
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
  const attested = await bench.approved(named, 'promote');

  // West is back, and follows a primary: it never was the one that is gone.
  westAway?.remove();
  const details = { cluster: 'west', next: holding('west is connected to another primary') };
  await refusesPromotion('PRECONDITION_FAILED', { details }, { otherCluster: 'west', authority: attested });
  eastAway?.remove();
});

it('a primary whose nodes are all sealed counts as gone; one with an unsealed and active node does not', async () => {
  expect(await verdicts({ from: 'east' })).toMatchObject({ 'the primary does not answer': 'fail' });
  // West does not get the last write any more.
  bench.cluster('west').holdStream('dr', true);
  bench.cluster('east').write('secret/last', { at: bench.service.now() });
  bench.service.advanceClock(1_000);
  east(true);
  silence();
  expect(await verdicts()).toMatchObject({
    'the primary does not answer': 'ok',
    'heartbeats of the primary stopped': 'ok',
    'another observer agrees': 'ok',
  });
});

it('the one furthest ahead is proposed; another one may be named, which gives a warning and another plan', async () => {
  const { streams } = bench.cluster('north');
  const proposed = await assess();
  expect(proposed.route).toMatchObject({ from: 'east', to: 'north', otherDrSecondaries: ['west'] });
  expect(await verdicts()).toMatchObject({ 'furthest ahead': 'ok' });
  expect(await verdicts({ to: 'west' })).toMatchObject({ 'furthest ahead': 'warn' });
  // Readiness looks while clients write: of two reads one is always behind.
  expect((await bench.readiness()).points.map(({ id }) => id)).not.toContain('furthest-ahead');
  // 0 says that nothing was streamed since the last comparison: it cannot be compared.
  const reached = streams.dr.lastRemoteWal;
  streams.dr.lastRemoteWal = 0n;
  expect((await assess()).route?.to).toBe('west');
  streams.dr.lastRemoteWal = reached;
  authority = await bench.approved(await assess(), 'promote');
  // What changes by itself is not in the plan.
  silence();
  expect((await assess()).plan?.digest).toBe(authority.plan.digest);
  expect((await assess({ to: 'west' })).plan?.digest).not.toBe(authority.plan.digest);
  // Nor is which of the others answer, although their key holders may be asked too.
  expect(authority.plan.text).toContain('Invite the key holders');
  bench.always(/./, 'reset', 'west');
  expect((await assess()).plan?.digest).toBe(authority.plan.digest);
  bench.service.faults.clear();
});

it('a secondary of another set that follows the lost primary is accepted as a witness; one with another primary gets no new primary', async () => {
  east(true);
  silence();
  const west = bench.cluster('west');
  const role = west.role('dr');
  const becomes = (told: object) => west.setRole('dr', { ...role, ...told }, bench.service.now());
  becomes({ setId: 'another' });
  expect((await assess()).preconditions).toMatchObject([
    { verdict: 'fail', observed: holding('west another'), next: holding('Name the one that should become primary') },
  ]);
  expect((await assess({ to: 'north' })).route?.otherDrSecondaries).toEqual(['west']);
  becomes({ setId: 'another', primaryClusterAddress: 'https://10.9.9.9:8201', knownPrimaryAddresses: [] });
  const { route, preconditions } = await assess();
  expect(route).toMatchObject({ to: 'north', otherDrSecondaries: [] });
  expect(preconditions).toContainEqual(
    expect.objectContaining({ name: 'same DR set', cluster: 'west', verdict: 'warn' }),
  );
  west.setRole('dr', role, bench.service.now());
});

it('force needs gate force and its two approvers', async () => {
  await refusesPromotion('NOT_APPROVED', {}, { mode: 'forced' });
  const { plan, approvals } = authority;
  const one = { plan, approvals: [...approvals, await bench.approval('force', plan.digest)] };
  await refusesPromotion('NOT_APPROVED', {}, { mode: 'forced', authority: one });
});

it('no cluster is promoted while an observer receives heartbeats of the primary, or stopped receiving them only recently', async () => {
  const { streams } = bench.cluster('west');
  const heard = streams.dr.lastHeartbeatAt;
  streams.dr.lastHeartbeatAt = bench.service.now();
  bench.limit({ primaryGoneMs: 120_000 });
  await refusesPromotion('PRECONDITION_FAILED');
  await refusesFence('PRECONDITION_FAILED');
  streams.dr.lastHeartbeatAt = heard;
});

it('no cluster is promoted once the primary answers again, or another member is primary', async () => {
  east(false);
  await new Promise((resolve) => setTimeout(resolve, 200));
  await refusesPromotion('STATE_DIVERGED');
  // Approved an hour ago, and it serves again: it is not cut off.
  await refusesFence('STATE_DIVERGED');
  east(true);
  silence();
  const west = bench.cluster('west');
  const { setId = '' } = west.snapshotState().dr;
  const role = west.role('dr');
  west.setRole('dr', { mode: 'primary', setId, advertisedAddress: '', knownSecondaries: [] }, bench.service.now());
  await refusesPromotion('STATE_DIVERGED');
  west.setRole('dr', role, bench.service.now());
});

it('no cluster is promoted while a node of the lost primary reports primary, whichever node leads there', async () => {
  silence();
  // Its nodes agree on no leader, and nobody hears it.
  const says = bench.always(STATUS, { status: 200, body: { data: { mode: 'primary' } } }, 'east');
  await refusesPromotion('STATE_DIVERGED');
  says.remove();
});

it('old approvals end only the outage that they were given in, and do not expire for it', async () => {
  silence();
  const signaled = (age: number, approvals = authority.approvals) =>
    void bench.signaled('approve', approvals, undefined, Date.now() - age);
  signaled(9 * HOUR);
  // What the run knows it by, to ask for gate promote again; nobody is sent back to a primary that is gone.
  const next = holding('decide retry: the run asks gate promote again');
  const old = await refusesPromotion('NOT_APPROVED', {
    details: { about: 'approvals too old', observed: holding('gate promote was met at'), next },
  });
  expect(old.details['next']).not.toContain('promote-back');
  await refusesFence('NOT_APPROVED');
  const { plan, approvals } = authority;
  const anew = await bench.approval('promote', plan.digest, 'henry');
  signaled(0, [anew]);
  const renewed = { plan, approvals: [...approvals, anew] };
  await fences(renewed);
  // A window that lies far off, of a run that the failover took over, holds no fresh approval back.
  const [notBefore, notAfter] = [20, 21].map((hours) => new Date(Date.now() + hours * HOUR).toISOString());
  const input = defaultPayloadConverter.toPayload({ window: { notBefore, notAfter } });
  bench.history = { events: [{ workflowExecutionStartedEventAttributes: { input: { payloads: [input] } } }] };
  await fences();
  // Nobody heard the primary since: it is the same outage.
  signaled(9 * HOUR);
  bench.service.advanceClock(10 * HOUR);
  await fences();
  // Of two that are needed, the older one was given before the primary was heard: in another outage.
  const { gates } = findDeployment(bench.inventory, DEPLOYMENT);
  const { promote } = gates;
  Object.assign(gates, { promote: { ...promote, approvals: 2 } });
  const both = (age: number) => {
    bench.history = { events: [] };
    signaled(age, approvals);
    signaled(0, [anew]);
  };
  both(12 * HOUR);
  await refusesFence('NOT_APPROVED', renewed);
  both(9 * HOUR);
  await fences(renewed);
  Object.assign(gates, { promote });
});

it('if Temporal does not answer right before the promotion, no request was sent, and the outcome is known', async () => {
  silence();
  bench.limit({ promoteMs: 900 });
  bench.historyError = new Error('14 UNAVAILABLE');
  await refusesPromotion('TEMPORAL_UNAVAILABLE', { details: { next: holding('Check Temporal, then retry') } });
  bench.historyError = undefined;
});

it('with every sign present it is promoted once, and found promoted afterwards', async () => {
  silence();
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'done', calls: 1 });
  expect(await bench.call('promoteSecondary', promotion())).toMatchObject({ outcome: 'already', calls: 0 });
  expect(bench.calls('north', 'dr/secondary/promote')).toBe(1);
});
