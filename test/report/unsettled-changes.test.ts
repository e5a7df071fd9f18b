import { reportOf } from '../../src/report/report-of-run';
import type { ActivitySpecification } from './support/run-builder';
import { RunBuilder } from './support/run-builder';

type Change = Pick<ActivitySpecification, 'type' | 'input' | 'result' | 'failure'>;

const lost = { code: 'OUTCOME_UNKNOWN', message: 'lost', outcomeKnown: false };
const denied = { code: 'PERMISSION_DENIED', message: 'no', outcomeKnown: true };
const done = { outcome: 'done', observed: 'seen', calls: 1, confirmedAt: 1 };
const WEST = { deployment: 'payments', cluster: 'west' };
const REVOKED = { deployment: 'payments', cluster: 'east', id: 'id-west', secondary: 'west' };

/** What is left of a run that made these changes: aborted by itself where it says `leftToDo`, terminated where not. */
function left(runbook: string, changes: readonly Change[], aborted: boolean): string {
  const history = new RunBuilder().started(runbook, { deployment: 'payments' });
  changes.forEach((change, index) => {
    const at = 100 * (index + 1);
    history.activity({ ...change, scheduledAt: at, endedAt: at + 50 });
  });
  const ended = aborted ? history.ended(900, 'aborted') : history.terminated(900, 'no way on');
  return reportOf(ended.build()).leftToDo.join('\n');
}

describe('a change whose outcome nobody knows is told, however the run ended', () => {
  it.each([
    ['revokeSecondary', 'dr', REVOKED, 'west on east may have been revoked: read known_secondaries'],
    ['forgetPrimary', 'performance', WEST, 'west may have been made to forget its performance primary'],
    ['disableSecondary', 'dr', WEST, 'west may have been disabled as DR secondary: read sys/replication/dr/status'],
    ['disablePrimary', 'performance', WEST, 'west may have been disabled as performance primary'],
    ['enablePrimary', 'dr', WEST, 'west may have been made DR primary: read sys/replication/dr/status of it'],
    ['writePathsFilter', '', { ...WEST, id: 'x' }, 'The paths filter of x on west may have been written'],
    [
      'updatePrimary',
      'dr',
      { deployment: 'payments', primary: 'east', secondary: 'west' },
      'west may have been pointed at east (DR): read sys/replication/dr/status of it',
    ],
  ])('%s %s', (type, kind, on, text) => {
    const input = { ...on, kind };
    for (const aborted of [true, false]) {
      expect(left('secondaryDecommission', [{ type, input, failure: lost }], aborted)).toContain(text);
      expect(left('secondaryDecommission', [{ type, input, failure: denied }], aborted)).not.toContain('may have been');
      const retried = [
        { type, input, failure: lost },
        { type, input, result: done },
      ];
      expect(left('secondaryDecommission', retried, aborted)).not.toContain('may have been');
    }
  });
});

it('what an onboarding prepared before its wipe is told where it came no further', () => {
  const prepared = [{ type: 'enablePrimary', input: { kind: 'dr', ...WEST }, result: done }];
  for (const aborted of [true, false])
    expect(left('drSecondaryOnboarding', prepared, aborted)).toContain('west was made DR primary and nothing was');
  expect(left('primaryEnablement', prepared, true)).toBe('');
  const found = [{ type: 'enablePrimary', input: { kind: 'dr', ...WEST }, result: { ...done, outcome: 'already' } }];
  expect(left('drSecondaryOnboarding', found, true)).toBe('');
});

it('a terminated run that cut off a secondary says what is left on it', () => {
  const revoked = { type: 'revokeSecondary', input: { kind: 'dr', ...REVOKED }, result: done };
  expect(left('secondaryDecommission', [revoked], false)).toContain('west was revoked on east and still is a DR');
  const settled = { type: 'disableSecondary', input: { kind: 'dr', ...WEST }, result: done };
  expect(left('secondaryDecommission', [revoked, settled], false)).toBe('');
});
