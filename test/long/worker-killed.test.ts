/** Real worker processes, ended by SIGKILL where it hurts most, and started again. */
import { join } from 'node:path';
import { at, CHANGING, drPrimaries, expectServiceOn, signalled, statuses, underWay } from '../support/faults';
import { Program } from '../support/program';
import { replayRun } from '../support/replay';
import { pair, Scenario } from '../support/scenario';
import type { ScenarioOptions, TestRun } from '../support/scenario';

jest.setTimeout(480_000);

/** What a killed worker may cost, with the start of another one on a slow machine, ms. */
const COST_MS = 60_000;

let scenario: Scenario;
const workers: Program[] = [];
function startWorker(): Program {
  const worker = new Program(join(scenario.directory, `home-${workers.length}`), scenario.environment, ['worker']);
  workers.push(worker);
  return worker;
}

function openWithWorker(options: ScenarioOptions = {}): void {
  beforeAll(async () => {
    scenario = await Scenario.start({ worker: 'none', ...options });
    startWorker();
  });
  afterEach(() => scenario.shows(...workers.map(({ output }) => output)));
  afterAll(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.end('SIGTERM')));
    await scenario.stop();
  });
}

describe('a worker that is killed in the outage', () => {
  openWithWorker();

  it('costs seconds: started again, it finishes the run with one demotion and one promotion', async () => {
    const killed = signalled<number>();
    // The demotion has taken effect; nobody hears of it.
    at(scenario, 'after', 'east', CHANGING.demote, async () => {
      await workers[0]?.end('SIGKILL');
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
    scenario.shows(JSON.stringify(report));
  });

  /** Activity, the cluster that it calls there (the old primary or the new one), the call, and when. */
  const MOMENTS = [
    ['demotePrimary', 'old', CHANGING.demote, 'before'],
    ['demotePrimary', 'old', CHANGING.demote, 'after'],
    ['promoteSecondary', 'new', CHANGING.promote, 'before'],
    ['promoteSecondary', 'new', CHANGING.promote, 'after'],
    ['awaitServiceReady', 'new', 'GET /v1/kv/data/runbooks-marker', 'before'],
  ] as const;
  const ROUNDS = 2;
  /** What it may cost; on a busy machine a worker waits for its turn too, and one try within both is proof enough. */
  const [P50_MS, P90_MS, TRIES] = [5_000, 10_000, 3];

  /** @returns from the kill of the worker that has the activity until it was completed, ms */
  async function costOf([activity, side, endpoint, when]: (typeof MOMENTS)[number]): Promise<number> {
    const [from = ''] = drPrimaries(scenario);
    const to = from === 'east' ? 'west' : 'east';
    const killed = signalled<number>();
    const started: { handle?: TestRun['handle'] } = {};
    const fault = at(scenario, when, side === 'old' ? from : to, endpoint, async () => {
      const { raw } = (await started.handle?.describe()) ?? {};
      const pending = raw?.pendingActivities?.find(({ activityType }) => activityType?.name === activity);
      const victim = workers.find(({ child }) => pending?.lastWorkerIdentity?.startsWith(`${child.pid}@`) === true);
      await victim?.end('SIGKILL');
      killed.resolve(Date.now());
    });
    const run = await underWay(scenario, { to });
    started.handle = run.handle;
    const killedAt = await killed.promise;
    startWorker();
    const report = await run.report();
    fault.remove();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [], outage: { peopleMs: 0 } });
    expect(drPrimaries(scenario)).toEqual([to]);
    const { events = [] } = await run.handle.fetchHistory();
    const ordered = events?.find(
      (event) => event.activityTaskScheduledEventAttributes?.activityType?.name === activity,
    );
    const completed = events?.find(
      ({ activityTaskCompletedEventAttributes: done }) =>
        done?.scheduledEventId?.toString() === ordered?.eventId?.toString(),
    );
    return Number(completed?.eventTime?.seconds) * 1_000 + Number(completed?.eventTime?.nanos) / 1e6 - killedAt;
  }

  it('one of two: costs seconds until the other one has completed it, and needs no people', async () => {
    startWorker();
    const tries: (readonly [p50: number, p90: number])[] = [];
    const isMet = ([p50, p90]: readonly [number, number]) => p50 <= P50_MS && p90 <= P90_MS;
    while (tries.length < TRIES && !tries.some(isMet)) {
      const costs: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) for (const moment of MOMENTS) costs.push(await costOf(moment));
      const sorted = costs.toSorted((one, other) => one - other);
      const [p50 = 0, p90 = 0] = [0.5, 0.9].map((part) => sorted[Math.ceil(part * sorted.length) - 1]);
      process.stderr.write(
        `one of two workers killed in the outage, ${costs.length} times, until the activity was completed: p50 ${Math.round(p50)} ms, p90 ${Math.round(p90)} ms (${costs.map(Math.round).join(', ')})\n`,
      );
      tries.push([p50, p90]);
    }
    // Every try is told where none is quick enough.
    expect(tries.some(isMet) ? [] : tries).toEqual([]);
  });
});

describe('a worker that is killed in a token generation', () => {
  openWithWorker({ topology: pair(1) });

  it.each([
    // Two before the kill, whose second answer nobody heard, and three after it.
    ['between the shares makes the token with the collected shares, and no alarm', 2, [], 1, 5],
    [
      'after the last share says that a token may exist that nobody holds, and makes another',
      3,
      ['orphan-token'],
      2,
      6,
    ],
  ])('%s', async (_, nth, alarms, tokens, shares) => {
    const before = scenario.service.cluster('west').issuedSecrets.length;
    scenario.service.calls.length = 0;
    const killed = signalled();
    const kill = async () => {
      await workers.at(-1)?.end('SIGKILL');
      killed.resolve();
    };
    at(scenario, 'after', 'west', CHANGING.giveShare, kill, nth);
    const run = await scenario.tokenCeremony();
    await run.shares();
    await killed.promise;
    startWorker();
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.findings.map(({ code, severity }) => `${severity} ${code}`)).toEqual(
      alarms.map((code) => `critical ${code}`),
    );
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    expect(scenario.service.cluster('west').issuedSecrets.length - before).toBe(tokens);
    expect(statuses(scenario, 'west', CHANGING.giveShare)).toHaveLength(shares);
    expect(statuses(scenario, 'west', CHANGING.startAttempt)).toHaveLength(2);
    await replayRun(run);
    scenario.shows(JSON.stringify(report));
  });
});
