import { Progress } from '../../src/cli/render-status';
import type { RunView } from '../../src/cli/run';
import type { RunStatus } from '../../src/contracts/run-status';

const NOW = Date.parse('2026-11-21T12:00:30Z');
const at = (seconds: number): number => Date.parse('2026-11-21T12:00:00Z') + seconds * 1000;

function view(status: Partial<RunStatus> | undefined): RunView {
  return {
    workflowId: 'deployment:payments',
    runId: 'r',
    runbook: 'drSwitchover',
    taskQueue: 'runbooks',
    state: 'running',
    startedAt: '2026-11-21T12:00:00Z',
    asOfEvent: 42,
    pendingActivities: [],
    ...(status === undefined
      ? {}
      : {
          status: {
            runbook: 'drSwitchover',
            deployment: 'payments',
            workflowId: 'deployment:payments',
            runId: 'r',
            phase: 'checking',
            paused: false,
            waiting: [],
            steps: [],
            receipts: [],
            findings: [],
            ...status,
          },
        }),
  };
}

describe('progress of a run', () => {
  it('tells what one look brings in the order in which it happened, and nothing twice', () => {
    const progress = new Progress();
    const look = view({
      phase: 'outage',
      outageSince: at(10),
      steps: [
        {
          number: 1,
          name: 'Write a marker on east and wait until west has it',
          state: 'done',
          attempt: 1,
          startedAt: at(8),
          endedAt: at(9),
        },
        { number: 2, name: 'Demote east', state: 'running', attempt: 1, startedAt: at(11) },
      ],
    });
    expect(progress.lines(look, NOW)).toEqual([
      '12:00:09Z 1. Write a marker on east and wait until west has it: done in 1.0 s',
      '12:00:10Z == OUTAGE: no primary serves clients',
      '12:00:11Z 2. Demote east ...',
    ]);
    expect(progress.lines(look, NOW)).toEqual([]);
  });

  it('says how long the outage was, once service is back', () => {
    const progress = new Progress();
    const lines = progress.lines(view({ phase: 're-protecting', outageSince: at(10), serviceBackAt: at(14) }), NOW);
    expect(lines).toContain('12:00:14Z == Service is back after 4.0 s');
  });

  it('tells each outage: one that was not begun after all is followed by the one that is', () => {
    const progress = new Progress();
    const told = [
      { phase: 'outage', outageSince: at(10) },
      { phase: 'preparing' },
      { phase: 'outage', outageSince: at(20) },
      { phase: 're-protecting', outageSince: at(20), serviceBackAt: at(24) },
    ] as const;
    expect(told.flatMap((each) => progress.lines(view(each), NOW))).toEqual([
      '12:00:10Z == OUTAGE: no primary serves clients',
      '12:00:30Z == Last checks; service is up',
      '12:00:20Z == OUTAGE: no primary serves clients',
      '12:00:24Z == Service is back after 4.0 s',
      '12:00:24Z == Protection is being restored',
    ]);
  });

  it('announces a parked step with each choice, its effect and the exact command', () => {
    const waiting = {
      for: 'decision' as const,
      step: 'Promote west',
      parkingNo: 2,
      code: 'NOT_CAUGHT_UP',
      message: 'behind',
      choices: [{ action: 'retry' as const, effect: 'tries it again' }],
    };
    const text = new Progress().lines(view({ waiting: [waiting] }), NOW).join('\n');
    expect(text).toContain('PARKED at "Promote west"');
    expect(text).toContain("runbook decide deployment:payments --step 'Promote west' --action retry");
    expect(text).toContain('tries it again');
  });

  it('announces a gate again that is opened again, with why, and never says in an outage that service is up', () => {
    const progress = new Progress();
    const gate = { for: 'approval', gate: 'promote', planDigest: 'd', missing: ['1 of grace'], approved: [] } as const;
    const look = (more: object) =>
      progress
        .lines(view({ phase: 'waiting-for-people', outageSince: at(10), waiting: [{ ...gate, ...more }] }), NOW)
        .join('\n');
    const first = look({});
    expect(first).toContain('Waits for approval of gate promote for as long as the outage lasts');
    expect(first).not.toContain('service is up');
    expect(look({})).toBe('');
    expect(look({ again: 'the approvals were too old' })).toMatch(
      /-> Waits for approval.*Asked for again: the approvals were too old[^]*1 of grace:\n +runbook approve deployment:payments --gate promote/,
    );
  });

  it('says once that no worker answers, and that one answers again', () => {
    const progress = new Progress();
    expect(progress.lines(view(undefined), NOW)).toEqual(['12:00:30Z no worker answers; as of event 42']);
    expect(progress.lines(view(undefined), NOW)).toEqual([]);
    expect(progress.lines(view({}), NOW).join()).toContain('a worker answers again');
  });
});
