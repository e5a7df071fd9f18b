import { CHANGING, drPrimaries, expectServiceOn, signalled, statuses } from '../support/faults';
import { at, underWay } from '../support/outage';
import { Scenario } from '../support/scenario';
import { WorkerProcess } from '../support/worker-process';

jest.setTimeout(240_000);

/** What a killed worker may cost, with the start of another one on a slow machine, ms. */
const COST_MS = 60_000;

describe('a worker that is killed between demote and promote', () => {
  let scenario: Scenario;
  const workers: WorkerProcess[] = [];
  const startWorker = () => {
    const worker = new WorkerProcess(scenario.environment);
    workers.push(worker);
    return worker;
  };

  beforeAll(async () => {
    scenario = await Scenario.start({ worker: 'none' });
  });
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.end('SIGTERM')));
    await scenario.stop();
  });

  it('costs seconds: started again, it finishes the run with one demotion and one promotion', async () => {
    const first = startWorker();
    const killed = signalled<number>();
    // The demotion has taken effect; nobody hears of it.
    at(scenario, 'after', 'east', CHANGING.demote, async () => {
      await first.end('SIGKILL');
      killed.resolve(Date.now());
    });
    const run = await underWay(scenario);
    const killedAt = await killed.promise;
    expect(drPrimaries(scenario)).toEqual([]);
    startWorker();
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, parkings: [], leftToDo: [] });
    expect(statuses(scenario, 'east', CHANGING.demote)).toHaveLength(1);
    expect(statuses(scenario, 'west', CHANGING.promote)).toEqual([200]);
    await expectServiceOn(scenario, 'west');
    const backAt = Date.parse(report.outage?.endedAt ?? '');
    process.stderr.write(
      `worker killed between demote and promote: service back ${backAt - killedAt} ms after the kill, ` +
        `outage ${report.outage?.totalMs} ms (service ${report.outage?.serviceMs} ms, machine ${report.outage?.machineMs} ms)\n`,
    );
    expect(backAt - killedAt).toBeLessThan(COST_MS);
    expect(report.outage?.peopleMs).toBe(0);
    expect(await scenario.leaks([JSON.stringify(report), ...workers.map(({ output }) => output)])).toEqual([]);
  });
});
