/** Re-attaching a DR secondary: public key, activation token and update-primary are one unit. */
import type { ActivationTokenResult, Authority } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { SimulatedCluster } from '../../src/simulator';
import { planDigest } from '../../activities/approvals/planning';
import { planDocument } from '../../activities/approvals/planning';
import { ActivityBench, DEPLOYMENT, drDemotion, drPromotion } from '../support/activity-environment';

const DR = '/v1/sys/replication/dr';
const ISSUE = `POST ${DR}/primary/secondary-token`;
const KEY = `POST ${DR}/secondary/generate-public-key`;
const UPDATE = `POST ${DR}/secondary/update-primary`;
const TO_WEST = { deployment: DEPLOYMENT, primary: 'west', secondary: 'east' } as const;

let bench: ActivityBench;
let token: OperationTokenReference;
let authority: Authority;
/** The roles after the switchover: west is primary, and east, demoted, knows nobody. */
let roles: readonly (readonly [cluster: string, role: ReturnType<SimulatedCluster['role']>])[];
let before: Readonly<Record<'update' | 'issue' | 'revoke', number>>;

beforeAll(async () => {
  const seal = { shares: 5, threshold: 3 };
  bench = await ActivityBench.start({
    topology: {
      clusters: [
        { name: 'east', nodes: 3, seal },
        { name: 'west', nodes: 1, seal },
      ],
      readings: { leaderChangeChance: 0 },
    },
  });
  authority = await bench.authority();
  const west = await bench.operationToken('west');
  await bench.call('demotePrimary', drDemotion(authority));
  await bench.call('promoteSecondary', drPromotion(west, authority));
  bench.service.advanceClock(1_000);
  roles = ['east', 'west'].map((name) => [name, bench.cluster(name).role('dr')] as const);
  token = await bench.operationToken('east');
});
beforeEach(() => {
  bench.service.faults.clear();
  for (const [name, role] of roles) bench.cluster(name).setRole('dr', role, bench.service.now());
  bench.cluster('east').leaderChange(0);
  bench.service.advanceClock(1_000);
  before = calls();
});
afterAll(async () => {
  expect(bench.leaks()).toEqual([]);
  await bench.stop();
});

const calls = () => ({
  update: bench.calls('east', 'secondary/update-primary'),
  issue: bench.calls('west', 'primary/secondary-token'),
  revoke: bench.calls('west', 'primary/revoke-secondary'),
});
/** Calls since the test began. */
const made = (which: keyof typeof before) => calls()[which] - before[which];
const issue = () =>
  bench.call('issueActivationToken', { use: 'update-primary', kind: 'dr', ...TO_WEST, token, authority });
const point = (activation: ActivationTokenResult) =>
  bench.call('updatePrimary', { kind: 'dr', ...TO_WEST, token, activation, authority });
const known = () => bench.cluster('west').snapshotState().dr.knownSecondaries;

it('by an encrypted token: issued, used once, and then it streams', async () => {
  const activation = await issue();
  expect(activation).toMatchObject({ form: 'encrypted', revokedBefore: false, id: bench.cluster('east').clusterId });
  expect(activation.keyNode).toBe(bench.cluster('east').addresses[0]);
  expect(await point(activation)).toMatchObject({ outcome: 'done', calls: 1 });
  const streaming = await bench.call('awaitDrStreaming', TO_WEST);
  expect(streaming.state).toBe('stream-wals');
  expect(streaming.observed).toContain('heartbeat');
  // What is done already is not done again.
  expect(await point(activation)).toMatchObject({ outcome: 'already', calls: 0 });
  expect(await issue()).toMatchObject({ form: 'none' });
  expect(made('update')).toBe(1);
  expect(made('issue')).toBe(1);
});

it('streaming counts with last_remote_wal 0 only where the Merkle roots are equal', async () => {
  await point(await issue());
  const streaming = await bench.call('awaitDrStreaming', TO_WEST);
  const east = bench.cluster('east').snapshotState().dr;
  const west = bench.cluster('west').snapshotState().dr;
  expect(east.merkleRoot).toBe(west.merkleRoot);
  expect(streaming.state).toBe('stream-wals');
  // Held back while the primary writes: connected, heartbeats, state stream-wals, and yet not caught up.
  bench.cluster('east').holdStream('dr', true);
  bench.cluster('west').write('secret/after', { a: 1 });
  bench.limit({ streamingMs: 900 });
  const failure = await bench.failure('awaitDrStreaming', TO_WEST);
  bench.limit();
  bench.cluster('east').holdStream('dr', false);
  expect(failure).toMatchObject({ code: 'CONFIRMATION_TIMEOUT', retryable: false });
});

it('by a wrapped token where the public key is refused', async () => {
  bench.service.faults.add({ cluster: 'east', endpoint: KEY, action: { status: 403 }, times: Infinity });
  const activation = await issue();
  expect(activation).toMatchObject({ form: 'wrapped' });
  expect(activation.keyNode).toBeUndefined();
  expect(await point(activation)).toMatchObject({ outcome: 'done', calls: 1 });
});

it('a lost answer leaves a token that nobody knows: its id is revoked and it is issued again', async () => {
  bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, action: 'lose-answer' });
  const activation = await issue();
  expect(activation.revokedBefore).toBe(true);
  expect(made('revoke')).toBe(1);
  expect(known()).toEqual([bench.cluster('east').clusterId]);
  expect(await point(activation)).toMatchObject({ outcome: 'done', calls: 1 });
});

it('412 and 500 for some seconds after a promotion are waited out', async () => {
  bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, action: { status: 412 } });
  bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, action: { status: 500 }, skip: 1 });
  expect((await issue()).form).toBe('encrypted');
  expect(made('issue')).toBe(3);
});

it('a token that is refused for certain is not asked for again', async () => {
  bench.service.faults.add({ cluster: 'west', endpoint: ISSUE, action: { status: 403 }, times: Infinity });
  expect(
    await bench.failure('issueActivationToken', { use: 'update-primary', kind: 'dr', ...TO_WEST, token, authority }),
  ).toMatchObject({
    code: 'PERMISSION_DENIED',
    retryable: false,
  });
  expect(made('issue')).toBe(1);
});

it('a leader change after the public key loses the private key: no call is made, the unit is done again', async () => {
  const activation = await issue();
  bench.cluster('east').leaderChange(1);
  bench.service.advanceClock(1_000);
  expect(await point(activation)).toMatchObject({ outcome: 'not-done', calls: 0 });
  expect(made('update')).toBe(0);
  const again = await issue();
  expect(again.revokedBefore).toBe(true);
  expect(await point(again)).toMatchObject({ outcome: 'done', calls: 1 });
});

it('update-primary whose answer is lost after its effect is not called again', async () => {
  bench.service.faults.add({ cluster: 'east', endpoint: UPDATE, action: 'lose-answer' });
  expect(await point(await issue())).toMatchObject({ outcome: 'done', calls: 1 });
  expect(made('update')).toBe(1);
});

it('a token that was used up elsewhere counts as lost, and the unit is done again', async () => {
  const activation = await issue();
  bench.service.faults.add({ cluster: 'east', endpoint: UPDATE, action: { status: 400 } });
  expect(await point(activation)).toMatchObject({ outcome: 'not-done', calls: 1 });
  expect(made('update')).toBe(1);
});

it('the id of a secondary that is connected now is never revoked', async () => {
  await point(await issue());
  await bench.call('awaitDrStreaming', TO_WEST);
  // East says that it knows nobody, while west sees it connected.
  const status = { data: { mode: 'secondary', state: 'idle', cluster_id: 'x', known_primary_cluster_addrs: [] } };
  bench.service.faults.add({
    cluster: 'east',
    endpoint: `GET ${DR}/status`,
    action: { status: 200, body: status },
    times: Infinity,
  });
  const failure = await bench.failure('issueActivationToken', {
    use: 'update-primary',
    kind: 'dr',
    ...TO_WEST,
    token,
    authority,
  });
  expect(failure).toMatchObject({ code: 'PRECONDITION_FAILED', retryable: false });
  expect(failure.details['observed']).toContain('connected');
  expect([made('revoke'), made('issue')]).toEqual([0, 1]);
});

it('without an approved plan that leads there nothing is issued, revoked or used, whatever token there is', async () => {
  const activation = await issue();
  const changes = bench.changes();
  const { plan, approvals } = authority;
  const [ofPlan, ofGo] = approvals;
  const altered = (more: object) => {
    const text = JSON.stringify({ ...(JSON.parse(plan.text) as object), ...more });
    return { text, digest: planDigest(text) };
  };
  const approved = async (other: Authority['plan']) => ({
    plan: other,
    approvals: [await bench.approval('plan', other.digest), await bench.approval('go', other.digest, 'henry')],
  });
  const operation = 'dr.secondary.repoint-by-token' as const;
  const identity = (cluster: string) => ({ cluster, clusterId: bench.cluster(cluster).clusterId });
  const own = (on: string, primary: string) =>
    planDocument({
      runbook: 'secondaryRepointing',
      input: { deployment: DEPLOYMENT, reason: 'a test' },
      clusters: [],
      operations: [{ operation, on: identity(on), with: identity(primary) }],
      steps: [],
    });
  const turned = own('west', 'east');
  const refused: readonly (readonly [why: string, Authority | undefined])[] = [
    ['none', undefined],
    ['no approvals', { plan, approvals: [] }],
    ['no go', { plan, approvals: [ofPlan] }],
    ['approvals of another plan', { plan: altered({ reason: 'another' }), approvals: [ofPlan, ofGo] }],
    ['east stays out', await approved(altered({ rejoin: false }))],
    [
      'another cluster of that name',
      await approved(altered({ from: { cluster: 'east', clusterId: 'x', version: '' } })),
    ],
    [
      'another gate',
      { plan: own('east', 'west'), approvals: [await bench.approval('plan', own('east', 'west').digest)] },
    ],
    ['the other way round', { plan: turned, approvals: [await bench.approval('repoint', turned.digest)] }],
  ];
  for (const [why, given] of refused) {
    // What a history holds need not be what the types say.
    const asked = { ...TO_WEST, token, authority: given as Authority };
    const failures = [
      await bench.failure('issueActivationToken', { use: 'update-primary', kind: 'dr', ...asked }),
      await bench.failure('updatePrimary', { kind: 'dr', ...asked, activation }),
    ];
    expect([why, ...failures.map(({ code }) => code)]).toEqual([why, 'NOT_APPROVED', 'NOT_APPROVED']);
  }
  expect(bench.changes()).toEqual(changes);
  const right = own('east', 'west');
  const repointing = { plan: right, approvals: [await bench.approval('repoint', right.digest)] };
  expect(
    await bench.call('updatePrimary', { kind: 'dr', ...TO_WEST, token, activation, authority: repointing }),
  ).toMatchObject({
    outcome: 'done',
  });
});

it('tokens of another run, cluster or use open nothing, and nothing is called', async () => {
  const activation = await issue();
  const changes = bench.changes();
  const otherRun = { ...bench.run, rid: '00000000-0000-4000-8000-000000000000' };
  const live = bench.cluster('east').issuedSecrets.at(-1) ?? '';
  const references: OperationTokenReference[] = [
    {
      source: 'sealed',
      cluster: 'east',
      value: await bench.sealOperationToken('east', live, ['dr.update-primary'], otherRun),
    },
    { source: 'sealed', cluster: 'east', value: await bench.sealOperationToken('east', live, ['dr.promote']) },
    { source: 'sealed', cluster: 'east', value: await bench.sealOperationToken('west', live, ['dr.update-primary']) },
    { source: 'sealed', cluster: 'west', value: await bench.sealOperationToken('east', live, ['dr.update-primary']) },
  ];
  for (const reference of references) {
    const failure = await bench.failure('updatePrimary', {
      kind: 'dr',
      ...TO_WEST,
      token: reference,
      activation,
      authority,
    });
    expect(failure).toMatchObject({ code: 'SEALED_VALUE_INVALID', retryable: false });
  }
  // An activation token that another primary issued is not used either.
  const turned = await bench.failure('updatePrimary', {
    kind: 'dr',
    deployment: DEPLOYMENT,
    primary: 'east',
    secondary: 'west',
    token,
    activation,
    authority,
  });
  expect(turned.code).toBe('PRECONDITION_FAILED');
  const batch = await bench.failure('updatePrimary', {
    kind: 'dr',
    ...TO_WEST,
    token: { source: 'batch', cluster: 'east' },
    activation,
    authority,
  });
  expect(batch.code).toBe('TOKEN_SOURCE_UNAVAILABLE');
  expect(bench.changes()).toEqual(changes);
});
