import type { ReportStep } from '../../src/contracts/report';
import { reportOf } from '../../src/report/report-of-run';
import type { ActivitySpecification } from './support/run-builder';
import { RunBuilder } from './support/run-builder';
import { finishedSwitchover, TIMES } from './support/switchover';
import { when } from './support/switchover-data';

const iso = (at: number): string => new Date(when(at)).toISOString();
const position = ({ number, name }: ReportStep): string => `${number} ${name}`;

describe('a run that was terminated', () => {
  const full = reportOf(finishedSwitchover().build());
  const times = finishedSwitchover()
    .times()
    .filter((at) => at < TIMES.closed);

  it.each(times)('at %d ms tells no step that the whole run does not have, and that no clean-up ran', (at) => {
    const report = reportOf(finishedSwitchover().terminatedAt(at, 'by mistake', 'mallory'));
    expect(report.outcome).toBe('terminated');
    expect(report.endedAt).toBe(iso(at + 1));
    expect(full.steps.map(position)).toEqual(expect.arrayContaining(report.steps.map(position)));
    expect(report.findings.find(({ code }) => code === 'run-terminated')?.text).toContain(
      'by mallory, reason given: by mistake. No clean-up ran.',
    );
    expect(report.outage !== undefined).toBe(at >= 65_000);
    // Service was ready before the probe began; while the probe runs it is not known that clients are served.
    expect(report.outage?.endedAt !== undefined).toBe(at === 73_050 || at >= 74_550);
    // A run that ended before it touched anything that outlives it leaves nothing.
    expect(report.leftToDo.length > 0).toBe(at >= 1_500);
  });

  const leftToDoAt = (at: number): string => reportOf(finishedSwitchover().terminatedAt(at)).leftToDo.join('\n');

  it('says what is known of the roles', () => {
    expect(leftToDoAt(64_800)).not.toContain('primary:');
    expect(leftToDoAt(66_000)).toContain('The demotion of east was under way');
    expect(leftToDoAt(67_000)).toContain('east is demoted and nothing was promoted: clients have no primary.');
    expect(leftToDoAt(68_000)).toContain('The promotion of west was under way');
    expect(leftToDoAt(70_000)).toContain('west was promoted, but was not seen to serve');
    expect(leftToDoAt(74_550)).not.toContain('was not seen to serve');
  });

  it('names what is not re-protected, and the tokens and keys that are left', () => {
    const left = leftToDoAt(76_500);
    expect(left).toContain('east was not seen streaming from west');
    expect(left).toContain('north was not seen streaming from west');
    expect(left).toContain('Performance secondary branch was not seen following west');
    expect(left).toContain('east may have been pointed at west (DR)');
    expect(left).toContain('A DR operation token of west was generated and is not proven deleted');
    expect(left).toContain('The keys of ceremony c-1, round 1 on key home home-1 were not destroyed');
    const last = leftToDoAt(87_000);
    expect(last).not.toContain('streaming');
    expect(last).not.toContain('ceremony');
    expect(last).toContain('The DR operation token of west was kept, sealed');
  });

  it('names whatever is critical, once', () => {
    const finding = { kind: 'finding', severity: 'critical', code: 'no-primary', next: 'Promote one.' } as const;
    const leftOf = (leftToDo: readonly string[]) =>
      reportOf(
        new RunBuilder()
          .started('drSwitchover', {})
          .fact({ ...finding, at: when(10), text: 'No cluster is primary.' })
          .ended(20, 'completed', { leftToDo })
          .build(),
      ).leftToDo;
    expect(leftOf([])).toEqual(['CRITICAL: No cluster is primary. Promote one.']);
    const own = ['No cluster is primary. Promote west.'];
    expect(leftOf(own)).toEqual(own);
  });

  it('names a corrupted tree until the run itself saw it sound', () => {
    const corrupted = { verdict: 'corrupted', text: 'The Merkle tree of west is corrupted.' };
    const critical = { kind: 'finding', severity: 'critical', code: 'merkle-tree-corrupted' } as const;
    const leftOf = (...later: readonly Pick<ActivitySpecification, 'result' | 'failure'>[]) => {
      const run = new RunBuilder().started('drReindex', {});
      run.fact({ ...critical, at: when(150), text: corrupted.text });
      [{ result: corrupted }, ...later].forEach((check, index) => {
        const at = 100 * (index + 1);
        run.activity({
          type: 'probeMerkleTree',
          input: WEST,
          ...check,
          scheduledAt: at,
          startedAt: at,
          endedAt: at + 50,
        });
      });
      return reportOf(run.ended(900, 'completed').build()).leftToDo;
    };
    const open = ['CRITICAL: The Merkle tree of west is corrupted.'];
    expect(leftOf()).toEqual(open);
    expect(leftOf({ failure: denied })).toEqual(open);
    expect(leftOf({ result: { verdict: 'not-available', text: 'It was not checked.' } })).toEqual(open);
    expect(leftOf({ result: corrupted })).toEqual(open);
    expect(leftOf({ result: { verdict: 'sound', text: 'The Merkle tree of west is sound.' } })).toEqual([]);
  });

  it('warns of a generation attempt that may be open', () => {
    expect(leftToDoAt(40_500)).toContain('A generation attempt on west may be open, or its token may exist');
    expect(leftToDoAt(40_500)).toContain('only if its fingerprint is AB12');
  });
});

type Change = Pick<ActivitySpecification, 'type' | 'input' | 'result' | 'failure'>;

/** What is left of a run that did this, one after the other; what has neither result nor failure was under way. */
function left(runbook: string, changes: readonly Change[], how: 'terminated' | 'aborted' = 'terminated'): string {
  return reportOf(runOf(runbook, changes, how)).leftToDo.join('\n');
}

function runOf(runbook: string, changes: readonly Change[], how: 'terminated' | 'aborted' = 'terminated') {
  const run = new RunBuilder().started(runbook, { deployment: 'payments' });
  changes.forEach((change, index) => {
    const at = 100 * (index + 1);
    const ended = change.result !== undefined || change.failure !== undefined;
    run.activity({ ...change, scheduledAt: at, startedAt: at, ...(ended && { endedAt: at + 50 }) });
  });
  const closed = how === 'aborted' ? run.ended(900, 'aborted') : run.terminated(900, 'no way on');
  return closed.build();
}

const lost = { code: 'OUTCOME_UNKNOWN', message: 'lost', outcomeKnown: false };
const denied = { code: 'PERMISSION_DENIED', message: 'no', outcomeKnown: true };
const done = { outcome: 'done', observed: 'seen', calls: 1, calledAt: when(101), confirmedAt: 1 };
const WEST = { deployment: 'payments', cluster: 'west' };
const REVOKED = { deployment: 'payments', cluster: 'east', id: 'id-west', secondary: 'west' };
const BOTH = { deployment: 'payments', primary: 'east', secondary: 'west' };
const UNDER_WAY = 'was under way and its outcome was not recorded';
const UNPROVEN = 'was not seen to serve';

describe('a promotion that was cut short', () => {
  const promotion = (kind: string, mode: string): Change => ({
    type: 'promoteSecondary',
    input: { ...WEST, kind, mode, otherCluster: 'east' },
  });
  const demotion: Change = { type: 'demotePrimary', input: { kind: 'performance', cluster: 'east' } };
  const serves: Change = { type: 'awaitServiceReady', input: WEST, result: { readyAt: when(500) } };

  it('of a failover: says what is known of it, and that the lost primary stays fenced', () => {
    const promote = promotion('dr', 'unplanned');
    expect(left('drFailover', [])).toBe('');
    const open = left('drFailover', [promote]);
    const promoted = left('drFailover', [{ ...promote, result: done }]);
    const served = left('drFailover', [{ ...promote, result: done }, serves]);
    expect(open).toContain(`The promotion of west ${UNDER_WAY}`);
    expect(promoted).toContain(UNPROVEN);
    expect(served).not.toContain(UNPROVEN);
    for (const text of [open, promoted, served]) expect(text).toMatch(/keep east fenced/i);
    // A switchover was done, and the failover that took its run over did not come to its end.
    const planned = { ...promotion('dr', 'planned'), result: done };
    expect(left('drFailover', [planned, serves, promote])).toContain(`The promotion of west ${UNDER_WAY}`);
  });

  it('of performance replication: speaks of its primary, and never of DR operation tokens', () => {
    const promote = promotion('performance', 'planned');
    const leftOf = (...changes: readonly Change[]) => left('performancePromotion', changes);
    const demoted = { ...demotion, result: done };
    expect(leftOf()).not.toContain('performance primary');
    expect(leftOf(demotion)).toContain(`The demotion of east ${UNDER_WAY}`);
    expect(leftOf(demoted)).toContain('no cluster is performance primary. Promote east back');
    expect(leftOf(demoted, promote)).toContain(`The promotion of west ${UNDER_WAY}`);
    expect(leftOf(demoted, promote)).not.toContain('DR operation token');
    expect(leftOf(demoted, { ...promote, result: done })).toContain(UNPROVEN);
    const all = leftOf(demoted, { ...promote, result: done }, serves);
    expect(all).toContain('which ones follow west');
    expect(all).not.toContain(UNPROVEN);
    expect(all).not.toContain('Rejoin');
    const unplanned = { ...promotion('performance', 'unplanned'), result: done };
    expect(leftOf(unplanned, serves)).toMatch(/Keep east fenced: .* Start performanceRejoin/);
  });
});

describe('a change whose outcome nobody knows is told, however the run ended', () => {
  it.each([
    ['revokeSecondary', 'dr', REVOKED, 'west on east may have been revoked: read known_secondaries'],
    ['forgetPrimary', 'performance', WEST, 'west may have been made to forget its performance primary'],
    ['disableSecondary', 'dr', WEST, 'west may have been disabled as DR secondary: read sys/replication/dr/status'],
    ['disablePrimary', 'performance', WEST, 'west may have been disabled as performance primary'],
    ['enablePrimary', 'dr', WEST, 'west may have been made DR primary: read sys/replication/dr/status of it'],
    ['writePathsFilter', '', { ...WEST, id: 'x' }, 'The paths filter of x on west may have been written'],
    ['updatePrimary', 'dr', BOTH, 'west may have been pointed at east (DR): read sys/replication/dr/status of it'],
  ])('%s %s', (type, kind, on, text) => {
    const input = { ...on, kind };
    for (const how of ['aborted', 'terminated'] as const) {
      const leftOf = (...tries: readonly Partial<Change>[]) =>
        left(
          'secondaryDecommission',
          tries.map((each) => ({ type, input, ...each })),
          how,
        );
      expect(leftOf({ failure: lost })).toContain(text);
      expect(leftOf({ failure: denied })).not.toContain('may have been');
      expect(leftOf({ failure: lost }, { result: done })).not.toContain('may have been');
    }
  });
});

it('a terminated onboarding says that a cluster was wiped, or may have been, until it was seen streaming', () => {
  const enable = { type: 'enableSecondary', input: { kind: 'dr', ...BOTH } };
  const followed = (verdict: string) => ({ type: 'followBootstrap', input: BOTH, result: { verdict } });
  const leftOf = (...changes: readonly Change[]) => left('drSecondaryOnboarding', changes);
  expect(leftOf({ ...enable, result: done })).toContain('west was enabled as DR secondary of east and was not seen');
  expect(leftOf(enable)).toContain('west was enabled as DR secondary of east, or was about to be, and was not');
  expect(leftOf({ ...enable, result: done }, followed('sealed'))).toContain('unseal its nodes with key shares of east');
  expect(leftOf({ ...enable, result: done }, followed('streaming'))).not.toContain('west');
});

it('what an onboarding prepared before its wipe is told where it came no further', () => {
  const prepared = { type: 'enablePrimary', input: { kind: 'dr', ...WEST }, result: done };
  for (const how of ['aborted', 'terminated'] as const)
    expect(left('drSecondaryOnboarding', [prepared], how)).toContain('west was made DR primary and nothing was');
  expect(left('primaryEnablement', [prepared], 'aborted')).toBe('');
  const found = { ...prepared, result: { ...done, outcome: 'already' } };
  expect(left('drSecondaryOnboarding', [found], 'aborted')).toBe('');
});

it('a terminated run that cut off a secondary says what is left on it', () => {
  const revoked = { type: 'revokeSecondary', input: { kind: 'dr', ...REVOKED }, result: done };
  expect(left('secondaryDecommission', [revoked])).toContain('west was revoked on east and still is a DR');
  const settled = { type: 'disableSecondary', input: { kind: 'dr', ...WEST }, result: done };
  expect(left('secondaryDecommission', [revoked, settled])).toBe('');
});

it('a terminated run names the quota with which it refused clients until that was deleted', () => {
  const held = { type: 'quiesceByQuota', input: { kind: 'dr', deployment: 'payments', cluster: 'east' } };
  const released = { type: 'releaseQuota', input: WEST };
  const quota = 'vault delete sys/quotas/rate-limit/runbooks-0c1d-run';
  const leftOf = (...changes: readonly Change[]) => left('drSwitchover', changes);
  for (const open of [[held], [{ ...held, result: done }], [{ ...held, result: done }, released]])
    expect(leftOf(...open)).toContain(quota);
  expect(leftOf({ ...held, failure: denied })).toBe('');
  expect(leftOf({ ...held, result: done }, { ...released, result: done })).toBe('');
});

describe('a token that the run had, however it came by it', () => {
  const taken = { type: 'takeKeptToken', input: WEST, result: { token: 'eyJ.sealed', observed: 'kept' } };
  const given = { type: 'takeProvidedTokens', result: { verdicts: [{ cluster: 'west', token: 'eyJ.sealed' }] } };
  const probed = { type: 'probeProvidedToken', input: WEST, result: { state: 'refused' } };
  const generating = { type: 'completeGeneration', input: { ...WEST, wanted: { kind: 'operation-token' } } };
  const disposals = [{ cluster: 'west', state: 'deleted', text: 'deleted' }];
  const deleted = { type: 'deleteOperationTokens', input: {}, result: { disposals } };

  it.each([
    ['taken from the record', [taken], 'was taken from the record and is not proven deleted'],
    ['given by a person', [given], 'was given by a person and is not proven deleted'],
    ['may have been generated', [generating], 'A generation attempt on west may be open, or its token may exist'],
  ] as const)('%s: it is left to do, and in the report, until it is proven deleted', (_how, changes, text) => {
    const states = (more: readonly Change[]) => reportOf(runOf('drSwitchover', more)).tokens.map(({ state }) => state);
    expect(left('drSwitchover', changes)).toContain(text);
    expect(states(changes)).toEqual(['unproven']);
    expect(states([...changes, deleted])).toEqual(['deleted']);
  });

  it('is none where its cluster refused what a person gave', () => {
    expect(left('drSwitchover', [given, probed])).toBe('');
    expect(left('drSwitchover', [given, probed, given])).toContain('was given by a person');
  });
});
