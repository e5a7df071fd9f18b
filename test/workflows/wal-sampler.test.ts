import { readWalSamples } from '../../activities/evidence/wal-samples';
import { walSamplerIdPrefix } from '../../src/contracts/observations';
import type { WalSampling } from '../../src/contracts/observations';
import { until } from '../support/by-hand';
import { statuses } from '../support/faults';
import { expectFewEvents } from '../support/matrix';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

const STATUS = 'GET /v1/sys/replication/status';

/**
 * `walSampler` changes nothing and asks nobody: there are no lost answers, nothing parks (a failure ends the run, so that
 * the Schedule's next one begins), and it holds no lock that a failover could take over. What is left: no fault, and an
 * abort while it samples.
 */
describe('walSampler', () => {
  let scenario: Scenario;
  let counter = 0;
  // Every field that a status may have.
  const topology = { readings: { optionalFieldMissingChance: 0 } };
  openScenario((opened) => (scenario = opened), { topology });

  const start = (input: Readonly<Record<string, unknown>> = {}): Promise<TestRun> => {
    counter += 1;
    const id = `${walSamplerIdPrefix(scenario.name)}${counter}`;
    return scenario.run('walSampler', { samples: 4, everySeconds: 0.3, ...input }, id);
  };
  const resultOf = async (run: TestRun) =>
    (await run.handle.result()) as { readonly outcome: string; readonly result: WalSampling };
  const read = async () => {
    const sources = {
      temporal: scenario.client,
      log: { warn: () => undefined } as never,
      sealKeyring: scenario.sealKeyring,
    };
    const { samples, unattested } = await readWalSamples(sources, scenario.name, new AbortController().signal);
    expect(unattested).toBe(0);
    return samples;
  };

  it('every sample has the report of each cluster about itself', async () => {
    const run = await start();
    const { outcome, result } = await resultOf(run);

    expect(outcome).toBe('completed');
    expect(result).toMatchObject({ deployment: scenario.name });
    expect(result.samples).toHaveLength(4);
    for (const { clusters } of result.samples) {
      expect(clusters.map(({ cluster, answered }) => [cluster, answered])).toEqual([
        ['east', true],
        ['west', true],
      ]);
      const [east, west] = clusters;
      expect(east?.dr).toMatchObject({ mode: 'primary', lastWal: expect.stringMatching(/^\d+$/) as string });
      expect(west?.dr).toMatchObject({
        mode: 'secondary',
        state: 'stream-wals',
        connected: true,
        lastRemoteWal: expect.stringMatching(/^\d+$/) as string,
        heartbeatAgeMs: expect.any(Number) as number,
        canaryAgeMs: expect.any(Number) as number,
      });
    }
    await expectFewEvents('walSampler', run);
    // Nothing but unauthenticated reads reached the service.
    expect(scenario.service.calls.filter(({ method }) => method !== 'GET')).toEqual([]);
  });

  /** As the page of the runbook says: the Schedule adds the time to the Workflow ID. */
  const startScheduled = async (input: Readonly<Record<string, unknown>>): Promise<TestRun> => {
    const schedule = await scenario.client.schedule.create({
      scheduleId: `wal-sampler-${scenario.name}`,
      spec: {},
      action: {
        type: 'startWorkflow',
        workflowType: 'walSampler',
        workflowId: `${walSamplerIdPrefix(scenario.name)}scheduled`,
        taskQueue: scenario.taskQueue,
        args: [{ deployment: scenario.name, ...input }],
      },
    });
    await schedule.trigger();
    const started = await until('the Schedule started it', async () => {
      const [action] = (await schedule.describe()).info.recentActions;
      return action?.action.type === 'startWorkflow' && action.action.workflow.workflowId;
    });
    await schedule.delete();
    return scenario.attach(started);
  };

  it('started by a Schedule: a cluster that is down is a sample', async () => {
    await scenario.service.cluster('west').kill();
    scenario.service.calls.length = 0;
    const run = await startScheduled({ samples: 6, everySeconds: 0.3 });
    // The first sample is complete when the second one is taken.
    await run.until('the second sample', () => statuses(scenario, 'east', STATUS).length > 1);
    await scenario.service.cluster('west').restart();
    const { outcome, result } = await resultOf(run);

    expect(outcome).toBe('completed');
    const error = expect.any(String) as string;
    expect(result.samples[0]?.clusters[1]).toEqual({ cluster: 'west', answered: false, error });
  });

  it('results of closed runs of this deployment are found again, oldest first', async () => {
    const found = await until('ten samples', async () => {
      const samples = await read();
      return samples.length >= 10 && samples;
    });
    expect(found).toHaveLength(10);
    expect(found.map(({ at }) => at)).toEqual(found.map(({ at }) => at).sort((a, b) => a - b));
  });

  it('abort at the sampling', async () => {
    const run = await start({ samples: 100, everySeconds: 10 });
    await run.until('sampling', ({ steps }) => steps.length > 0);
    await run.control('abort', { reason: 'enough' });
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
  });
});
