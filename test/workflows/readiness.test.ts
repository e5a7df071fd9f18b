/** The check of readiness as a run: its verdict, its comparison with the last one, and beside a run that works. */
import type { ReadinessResult } from '../../src/contracts/readiness';
import { readinessResult } from '../../src/contracts/readiness';
import type { Report } from '../../src/contracts/report';
import { walSamplerIdPrefix } from '../../src/contracts/observations';
import { cli } from '../cli/support';
import { until } from '../support/by-hand';
import { signalled } from '../support/faults';
import { expectFewEvents } from '../support/matrix';
import { pointsOf } from '../support/readiness';
import { replayRun } from '../support/replay';
import { pair, openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

jest.setTimeout(180_000);

/** A point that can never be known is neither good nor bad; of a laboratory on one machine these. */
const BEYOND_KNOWING = ['zero-loss-can-be-proven (east) switchover'];

describe('readiness', () => {
  let scenario: Scenario;
  const id = () => `readiness:${scenario.name}`;
  const start = () => scenario.run('readiness');
  /** The command as somebody types it. */
  const asked = (...words: readonly string[]) => cli(['readiness', ...words], { env: scenario.environment });
  const foundBy = (report: Report): ReadinessResult => readinessResult.parse(report.result);

  /** Until Temporal's visibility store tells that so many runs under an ID have closed. */
  const untilListed = (workflowId: string, count: number) =>
    until(`listed: ${workflowId}`, async () => {
      const query = `WorkflowId = "${workflowId}" AND ExecutionStatus = "Completed"`;
      return (await scenario.client.workflow.count(query)).count >= count;
    });

  openScenario((opened) => (scenario = opened), {
    topology: pair(1),
    deployment: { laboratory: true },
  });
  beforeAll(async () => {
    const workflowId = `${walSamplerIdPrefix(scenario.name)}1`;
    await (await scenario.run('walSampler', { samples: 3, everySeconds: 0.1 }, workflowId)).handle.result();
    await untilListed(workflowId, 1);
  });

  it('all is well: ready', async () => {
    const first = await start();
    const report = await first.report();
    const result = foundBy(report);
    expect([pointsOf(result, 'fail'), pointsOf(result, 'warn')]).toEqual([[], []]);
    expect(pointsOf(result, 'not-checkable')).toEqual(BEYOND_KNOWING);
    expect(report).toMatchObject({ outcome: 'completed', runbook: 'readiness', leftToDo: [] });
    expect(result).toMatchObject({ switchover: 'ready', failover: 'ready', changes: [] });
    const changing = scenario.service.calls.filter(
      ({ method, path }) => !['GET', 'LIST'].includes(method) && !path.endsWith('-self'),
    );
    expect(new Set(changing.map(({ path }) => path))).toEqual(new Set(['/v1/kv/data/runbooks-marker-after']));
    await expectFewEvents('readiness', first);
    await replayRun(first);
  });

  it('refused: an unknown deployment', async () => {
    const unknown = `${scenario.name}-x`;
    const run = await scenario.startRunbook('readiness', { deployment: unknown }, `readiness:${unknown}`);
    const failure = await run.failure();
    expect(failure.code).toBe('UNKNOWN_DEPLOYMENT');
    expect(failure.message).toContain(unknown);
    const told = await asked(unknown);
    expect([told.code, told.err]).toEqual([5, expect.stringContaining('UNKNOWN_DEPLOYMENT')]);
    expect((await asked('No Name')).code).toBe(3);
  });

  it('abort at the reading', async () => {
    // Every read takes as long as it may, until the run has ended.
    const over = signalled();
    const held = scenario.service.faults.add({ endpoint: /./, action: () => over.promise, times: Infinity });
    const run = await start();
    await run.until('reading', () => held.hits > 0);
    await run.control('abort', { reason: 'not now' });
    const report = await run.report();
    expect(report.outcome).toBe('aborted');
    expect(report.result).toBeUndefined();
    expect(report.leftToDo.join()).toContain('stopped by grace');
    scenario.service.faults.clear();
    over.resolve();
  });

  it('beside a run that works it names the lock holder, does not disturb it, and reports what became worse', async () => {
    // The aborted check closed too; it has no verdict, and is passed over.
    await untilListed(id(), 2);
    const working = await scenario.start();
    await working.waitsFor('approval');
    await working.waitsFor('shares');
    const { runId } = await working.handle.describe();

    const { code, out } = await asked(scenario.name, '--json');
    expect(code).toBe(3);
    const result = readinessResult.parse(JSON.parse(out));
    expect(pointsOf(result, 'fail')).toEqual(['lock switchover']);
    expect(pointsOf(result, 'warn')).toEqual(['lock failover']);
    expect([result.switchover, result.failover]).toEqual(['not-ready', 'ready-with-warnings']);
    const [lock] = result.points;
    expect(lock?.observed).toBe(`held by drSwitchover, run ${runId}, waiting-for-people`);
    expect(result.changes).toEqual([
      { change: 'worse', id: 'lock', about: 'switchover', before: 'ok', now: 'fail' },
      { change: 'worse', id: 'lock', about: 'failover', before: 'ok', now: 'warn' },
    ]);

    const again = await asked(scenario.name);
    expect(again.code).toBe(3);
    expect(again.out).toContain('Switchover: not ready. Failover: ready with warnings.');
    expect(again.out).toMatch(/fail +lock, for a switchover\n +observed: held by drSwitchover/);

    // As the Web UI shows it; the result has every point.
    const { steps } = await scenario.attach(id()).status();
    expect(steps.map(({ note }) => note)).toEqual(['switchover not-ready, failover ready-with-warnings; failed: lock']);

    // The run did not notice: nothing came from outside, still waiting.
    const came = /^workflowExecution(?!Started)/;
    expect((await working.events()).flatMap((each) => Object.keys(each).filter((key) => came.test(key)))).toEqual([]);
    await working.control('abort', { reason: 'not now' });
    expect((await working.report()).outcome).toBe('aborted');
    scenario.shows(out, again.out);
  });
});
