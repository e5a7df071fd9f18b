/**
 * What people have to do where a run ends during a change, told before the change is ordered: so also where it is
 * terminated. And whom such a run keeps out: clients are let through where a cluster is known to serve.
 */
import { ApplicationFailure } from '@temporalio/common';
import * as workflows from '../../workflows';
import type { RunbookName } from '../../src/contracts/names';
import type { ClusterObservation } from '../../src/contracts/observations';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { OutageDecision, RunStopped, stepFailure } from '../../workflows/engine/failures';
import type { StepOptions } from '../../workflows/engine/parking';
import type { Run } from '../../workflows/engine/run';
import { approvePlan } from '../../workflows/procedures/approved-plan';
import { quiesceClients, releaseClients } from '../../workflows/procedures/held-clients';
import { fenceOf, followingOf, pointingOf } from '../../workflows/procedures/roles';
import { serviceBack } from '../../workflows/procedures/service-back';
import { fakeRun } from '../support/fake-run';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  workflowInfo: () => ({ runId: 'f3a1c0de-0000-4000-8000-000000000001' }),
  metricMeter: { createHistogram: () => ({ record: () => undefined }) },
}));
jest.mock('../../workflows/procedures/approved-plan', () => ({
  ...jest.requireActual<object>('../../workflows/procedures/approved-plan'),
  approvePlan: jest.fn(),
}));
let mockRun: Run;
jest.mock('../../workflows/engine/runbook', () => {
  type Body = (run: Run, input: unknown) => Promise<unknown>;
  const runbook = (_name: string, body: Body) => (input: unknown) => body(mockRun, input);
  return { runbook, runbookInParts: runbook };
});

const unknown = { type: 'OUTCOME_UNKNOWN', message: 'lost', details: [{ outcomeKnown: false }] };
const lost = () => Promise.reject(ApplicationFailure.create(unknown));
const left = () => Promise.reject(new OutageDecision('leave'));
const denied = () => Promise.reject(stepFailure('PERMISSION_DENIED', 'no'));
/** What every activity of these tests gives. */
const DONE = {
  ...{ outcome: 'done', observed: 'seen', verdict: 'streaming', loss: 'none', equal: true },
  ...{ observations: [], following: [], nodes: [] },
};

const APPROVED = { authority: {}, begin: (_gate: string, body: (authority: object) => unknown) => body({}) };

type Case = { readonly runbook: RunbookName; readonly input?: object; readonly route: object };

/**
 * The run as far as it comes, with what is left where each activity is ordered, and at its end.
 *
 * @param before - what it was before it was taken over
 * @param already - of what something is left when it begins
 */
async function leftOf(
  last: Case,
  calls: Readonly<Record<string, unknown>>,
  before: readonly Case[] = [],
  already: readonly string[] = [],
  further: () => Promise<void> = () => Promise.resolve(),
) {
  const { run, left, leftAt, waiting, waited, end } = fakeRun({ calls, otherwise: DONE });
  for (const about of already) left.add(`already: ${about}`, about);
  mockRun = run;
  const approvals = { ...APPROVED, further };
  const tokens = {
    ...{ of: () => Promise.resolve({}), ofUnlessSkipped: () => Promise.resolve({}) },
    ...{ dispose: () => Promise.resolve(), covers: () => true, lastsFor: () => true },
  };
  const hooks = { traffic: false, probe: false };
  for (const { runbook, input, route } of [...before, last]) {
    jest.mocked(approvePlan).mockResolvedValue({ route: { hooks, ...route }, approvals, tokens } as never);
    await workflows[runbook]({ deployment: 'payments', ...input }).catch(() => undefined);
  }
  const atTheEnd = left.texts.join('\n');
  await end();
  // What people are to start is taken as it is printed.
  for (const text of [...Object.values(leftAt), atTheEnd])
    for (const [, name = '', json = ''] of text.matchAll(/`runbook start (\w+) --input '([^']*)'`/g))
      expect(RUNBOOK_INPUTS[name as RunbookName].safeParse(JSON.parse(json)).error?.issues ?? []).toEqual([]);
  return { leftAt, atTheEnd, waiting, waited };
}

const runOf = (runbook: RunbookName, route: object, input: object = {}): Case => ({ runbook, route, input });
const decommission = (kind: string, afterwards: string) => {
  const route = { primary: 'east', id: 'id-west', secondary: 'west', known: true, afterwards };
  return runOf('secondaryDecommission', route, { kind });
};
const teardown = (kind: string, role: string) =>
  runOf('replicationTeardown', { cluster: 'west', role, cutOff: [] }, { kind, cluster: 'west' });
const changes = [{ secondary: 'asia', id: 'x', before: 'none', wanted: {} }];
const filter = runOf('filterReconciliation', { primary: 'west', secondaries: [], changes });
const enablement = runOf('primaryEnablement', {}, { kind: 'dr', cluster: 'west' });
const secondary = { kind: 'dr', primary: 'east', secondary: 'west' };
const repointing = runOf('secondaryRepointing', { ...secondary, form: 'token' });
const onboarding = runOf('drSecondaryOnboarding', { ...secondary, id: 'id-west', enablesPrimary: true });

describe('a change whose outcome is unknown is reported, however the run ended', () => {
  it.each([
    ['revokeSecondary', decommission('dr', 'nothing'), 'west on east may have been revoked. Read known_secondaries'],
    [
      'forgetPrimary',
      decommission('performance', 'forget-primary'),
      'The performance primary of west may have been removed',
    ],
    ['disableSecondary', decommission('dr', 'disable'), 'west may have been disabled as DR secondary. Read its sys'],
    ['disableSecondary', teardown('dr', 'secondary'), 'west may have been disabled as DR secondary. Read its sys'],
    ['disablePrimary', teardown('performance', 'primary'), 'west may have been disabled as performance primary'],
    ['enablePrimary', enablement, 'west may have been made DR primary. Read its sys/replication/dr/status'],
    ['writePathsFilter', filter, 'The paths filter of x on west may have been changed'],
    ['updatePrimary', repointing, 'west may have been pointed at east (DR). Read its sys/replication/dr/status'],
  ])('%s', async (activity, run, text) => {
    const { leftAt, atTheEnd } = await leftOf(run, { [activity]: lost });
    expect(leftAt[activity]).toContain(text);
    expect(atTheEnd).toContain(text);
    for (const answer of [denied, () => Promise.resolve(DONE)])
      expect((await leftOf(run, { [activity]: answer })).atTheEnd).not.toContain('may have been');
  });
});

it('an onboarding reports its preparations, and that a cluster may be wiped until it is confirmed to stream', async () => {
  const { leftAt, atTheEnd } = await leftOf(onboarding, {});
  const inVain = 'east became DR primary and no secondary was connected to it';
  expect(leftAt['enableSecondary']).not.toContain(inVain);
  expect(leftAt['enableSecondary']).toContain('west has not been confirmed to stream. Read its DR status');
  expect(leftAt['followBootstrap']).toContain('unseal its nodes with key shares of east');
  expect(leftAt['followBootstrap']).not.toContain(inVain);
  // It is wiped by then.
  expect(leftAt['enableSecondary']).not.toContain('The credential of west in the inventory is void');
  expect(leftAt['followBootstrap']).toContain('The credential of west in the inventory is void');
  for (const over of [inVain, 'has not been confirmed to stream']) expect(atTheEnd).not.toContain(over);
  // Each standby was seen sealed and then unsealed, or people hear what to do.
  const nodes = ['https://a:8200', 'https://b:8200'];
  const enableSecondary = () => Promise.resolve({ ...DONE, nodes });
  const ended = async (followBootstrap: () => Promise<unknown>) =>
    (await leftOf(onboarding, { enableSecondary, followBootstrap })).atTheEnd;
  const command =
    'Unseal a sealed node with key shares of east (restart it if it unseals itself): `VAULT_ADDR=https://a:8200 vault operator unseal`';
  expect(await ended(() => Promise.resolve({ ...DONE, sealsSeen: false }))).toContain(command);
  expect(await ended(denied)).toContain(command);
  expect(await ended(() => Promise.resolve({ ...DONE, sealsSeen: true }))).not.toContain('vault operator unseal');
  expect((await leftOf(onboarding, { enableSecondary: denied })).atTheEnd).toContain(inVain);
  // An answer that was lost: the next attempt finds it enabled.
  const found = { enablePrimary: () => Promise.resolve({ ...DONE, outcome: 'already' }) };
  expect((await leftOf(onboarding, { ...found, enableSecondary: denied })).atTheEnd).toContain(inVain);
  expect((await leftOf(onboarding, { enableSecondary: lost })).atTheEnd).not.toContain(inVain);
});

it.each<[string, Case]>([
  ['rejoin', runOf('drRejoin', { kind: 'dr', cluster: 'east', primary: 'west', former: 'secondary' })],
  ['onboarding', onboarding],
])('once a run is ordered to end no one is asked to act any more: %s', async (_what, asked) => {
  const rejected = () => Promise.reject(new RunStopped('grace', 'rejected'));
  const seen = () => Promise.resolve({ ...DONE, at: 0, silentNodes: 1 });
  const calls = { checkFormerPrimaryDemoted: seen, followBootstrap: rejected };
  const { waited, waiting } = await leftOf(asked, calls, [], [], rejected);
  expect(waited).toEqual([expect.objectContaining({ for: 'action' })]);
  expect(waiting.size).toBe(0);
});

it('a secondary that was cut off is reported until it is settled on its side', async () => {
  const { leftAt, atTheEnd } = await leftOf(decommission('dr', 'disable'), {});
  expect(leftAt['disableSecondary']).toContain('west is still a DR secondary with a copy of the data');
  expect(atTheEnd).toBe('');
});

describe('a change of the primary', () => {
  const nobody = {
    others: [],
    otherDrSecondaries: [],
    silentDrSecondaries: [],
    performanceSecondaries: [],
    silent: [],
  };
  const planned = {
    ...nobody,
    from: 'east',
    to: 'west',
    quiesce: 'quota',
    rejoin: true,
    candidate: { cluster: 'west' },
  };
  const followers = { otherDrSecondaries: ['north'], performanceSecondaries: ['branch'], silent: ['south'] };
  const switchover = runOf('drSwitchover', { ...planned, ...followers });
  const readQuotas = () => Promise.resolve({ exempt: [] });
  const UNSEEN = 'became primary, but has not been confirmed to serve';

  it('reports at each step who is primary according to the run, whom it holds, and who does not follow', async () => {
    const { leftAt } = await leftOf(switchover, { readQuotas });
    expect(leftAt['quiesceByQuota']).toContain('vault delete sys/quotas/rate-limit/runbooks-');
    expect(leftAt['writeMarker']).not.toContain('primary');
    expect(leftAt['demotePrimary']).toMatch(/^The demotion of east was under way and its outcome is unknown/);
    expect(leftAt['compareAfterDemotion']).toMatch(
      /^Read sys\/replication\/dr\/status of both clusters first. east is demoted and no cluster was promoted: clients have no primary/,
    );
    expect(leftAt['promoteSecondary']).toMatch(/^The promotion of west was under way and its outcome is unknown/);
    expect(leftAt['awaitServiceReady']).toMatch(new RegExp(`^west ${UNSEEN}`));
    expect(leftAt['releaseQuota']).toContain('vault delete');
    for (const each of ['east', 'north', 'branch'])
      expect(leftAt['proveWrite']).toContain(`${each} has not been confirmed to follow west`);
    expect(leftAt['proveWrite']).not.toMatch(/not been confirmed to serve|vault delete/);
    const unseen = leftAt['proveWrite']
      ?.split('\n')
      .filter((text) => /^(branch has not been confirmed|south did not answer)/.test(text));
    expect(unseen).toHaveLength(2);
    expect(leftAt['readDeployment']?.split('\n')).toEqual(unseen);
  });

  it.each([
    ['was done', {}],
    ['has not been confirmed to serve', { awaitServiceReady: denied, proveWrite: denied }],
  ])('of a switchover that %s, and of the failover after it: the later one counts', async (_how, seen) => {
    const answers = [() => Promise.resolve(DONE), lost];
    const calls = { ...seen, readQuotas, promoteSecondary: () => answers.shift()?.() };
    const failover = runOf('drFailover', { ...planned, from: 'west', to: 'east' });
    const { atTheEnd } = await leftOf(failover, calls, [switchover]);
    expect(atTheEnd).toMatch(/^The promotion of east was under way .*, and keep west fenced/);
    expect(atTheEnd).not.toMatch(/promotion of west|west became primary/);
  });

  it.each([
    ['west', 'east'],
    ['east', 'west'],
  ])('that people left is reported with who serves, %s: %s is to follow it', async (serving, other) => {
    const dr = (cluster: string) => ({ cluster, dr: { mode: cluster === serving ? 'primary' : 'secondary' } });
    const readDeployment = () => Promise.resolve({ observations: ['east', 'west'].map(dr) });
    const { atTheEnd } = await leftOf(switchover, { readQuotas, readDeployment, promoteSecondary: left });
    for (const each of [other, 'north', 'branch'])
      expect(atTheEnd).toContain(`${each} has not been confirmed to follow ${serving}`);
    expect((await leftOf(switchover, { readQuotas, promoteSecondary: left })).atTheEnd).not.toContain(
      'not been confirmed to follow',
    );
  });

  it('of performance replication: speaks of its primary, and never of DR operation tokens', async () => {
    const { leftAt } = await leftOf(runOf('performancePromotion', planned, { mode: 'planned' }), { readQuotas });
    expect(leftAt['compareAfterDemotion']).toContain('no cluster is performance primary. Promote east back');
    expect(leftAt['promoteSecondary']).toContain('Only one of them may be performance primary');
    expect(Object.values(leftAt).join()).not.toMatch(/DR operation token|Rejoin/);
  });

  it.each(['drFailover', 'performancePromotion'] as const)(
    '%s of a primary that is gone: it stays fenced',
    async (runbook) => {
      const mode = { mode: 'unplanned' };
      const unplanned = runOf(runbook, { ...planned, silentDrSecondaries: ['south'], silent: ['asia'], ...mode }, mode);
      const { leftAt, atTheEnd } = await leftOf(unplanned, { promoteSecondary: lost });
      for (const text of [leftAt['promoteSecondary'], atTheEnd])
        expect(text).toMatch(/The promotion of west was under way .*, and keep east fenced/);
      const promoted = await leftOf(unplanned, {});
      expect(promoted.leftAt['awaitServiceReady']).toContain(`west ${UNSEEN}`);
      expect(promoted.leftAt['awaitServiceReady']).toMatch(/[Kk]eep east .*Rejoin/);
      expect(promoted.atTheEnd).not.toContain(UNSEEN);
      expect(promoted.atTheEnd).toMatch(/[Kk]eep east .*Rejoin.*"cluster":"east","primary":"west"/);
      expect(promoted.atTheEnd).toMatch(/^asia did not answer.*`runbook start secondaryRepointing .*"primary":"west"/m);

      // Nobody is told to point the new primary at another one, or to keep it fenced.
      const abouts = (cluster: string) => [followingOf(cluster), pointingOf(cluster), fenceOf(cluster)];
      const already = [...abouts('west'), ...abouts('lake')];
      const takenOver = await leftOf(unplanned, { promoteSecondary: denied }, [], already);
      expect(takenOver.leftAt['promoteSecondary']?.match(/already: .* west/g)).toHaveLength(3);
      const serving = (await leftOf(unplanned, {}, [], already)).leftAt['awaitServiceReady'];
      expect(serving).not.toMatch(/already: .* west/);
      expect(serving?.match(/already: .* lake/g)).toHaveLength(3);
    },
  );
});

type Mode = 'primary' | 'secondary' | 'silent';

/** A run that holds the clients of east by quota, and what the clusters say at its end. */
async function holdingClients(east: Mode, west: Mode, script: Parameters<typeof fakeRun>[0]) {
  const calls = {
    readQuotas: () => Promise.resolve({ exempt: ['sys/health'], auditLogging: false }),
    readDeployment: () =>
      Promise.resolve({
        observations: Object.entries({ east, west })
          .filter(([, mode]) => mode !== 'silent')
          .map(([cluster, mode]) => ({ cluster, dr: { mode } }) as unknown as ClusterObservation),
      }),
    ...script?.calls,
  };
  const faked = fakeRun({ ...script, calls, otherwise: {} });
  const route = { from: 'east', to: 'west', quiesce: 'quota', hooks: { release: false } } as const;
  const asked = { deployment: 'payments', kind: 'dr', route, approvals: APPROVED as never, gate: 'go' } as const;
  await quiesceClients(faked.run, asked);
  return faked;
}

/** What was released where when it ends, and whether something is left to do. */
async function endOf(outage: { outageSince?: number; serviceBackAt?: number }, east: Mode, west: Mode) {
  const released: unknown[] = [];
  const releaseQuota = ({ cluster }: { cluster: string }) => Promise.resolve(void released.push(cluster));
  const { left, end } = await holdingClients(east, west, { calls: { releaseQuota }, state: outage });
  await end();
  return { released, held: left.texts.length > 0 };
}

const out = { outageSince: 1 };
it.each([
  ['before an outage, whoever answers', {}, 'silent', 'silent', ['east']],
  ['a failover took the run over, and the old primary answers again', out, 'primary', 'secondary', ['east']],
  ['the candidate became primary', out, 'secondary', 'primary', ['west']],
  ['no cluster is primary', out, 'secondary', 'secondary', []],
  ['both say to be primary', out, 'primary', 'primary', []],
  ['the candidate, which may have been promoted, does not respond', out, 'primary', 'silent', []],
  ['service was back, and people skipped the release', { ...out, serviceBackAt: 2 }, 'secondary', 'primary', []],
] as const)('clients that a quota refuses at the end of a run: %s', async (_, outage, east, west, released) => {
  expect(await endOf(outage, east, west)).toEqual({ released, held: released.length === 0 });
});

it('a release that people skipped is left to do, until the run releases them at its end', async () => {
  const { run, left, end } = await holdingClients('secondary', 'primary', {
    state: out,
    run: {
      skippableStep: (name: string, effect: string, _body: unknown, { leftAs }: StepOptions) =>
        Promise.resolve(left.add(`${name} was skipped: ${effect}`, leftAs)),
    },
  });
  await releaseClients(run, { deployment: 'payments', from: 'east', to: 'west' });
  expect(left.texts).toEqual([expect.stringMatching(/^Release clients was skipped: .*vault delete/)]);
  await end();
  expect(left.texts).toEqual([]);
});

/** Service comes back at west: what it said of itself, and whether its quotas can be read; what was released, and told. */
async function back(ready: object | undefined, quotas: 'read' | 'refused' = 'read', held?: object) {
  const released: unknown[] = [];
  // Where it parked it would be thrown as it is.
  const failed = () => Promise.reject(stepFailure('UNREACHABLE', ''));
  const calls = {
    awaitServiceReady: () => (ready ? Promise.resolve(ready) : failed()),
    releaseQuota: ({ cluster }: { cluster: string }) =>
      quotas === 'read' ? Promise.resolve({ released: released.push(cluster) }) : failed(),
  };
  const { run, left } = fakeRun({ calls, run: { held } });
  const hooks = { traffic: false, probe: false };
  const west = { primary: 'west', from: 'east', credentialOf: 'east' };
  await serviceBack(run, { kind: 'dr', deployment: 'payments', hooks, ...west });
  return { released, told: left.texts.join('\n') };
}

it('a quota that came along to the new primary is deleted, also if that was not confirmed to serve', async () => {
  expect((await back({})).released).toEqual([]);
  expect((await back({ clientsRefused: 'by-quota' })).released).toEqual(['west']);
  expect((await back({ clientsRefused: 'not-known' })).released).toEqual(['west']);
  expect((await back(undefined)).released).toEqual(['west']);
  const quota = { by: 'quota', cluster: 'east', before: { exempt: [], auditLogging: false } };
  // Its own is deleted once.
  expect((await back(undefined, 'read', quota)).released).toEqual(['west']);
});

it('if that cannot be read either the run does not wait for people: open work has its command', async () => {
  for (const ready of [undefined, { clientsRefused: 'not-known' }])
    expect((await back(ready, 'refused')).told).toContain('vault delete sys/quotas/rate-limit/runbooks-');
});
