import { reportOf } from '../../src/report/report-of-run';
import { finishedSwitchover } from '../report/support/switchover';
import { explainFailure, timelineOf } from './explain';

const identity = { namespace: 'default', workflowId: 'deployment:payments', runId: 'a-run' };
const report = { ...reportOf(finishedSwitchover().build()), ...identity };
const SECRETS = new Map([['a share', 'canary-of-a-key-share']]);

it('a failed test tells what the runs of its scenario did, once', async () => {
  const scenario = { explanation: async () => timelineOf(report, SECRETS) };
  const error = new Error('expected completed');
  await explainFailure(error, [scenario]);
  await explainFailure(error, [scenario]);
  expect(error.message).toMatch(/^expected completed\n\ndrSwitchover deployment:payments a-run: completed/);
  expect(error.message.match(/Promote west/g)).toHaveLength(1);
  expect(error.stack).toContain(error.message);
});

it('and no secret: of a report that holds one nothing is told but its name', () => {
  const finding = {
    severity: 'warning',
    code: 'odd',
    text: 'it is canary-of-a-key-share',
    at: report.startedAt,
  } as const;
  expect(timelineOf({ ...report, findings: [finding] }, SECRETS)).toBe(
    '(the report of drSwitchover holds secrets: a share)',
  );
});
