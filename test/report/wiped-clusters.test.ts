import { reportOf } from '../../src/report/report-of-run';
import { RunBuilder } from './support/run-builder';

const BOTH = { deployment: 'payments', primary: 'east', secondary: 'west' };

/** A terminated onboarding, as far as it came. */
function leftToDo(enabled: object | undefined, watched?: object): string {
  const history = new RunBuilder().started('drSecondaryOnboarding', { deployment: 'payments' });
  const use = { type: 'enableSecondary', input: { kind: 'dr', ...BOTH }, scheduledAt: 300 };
  history.activity(enabled ? { ...use, endedAt: 400, result: enabled } : use);
  if (watched)
    history.activity({ type: 'followBootstrap', input: BOTH, scheduledAt: 500, endedAt: 600, result: watched });
  return reportOf(history.terminated(900, 'x').build()).leftToDo.join('\n');
}

const DONE = { outcome: 'done', observed: 'west: DR secondary', calls: 1, confirmedAt: 1 };

describe('a terminated onboarding', () => {
  it('says that a cluster was wiped, or may have been, until it was seen streaming', () => {
    expect(leftToDo(DONE)).toContain('west was enabled as DR secondary of east and was not seen streaming');
    expect(leftToDo(undefined)).toContain('west was enabled as DR secondary of east, or was about to be, and was not');
    expect(leftToDo(DONE, { verdict: 'sealed' })).toContain('unseal its nodes with key shares of east');
    expect(leftToDo(DONE, { verdict: 'streaming' })).not.toContain('west');
  });
});
