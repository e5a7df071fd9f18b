/** How a run ended is told where no worker is needed: in its memo, and in Temporal's list of runs. */
import { OUTCOME_ATTRIBUTE } from '../../src/contracts/names';
import { cli } from '../cli/support';
import { writeRightBeforeDemotion } from '../support/faults';
import { until } from '../support/by-hand';
import { pair, openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

jest.setTimeout(180_000);

describe('the outcome of a run', () => {
  let scenario: Scenario;
  const released = { command: ['/bin/true'] };
  openScenario((opened) => (scenario = opened), {
    topology: pair(1),
    deployment: { quiesce: 'hook', hooks: { quiesce: released, release: released } },
  });
  const runs = new Map<string, string>();

  it('stands in the memo of a refused, an aborted, a rolled back and a completed run, and the outage does not', async () => {
    const ended = async (outcome: string, run: TestRun) => {
      const { runId, memo } = await run.handle.describe();
      runs.set(outcome, runId);
      expect(memo).toEqual({ runbook: 'drSwitchover', deployment: scenario.name, phase: 'finished', outcome });
    };
    const refused = await scenario.start({ to: 'east' });
    await refused.failure();
    await ended('refused', refused);
    const aborted = await scenario.start();
    await aborted.waitsFor('approval');
    await aborted.control('abort', { reason: 'not today' });
    await aborted.report();
    await ended('aborted', aborted);
    // A write that west has not, right before the demotion: east is promoted back.
    writeRightBeforeDemotion(scenario, 'east', 'west', { key: 'secret/late', value: { at: 1 } });
    const back = await scenario.start({ acceptLoss: 'none' });
    await back.people();
    await back.report();
    await ended('rolled-back', back);
    const completed = await scenario.start();
    await completed.people();
    await completed.report();
    await ended('completed', completed);
  });

  it('stands in the list of Temporal, which can be filtered by it', async () => {
    const listed = async (outcome: string) => {
      const query = `${OUTCOME_ATTRIBUTE} = "${outcome}" AND WorkflowId = "${scenario.workflowId}"`;
      const found: string[] = [];
      for await (const { runId } of scenario.client.workflow.list({ query })) found.push(runId);
      return found;
    };
    for (const [outcome, runId] of runs) {
      await until(`listed as ${outcome}`, async () => (await listed(outcome)).length > 0);
      expect(await listed(outcome)).toEqual([runId]);
    }
  });

  it('is shown by list and status while no worker runs', async () => {
    await (await scenario.run('drSwitchover', { to: 'nowhere' })).failure();
    await scenario.stopWorker();
    const { out, err } = await cli(['list', '--limit', '200'], { env: scenario.environment });
    const rows = out.split('\n').filter((line) => line.startsWith(`${scenario.workflowId} `));
    const states = rows.map((line) => line.split(/ {2,}/)[3]);
    expect(states).toEqual([
      'failed: UNKNOWN_CLUSTER',
      'completed',
      'rolled-back',
      'aborted',
      'refused: PRECONDITION_FAILED',
    ]);
    expect(err).toContain('Whether a failed run had changed anything: runbook report WORKFLOW-ID');
    const completed = runs.get('completed') ?? '';
    const shown = await cli(['status', scenario.workflowId, '-r', completed], { env: scenario.environment });
    expect(shown.out.split('\n')[0]).toBe(`${scenario.workflowId}  drSwitchover  completed, completed`);
    await scenario.startWorker();
  });
});
