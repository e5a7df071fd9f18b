import type { ReportStep } from '../../src/contracts/report';
import { reportOf } from '../../src/report/report-of-run';
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
    expect(leftToDoAt(70_000)).toContain('west was promoted, but no write on it was confirmed');
    expect(leftToDoAt(74_550)).not.toContain('no write on it was confirmed');
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

  it('warns of a generation attempt that may be open', () => {
    expect(leftToDoAt(40_500)).toContain('A generation attempt on west may be open, or its token may exist');
    expect(leftToDoAt(40_500)).toContain('only if its fingerprint is AB12');
  });
});

describe('a failover that was terminated', () => {
  const leftAt = (at: number): string => {
    const builder = new RunBuilder()
      .started('drFailover', { deployment: 'payments', reason: 'east is gone' })
      .activity({
        type: 'promoteSecondary',
        step: { name: 'Promote west', number: 7 },
        input: { kind: 'dr', mode: 'unplanned', deployment: 'payments', cluster: 'west', otherCluster: 'east' },
        scheduledAt: 10_000,
        endedAt: 12_000,
        result: {
          outcome: 'done',
          observed: 'west: primary',
          calledAt: when(11_000),
          confirmedAt: when(12_000),
          calls: 1,
        },
      })
      .activity({
        type: 'awaitServiceReady',
        step: { name: 'Wait until west serves', number: 8 },
        input: { deployment: 'payments', cluster: 'west' },
        scheduledAt: 13_000,
        endedAt: 14_000,
        result: { readyAt: when(14_000) },
      });
    return reportOf(builder.terminatedAt(at)).leftToDo.join('\n');
  };

  it('says what is known of its promotion, and that the lost primary stays fenced', () => {
    expect(leftAt(5_000)).toBe('');
    expect(leftAt(11_000)).toContain('The promotion of west was under way and its outcome was not recorded');
    expect(leftAt(12_500)).toContain('west was promoted, but no write on it was confirmed');
    expect(leftAt(15_000)).not.toContain('no write on it was confirmed');
    for (const at of [11_000, 12_500, 15_000]) expect(leftAt(at)).toMatch(/keep east fenced/i);
  });
});
