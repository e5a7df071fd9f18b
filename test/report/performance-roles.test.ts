import { reportOf } from '../../src/report/report-of-run';
import { RunBuilder } from './support/run-builder';

const DEMOTED = { outcome: 'done', observed: 'secondary', calledAt: 1, confirmedAt: 2, calls: 1 };

/** A promotion of europe in place of east that was terminated after what is given. */
function leftToDo(...activities: Parameters<RunBuilder['activity']>[0][]): string {
  const builder = new RunBuilder().started('performancePromotion', { deployment: 'payments', to: 'europe' });
  for (const each of activities) builder.activity(each);
  return reportOf(builder.terminated(9_000, 'x').build()).leftToDo.join('\n');
}

const demotion = (endedAt?: number) => ({
  type: 'demotePrimary',
  input: { kind: 'performance', cluster: 'east' },
  scheduledAt: 1_000,
  startedAt: 1_001,
  ...(endedAt === undefined ? {} : { endedAt, result: DEMOTED }),
});
const promotion = (endedAt?: number) => ({
  type: 'promoteSecondary',
  input: { kind: 'performance', cluster: 'europe', otherCluster: 'east' },
  scheduledAt: 3_000,
  startedAt: 3_001,
  ...(endedAt === undefined ? {} : { endedAt, result: DEMOTED }),
});
const served = {
  type: 'awaitServiceReady',
  input: { cluster: 'europe' },
  scheduledAt: 5_000,
  startedAt: 5_001,
  endedAt: 6_000,
  result: { readyAt: 6_000 },
};

describe('what is left of a performance promotion that was terminated', () => {
  it('speaks of the performance primary, and never of DR operation tokens', () => {
    expect(leftToDo()).not.toContain('performance primary');
    expect(leftToDo(demotion())).toContain('The demotion of east was under way');
    expect(leftToDo(demotion(2_000))).toContain('no cluster is performance primary. Promote east back');
    expect(leftToDo(demotion(2_000), promotion())).toContain('The promotion of europe was under way');
    expect(leftToDo(demotion(2_000), promotion(4_000))).toContain('no write on it was confirmed');
    const all = leftToDo(demotion(2_000), promotion(4_000), served);
    expect(all).toContain('which ones follow europe');
    expect(all).not.toContain('no write on it was confirmed');
    expect(leftToDo(demotion(2_000), promotion())).not.toContain('DR operation token');
  });
});
