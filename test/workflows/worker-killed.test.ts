import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CHANGING, drPrimaries, expectServiceOn, signalled, statuses } from '../support/faults';
import { at, underWay } from '../support/outage';
import { Scenario } from '../support/scenario';

jest.setTimeout(120_000);

const PROGRAM = join(__dirname, '../../dist/src/cli/main.js');
/** What a killed worker may cost, ms. */
const COST_MS = 30_000;

/** A worker in a process of its own, whose output is kept. */
class WorkerProcess {
  readonly #child: ChildProcess;
  output = '';

  constructor(environment: Readonly<Record<string, string>>) {
    this.#child = spawn(process.execPath, [PROGRAM, 'worker'], {
      env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (chunk: Buffer) => void (this.output += chunk.toString('utf8')));
  }

  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    await ended;
  }
}

describe('a worker that is killed between demote and promote', () => {
  let scenario: Scenario;
  const workers: WorkerProcess[] = [];
  const startWorker = () => {
    const worker = new WorkerProcess(scenario.environment);
    workers.push(worker);
    return worker;
  };

  beforeAll(async () => {
    if (!existsSync(PROGRAM))
      throw new Error('This test runs the program of the build. Build it first: npm run build (npm test does).');
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
