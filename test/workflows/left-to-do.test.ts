/** What people have to do where a run ends during a change, told before the change is ordered: so also where it is terminated. */
import { ApplicationFailure } from '@temporalio/common';
import * as workflows from '../../workflows';
import type { RunbookName } from '../../src/contracts/names';
import { stepFailure } from '../../workflows/engine/failures';
import type { Run } from '../../workflows/engine/run';
import { approvePlan } from '../../workflows/procedures/approved-plan';
import { fenceOf, followingOf, pointingOf } from '../../workflows/procedures/roles';
import { fakeRun } from '../support/fake-run';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  workflowInfo: () => ({ runId: 'f3a1c0de-0000-4000-8000-000000000001' }),
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

const LOST = ApplicationFailure.create({
  type: 'OUTCOME_UNKNOWN',
  message: 'lost',
  details: [{ outcomeKnown: false }],
});
const DENIED = stepFailure('PERMISSION_DENIED', 'no');
/** What every activity of these tests gives. */
const DONE = {
  outcome: 'done',
  observed: 'seen',
  observations: [],
  following: [],
  nodes: [],
  equal: true,
  verdict: 'streaming',
  loss: 'none',
};

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
) {
  const { run, left, leftAt, end } = fakeRun({ calls, otherwise: DONE });
  for (const about of already) left.add(`already: ${about}`, about);
  mockRun = run;
  const approvals = {
    authority: {},
    further: () => Promise.resolve(),
    begin: (_gate: string, carryOut: (authority: object) => unknown) => carryOut({}),
  };
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
  return { leftAt, atTheEnd };
}

const decommission = (kind: string, afterwards: string): Case => ({
  runbook: 'secondaryDecommission',
  input: { kind },
  route: { primary: 'east', id: 'id-west', secondary: 'west', known: true, afterwards },
});
const teardown = (kind: string, role: string): Case => ({
  runbook: 'replicationTeardown',
  input: { kind, cluster: 'west' },
  route: { cluster: 'west', role, cutOff: [] },
});
const onboarding: Case = {
  runbook: 'drSecondaryOnboarding',
  route: { kind: 'dr', primary: 'east', secondary: 'west', id: 'id-west', enablesPrimary: true },
};

describe('a change whose outcome nobody knows is told, however the run ended', () => {
  it.each([
    ['revokeSecondary', decommission('dr', 'nothing'), 'west on east may have been revoked: read known_secondaries'],
    [
      'forgetPrimary',
      decommission('performance', 'forget-primary'),
      'west may have been made to forget its performance',
    ],
    ['disableSecondary', decommission('dr', 'disable'), 'west may have been disabled as DR secondary: read sys'],
    ['disableSecondary', teardown('dr', 'secondary'), 'west may have been disabled as DR secondary: read sys'],
    ['disablePrimary', teardown('performance', 'primary'), 'west may have been disabled as performance primary'],
    [
      'enablePrimary',
      { runbook: 'primaryEnablement', input: { kind: 'dr', cluster: 'west' }, route: {} },
      'west may have been made DR primary: read sys/replication/dr/status of it',
    ],
    [
      'writePathsFilter',
      {
        runbook: 'filterReconciliation',
        route: {
          primary: 'west',
          secondaries: [],
          changes: [{ secondary: 'asia', id: 'x', before: 'none', wanted: {} }],
        },
      },
      'The paths filter of x on west may have been written',
    ],
    [
      'updatePrimary',
      { runbook: 'secondaryRepointing', route: { kind: 'dr', form: 'token', primary: 'east', secondary: 'west' } },
      'west may have been pointed at east (DR): read sys/replication/dr/status of it',
    ],
  ] as readonly (readonly [string, Case, string])[])('%s', async (activity, run, text) => {
    const lost = await leftOf(run, { [activity]: () => Promise.reject(LOST) });
    expect(lost.leftAt[activity]).toContain(text);
    expect(lost.atTheEnd).toContain(text);
    for (const answer of [() => Promise.reject(DENIED), () => Promise.resolve(DONE)])
      expect((await leftOf(run, { [activity]: answer })).atTheEnd).not.toContain('may have been');
  });
});

it('an onboarding says what it prepared, and that a cluster may be wiped until it was seen streaming', async () => {
  const { leftAt, atTheEnd } = await leftOf(onboarding, {});
  const inVain = 'east was made DR primary and nothing was connected to it';
  expect(leftAt['enableSecondary']).not.toContain(inVain);
  expect(leftAt['enableSecondary']).toContain('west was not seen streaming: read its DR status');
  expect(leftAt['followBootstrap']).toContain('unseal its nodes with key shares of east');
  expect(leftAt['followBootstrap']).not.toContain(inVain);
  expect(atTheEnd).toBe('');
  const refused = await leftOf(onboarding, { enableSecondary: () => Promise.reject(DENIED) });
  expect(refused.atTheEnd).toContain(inVain);
  const lost = await leftOf(onboarding, { enableSecondary: () => Promise.reject(LOST) });
  expect(lost.atTheEnd).not.toContain(inVain);
});

it('a secondary that was cut off is told until it is settled on its side', async () => {
  const { leftAt, atTheEnd } = await leftOf(decommission('dr', 'disable'), {});
  expect(leftAt['disableSecondary']).toContain('west is still a DR secondary with a copy of the data');
  expect(atTheEnd).toBe('');
});

describe('a change of the primary', () => {
  const planned = {
    from: 'east',
    to: 'west',
    quiesce: 'quota',
    rejoin: true,
    candidate: { cluster: 'west' },
    others: [],
  };
  const switchover: Case = {
    runbook: 'drSwitchover',
    route: { ...planned, otherDrSecondaries: ['north'], performanceSecondaries: ['branch'] },
  };
  const UNSEEN = 'became primary, but was not seen to serve';

  it('tells at each step who is primary as far as the run knows, whom it holds, and who does not follow', async () => {
    const { leftAt } = await leftOf(switchover, { readQuotas: () => Promise.resolve({ exempt: [] }) });
    expect(leftAt['quiesceByQuota']).toContain('vault delete sys/quotas/rate-limit/runbooks-');
    expect(leftAt['writeMarker']).not.toContain('primary');
    expect(leftAt['demotePrimary']).toMatch(/^The demotion of east was under way and its outcome was not recorded/);
    expect(leftAt['compareAfterDemotion']).toMatch(
      /^Read sys\/replication\/dr\/status of both first: east is demoted and nothing was promoted: clients have no primary/,
    );
    expect(leftAt['promoteSecondary']).toMatch(/^The promotion of west was under way and its outcome was not recorded/);
    expect(leftAt['awaitServiceReady']).toMatch(new RegExp(`^west ${UNSEEN}`));
    expect(leftAt['releaseQuota']).toContain('vault delete');
    for (const text of [
      'east does not follow west',
      'north does not follow west',
      'branch was not seen following west',
    ])
      expect(leftAt['proveWrite']).toContain(text);
    expect(leftAt['proveWrite']).not.toMatch(/not seen to serve|vault delete/);
    expect(leftAt['readDeployment']).toBe(
      leftAt['proveWrite']?.split('\n').find((text) => text.startsWith('branch was not seen')),
    );
  });

  it.each([
    ['was done', {}],
    [
      'was not seen to serve',
      { awaitServiceReady: () => Promise.reject(DENIED), proveWrite: () => Promise.reject(DENIED) },
    ],
  ])('of a switchover that %s, and of the failover after it: the later one counts', async (_how, seen) => {
    const answers = [() => Promise.resolve(DONE), () => Promise.reject(LOST)];
    const calls = {
      ...seen,
      readQuotas: () => Promise.resolve({ exempt: [] }),
      promoteSecondary: () => answers.shift()?.(),
    };
    const lost = {
      from: 'west',
      to: 'east',
      otherDrSecondaries: [],
      silentDrSecondaries: [],
      performanceSecondaries: [],
    };
    const failover: Case = { runbook: 'drFailover', route: { ...planned, ...lost } };
    const { atTheEnd } = await leftOf(failover, calls, [switchover]);
    expect(atTheEnd).toMatch(/^The promotion of east was under way .*, and keep west fenced/);
    expect(atTheEnd).not.toMatch(/promotion of west|west became primary/);
  });

  it('of performance replication: speaks of its primary, and never of DR operation tokens', async () => {
    const run: Case = {
      runbook: 'performancePromotion',
      input: { mode: 'planned' },
      route: { ...planned, silent: [] },
    };
    const calls = { readQuotas: () => Promise.resolve({ exempt: [] }) };
    const { leftAt } = await leftOf(run, calls);
    expect(leftAt['compareAfterDemotion']).toContain('no cluster is performance primary. Promote east back');
    expect(leftAt['promoteSecondary']).toContain('Only one of them may be performance primary');
    expect(Object.values(leftAt).join()).not.toMatch(/DR operation token|Rejoin/);
  });

  it.each(['drFailover', 'performancePromotion'] as const)(
    '%s of a primary that is gone: it stays fenced',
    async (runbook) => {
      const route = { ...planned, otherDrSecondaries: [], silentDrSecondaries: ['south'], performanceSecondaries: [] };
      const unplanned = { runbook, input: { mode: 'unplanned' }, route: { ...route, mode: 'unplanned', silent: [] } };
      const { leftAt, atTheEnd } = await leftOf(unplanned, { promoteSecondary: () => Promise.reject(LOST) });
      for (const text of [leftAt['promoteSecondary'], atTheEnd])
        expect(text).toMatch(/The promotion of west was under way .*, and keep east fenced/);
      const promoted = await leftOf(unplanned, {});
      expect(promoted.leftAt['awaitServiceReady']).toContain(`west ${UNSEEN}`);
      expect(promoted.leftAt['awaitServiceReady']).toMatch(/[Kk]eep east .*Rejoin/);
      expect(promoted.atTheEnd).not.toContain(UNSEEN);
      expect(promoted.atTheEnd).toMatch(/[Kk]eep east .*Rejoin/);

      // Nobody is told to point the new primary at another one, or to keep it fenced.
      const abouts = (cluster: string) => [followingOf(cluster), pointingOf(cluster), fenceOf(cluster)];
      const already = [...abouts('west'), ...abouts('lake')];
      const takenOver = await leftOf(unplanned, { promoteSecondary: () => Promise.reject(DENIED) }, [], already);
      expect(takenOver.leftAt['promoteSecondary']?.match(/already: .* west/g)).toHaveLength(3);
      const serving = (await leftOf(unplanned, {}, [], already)).leftAt['awaitServiceReady'];
      expect(serving).not.toMatch(/already: .* west/);
      expect(serving?.match(/already: .* lake/g)).toHaveLength(3);
    },
  );
});
