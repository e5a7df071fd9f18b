import { randomUUID } from 'node:crypto';
import { readinessText } from '../../src/cli/commands/start';
import { exitCodeOf, exitCodeOfReadiness } from '../../src/cli/errors';
import type { ReadinessPoint, ReadinessResult } from '../../src/contracts/readiness';
import { RunbookError } from '../../src/errors';
import { temporalClient, temporalServer, uniqueTaskQueue } from '../support/temporal-server';
import { cli } from './support';

const point = (verdict: ReadinessPoint['verdict'], more: Partial<ReadinessPoint> = {}): ReadinessPoint => {
  return { id: 'lag', about: 'both', cluster: 'west', verdict, observed: '7', needed: '5', ...more };
};
const RESULT: ReadinessResult = {
  schema: 'replication-runbooks/readiness/v1',
  deployment: 'payments',
  at: '2026-01-01T00:00:00.000Z',
  switchover: 'not-ready',
  failover: 'ready-with-warnings',
  candidates: [],
  changes: [{ change: 'worse', id: 'lag', cluster: 'west', about: 'switchover', before: 'ok', now: 'fail' }],
  points: [
    point('fail', { about: 'switchover', next: 'Wait.' }),
    point('warn', { about: 'failover' }),
    point('not-checkable', { id: 'certificate', observed: 'plain http' }),
    point('ok', { id: 'quorum' }),
    point('ok', { id: 'quorum', cluster: 'east' }),
  ],
};

describe('runbook readiness', () => {
  it.each([
    ['ready', 'ready', 0],
    ['ready', 'ready-with-warnings', 7],
    ['ready-with-warnings', 'not-ready', 3],
  ] as const)('switchover %s and failover %s: exit code %i', (switchover, failover, code) => {
    expect(exitCodeOfReadiness({ switchover, failover })).toBe(code);
  });

  it('a run that ended with a failure tells its exit code as an error of the command does', () => {
    expect(exitCodeOf(new RunbookError('UNKNOWN_DEPLOYMENT', 'x'))).toBe(5);
    expect(exitCodeOf(new Error('x'))).toBe(1);
  });

  it('prints verdicts, changes, and points, the worst first and what clusters share once, with what is needed and what to do', () => {
    expect(readinessText(RESULT)).toEqual([
      'Switchover: not ready. Failover: ready with warnings.',
      '',
      'Since the last check',
      '  worse: lag (west), ok before, fail now',
      '',
      '  fail  lag (west), for a switchover',
      '          observed: 7',
      '          needed:   5',
      '          next: Wait.',
      '  warn  lag (west), for a failover',
      '          observed: 7',
      '          needed:   5',
      '  ?     certificate (west)',
      '          observed: plain http',
      '          needed:   5',
      '  ok    quorum (west, east): 7',
      '',
      'Nothing was changed.',
    ]);
  });

  it('gives up waiting where no worker answers, and says that the check goes on', async () => {
    const { address, namespace } = temporalServer();
    const deployment = `nobody-${randomUUID().slice(0, 8)}`;
    const env = {
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      RUNBOOKS_TASK_QUEUE: uniqueTaskQueue('nobody-polls'),
    };
    const { code, err } = await cli(['readiness', deployment, '--timeout', '0.2'], { env });
    await (await temporalClient()).workflow.getHandle(`readiness:${deployment}`).terminate('end of the test');
    expect([code, err]).toEqual([4, expect.stringContaining(`runbook status readiness:${deployment}`)]);
  });
});
