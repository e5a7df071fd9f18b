/** What operators and holders see of a rehearsal that waits: that no key share is asked for, who is missing, the command of each. */
import { Progress } from '../../src/cli/render-status';
import { waitingLines } from '../../src/cli/render-status';
import { nextCommands } from '../../src/contracts/next-commands';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';

const waiting = (answered: readonly string[], missing: readonly string[]): Waiting => ({
  ...{ for: 'rehearsal', epoch: 1, answered, missing, until: Date.parse('2026-03-01T10:00:00Z') },
});
const status = (each: Waiting): RunStatus => ({
  ...{ runbook: 'ceremonyRehearsal', deployment: 'payments', workflowId: 'rehearsal:payments', runId: 'r' },
  ...{ phase: 'waiting-for-people', paused: false, steps: [], receipts: [], findings: [], waiting: [each] },
});

it('the exact command for each missing person, and for nobody who has answered', () => {
  expect(nextCommands(status(waiting(['ada'], ['bert', 'cleo'])))).toEqual([
    { who: 'bert', command: 'runbook share rehearsal:payments --holder bert' },
    { who: 'cleo', command: 'runbook share rehearsal:payments --holder cleo' },
    {
      who: 'whoever cannot give',
      command: 'runbook decline rehearsal:payments --holder YOUR-NAME --reason WHY',
    },
  ]);
});

it('the status says that no key share is asked for', () => {
  const [first] = waitingLines('rehearsal:payments', waiting(['ada'], ['bert']), Date.parse('2026-03-01T09:00:00Z'));
  expect(first).toBe('REHEARSAL: no key share is asked for. Waits until 10:00:00Z. Answered: ada. Not yet: bert.');
  const declined = [{ by: { name: 'cleo', how: 'claimed' as const }, reason: 'ill' }];
  const lines = waitingLines('w', { ...waiting(['ada'], ['bert']), declined } as Waiting, 0);
  expect(lines).toContain('  declined: cleo (UNVERIFIED), ill');
});

it('a follower is told once, and again when somebody has answered', () => {
  const progress = new Progress();
  const lines = (each: Waiting) =>
    progress
      .lines({ status: status(each), state: 'running' } as unknown as Parameters<Progress['lines']>[0])
      .filter((line) => line.includes('REHEARSAL'));
  expect(lines(waiting([], ['ada', 'bert']))).toHaveLength(1);
  expect(lines(waiting([], ['ada', 'bert']))).toHaveLength(0);
  expect(lines(waiting(['ada'], ['bert']))).toHaveLength(1);
});
