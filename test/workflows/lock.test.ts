import { randomUUID } from 'node:crypto';
import { replayRun } from '../support/replay';
import { reportOf } from '../support/reports';
import { clusters, openScenario, pair } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';
import { takeOverBy } from '../support/failover';
import { temporalServer, uniqueTaskQueue } from '../support/temporal-server';

/** How the time line of the Web UI names the timers of a run. */
async function timersOf({ handle }: TestRun): Promise<readonly string[]> {
  const { events } = await handle.fetchHistory();
  return (events ?? [])
    .flatMap(({ timerStartedEventAttributes, userMetadata }) =>
      timerStartedEventAttributes ? Buffer.from(userMetadata?.summary?.data ?? []).toString() : [],
    )
    .map((text) => text.replaceAll('"', ''));
}

describe('one changing run for each deployment', () => {
  /** The lock of a ceremony is the cluster's name, and the server serves all tests. */
  const alone = `alone-${randomUUID().slice(0, 8)}`;
  let scenario: Scenario;
  const { clusters: two, dr = [] } = pair();
  openScenario((opened) => (scenario = opened), {
    topology: {
      clusters: [...two, ...clusters('north', alone)],
      dr: [...dr, { primary: 'north', secondaries: [alone] }],
    },
    drSets: { main: ['east', 'west'], other: ['north', alone] },
  });

  it('a run under a random ID hands over; a second start names the holder; dryRun goes beside it; the real run completes', async () => {
    const first = await scenario.start({}, `ui-${randomUUID()}`);
    const handedOver = (await first.handle.result()) as Record<string, string>;
    const real = scenario.attach();
    const { runId } = await real.handle.describe();
    expect(handedOver).toMatchObject({ outcome: 'handed-over', workflowId: scenario.workflowId, runId });
    expect(handedOver['link']).toContain(`/workflows/${encodeURIComponent(scenario.workflowId)}/${runId}`);
    // Its starter has closed, and its report names the run that goes on.
    const starters = await reportOf(first);
    expect([starters.outcome, starters.findings]).toEqual([
      'handed-over',
      [
        expect.objectContaining({
          code: 'handed-over',
          text: `It continues as ${scenario.workflowId} (run ${runId}).`,
        }),
      ],
    ]);
    // A child inherits none of them.
    const { memo, ...described } = await real.handle.describe();
    expect(memo).toMatchObject({ runbook: 'drSwitchover', deployment: scenario.name });
    expect(await described.staticSummary()).toMatch(/^drSwitchover of \S+ \(to west\), handed over from ui-/);
    expect(await described.staticDetails()).toContain('**Reason**: a test of the switchover');
    await real.waitsFor('approval', ({ gate }) => gate === 'plan');
    expect(await timersOf(real)).toContain('gate plan expires');

    const second = await scenario.start({}, `ui-${randomUUID()}`);
    const failure = await second.failure();
    expect(failure.code).toBe('LOCK_HELD');
    expect(failure.message).toContain(`${scenario.workflowId} is held by drSwitchover (run ${runId}, RUNNING)`);
    expect(failure.details).toEqual([
      expect.objectContaining({ runId, next: expect.stringContaining('runbook status') as string }),
    ]);
    await expect(scenario.start()).rejects.toMatchObject({ name: 'WorkflowExecutionAlreadyStartedError' });

    const plan = await (await scenario.start({ dryRun: true }, `ui-${randomUUID()}`)).report();
    expect(plan.outcome).toBe('planned');
    expect((await real.handle.describe()).status.name).toBe('RUNNING');

    await real.people();
    const report = await real.report();
    expect(report.outcome).toBe('completed');
    expect(report.runId).toBe(runId);
    expect(scenario.calls('east', 'dr/primary/demote')).toBe(1);
    await replayRun(first);
    scenario.shows(JSON.stringify([handedOver, failure, plan]));
  });

  it('the lock is free again after the run; a refusal in the real run is reported there', async () => {
    const starter = await scenario.start({ to: 'west' }, `ui-${randomUUID()}`);
    const handedOver = (await starter.handle.result()) as Record<string, string>;
    const real = scenario.attach(handedOver['workflowId'], handedOver['runId']);
    // West is the primary since the first run.
    expect((await real.failure()).code).toBe('PRECONDITION_FAILED');
  });

  it('a ceremony is locked by its cluster', async () => {
    const input = { cluster: alone, uses: ['dr.promote'], keepFor: '1h' };
    const starter = await scenario.run('operationTokenCeremony', input, `ui-${randomUUID()}`);
    const handedOver = (await starter.handle.result()) as Record<string, string>;
    expect(handedOver['workflowId']).toBe(`ceremony:${alone}`);
    const real = scenario.attach(`ceremony:${alone}`, handedOver['runId']);
    await real.waitsFor('shares');
    await real.control('abort', { reason: 'seen' });
    expect((await real.report()).outcome).toBe('aborted');
  });

  it('held by a run that is none of ours, on a queue without a worker, with a name that would be a command: a failover names the lock holder and what an administrator does', async () => {
    const { workflowId } = scenario;
    const taskQueue = uniqueTaskQueue('nobody');
    const args = [{ deployment: scenario.name, samples: 200, everySeconds: 10 }];
    const squatter = await scenario.client.workflow.start('x`; rm -rf ~ `', { workflowId, taskQueue, args });
    const takeOverDocument = await takeOverBy(scenario.attach(), scenario.asked());
    const run = await scenario.run('drFailover', { takeOver: true, takeOverDocument }, `ui-${randomUUID()}`);
    const failed = await run.failure();
    const told = JSON.stringify([failed.message, failed.details]);
    await squatter.terminate('end of the test');

    expect(failed.code).toBe('LOCK_HELD');
    for (const known of [squatter.firstExecutionRunId, taskQueue]) expect(told).toContain(known);
    expect(told).toContain(`temporal workflow terminate --namespace ${temporalServer().namespace}`);
    expect(told).toContain(`--workflow-id ${workflowId} --run-id ${squatter.firstExecutionRunId}`);
    expect(told).not.toContain('`; rm');
  });
});
