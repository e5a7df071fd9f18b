import { CHANGING, signalled, statuses } from '../support/faults';
import { at } from '../support/outage';
import { replayRun } from '../support/replay';
import { pair, Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { WorkerProcess } from '../support/worker-process';

jest.setTimeout(240_000);

/** Real processes, ended by SIGKILL while the burst is under way, and started again. */
describe('a worker that is killed inside the burst', () => {
  let scenario: Scenario;
  const workers: WorkerProcess[] = [];
  const startWorker = () => {
    const worker = new WorkerProcess(scenario.environment);
    workers.push(worker);
    return worker;
  };
  const output = () => workers.map((worker) => worker.output);

  beforeAll(async () => {
    scenario = await Scenario.start({ worker: 'none', topology: pair(1) });
    startWorker();
  });
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.end('SIGTERM')));
    await scenario.stop();
  });

  /** A ceremony whose worker is killed when the nth share has taken effect; another is started. */
  async function killedAfterShare(nth: number): Promise<{ readonly run: TestRun; readonly tokens: number }> {
    const before = scenario.service.cluster('west').issuedSecrets.length;
    const killed = signalled();
    at(
      scenario,
      'after',
      'west',
      CHANGING.giveShare,
      async () => {
        await workers.at(-1)?.end('SIGKILL');
        killed.resolve();
      },
      nth,
    );
    const run = await scenario.tokenCeremony();
    await run.shares();
    await killed.promise;
    startWorker();
    await run.handle.result();
    return { run, tokens: scenario.service.cluster('west').issuedSecrets.length - before };
  }

  it('between the shares makes the token with the shares in hand, and no alarm', async () => {
    const { run, tokens } = await killedAfterShare(2);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [], findings: [] });
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    expect(tokens).toBe(1);
    // Two before the kill, whose second answer nobody heard, and three after it.
    expect(statuses(scenario, 'west', CHANGING.giveShare)).toHaveLength(5);
    expect(statuses(scenario, 'west', CHANGING.startAttempt)).toHaveLength(2);
    await replayRun(run);
    scenario.shows(JSON.stringify(report), ...output());
  });

  it('after the last share says that a token may exist that nobody holds, and makes another', async () => {
    const { run, tokens } = await killedAfterShare(3);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.findings).toEqual([expect.objectContaining({ code: 'orphan-token', severity: 'critical' })]);
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    expect(tokens).toBe(2);
    await replayRun(run);
    scenario.shows(JSON.stringify(report), ...output());
  });
});
