import { setTimeout as delay } from 'node:timers/promises';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { CHANGING, loseAnswer, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { expectTakenOver } from '../support/take-over';

const DR = '/v1/sys/replication/dr/secondary';
const MERKLE_CHECK = `POST ${DR}/merkle-check`;
const REINDEX = `POST ${DR}/reindex`;

/** `drReindex`: the check first, the gate, the reindex followed to its end, the check after. */
const open = () => Scenario.start({ topology: { timing: { reindexMs: 1_200 } } });
const first = new Lane(open);
const second = new Lane(open);

const start = (scenario: Scenario, input: Readonly<Record<string, unknown>> = {}): Promise<TestRun> =>
  scenario.run('drReindex', { cluster: 'west', ...input });

const corrupt = (scenario: Scenario) => {
  const west = scenario.service.cluster('west');
  west.corruptedPages = { tree: 'replicated', page: 5, subpages: [28] };
  west.reindex = undefined;
};

/** The next reindex does not end by itself. */
const endless = (scenario: Scenario) =>
  scenario.service.faults.add({
    cluster: 'west',
    endpoint: REINDEX,
    when: 'after',
    action: (west) => {
      west.reindex = { startedAt: Date.now(), endsAt: Date.now() + 3_600_000 };
    },
  });

async function following(run: TestRun): Promise<void> {
  for (const deadline = Date.now() + 90_000; Date.now() < deadline; await delay(50)) {
    const { raw } = await run.handle.describe();
    if (raw.pendingActivities?.some(({ activityType }) => activityType?.name === 'followDrReindex')) return;
  }
  throw new Error('the reindex is not followed');
}

async function people(run: TestRun): Promise<void> {
  await run.shares();
  await run.approve('reindex');
}

const tokensOf = (scenario: Scenario) => scenario.state('west').operationTokens;

describe('drReindex', () => {
  runLanes(first, second);

  first.it(cell('drReindex', 'no fault'), async (scenario) => {
    corrupt(scenario);
    const run = await start(scenario, { skipFlush: true });
    await people(run);
    const report = await run.report();

    expect(report).toMatchObject({
      outcome: 'completed',
      parkings: [],
      result: {
        before: { verdict: 'corrupted' },
        reindex: { epoch: expect.any(Number) as number },
        after: { verdict: 'sound' },
      },
    });
    expect(report.leftToDo).toEqual([expect.stringContaining('Kill no node of west')]);
    const plan = report.plan?.content;
    if (!plan || !('operations' in plan)) throw new Error('no plan');
    expect(plan.operations).toEqual([
      expect.objectContaining({
        operation: 'dr.secondary.reindex',
        detail: 'diff=false, force=false, skip_flush=true',
      }),
    ]);
    expect(plan.warnings.join(' ')).toMatch(/only DR secondary.*skip_flush: .*may be killed/);
    expect(statuses(scenario, 'west', REINDEX)).toEqual([200]);
    expect(tokensOf(scenario)).toBe(0);
    await expectFewEvents('drReindex', run);
  });

  first.it(
    cell(
      'drReindex',
      'lost answer',
      'attempt start, share, merkle-check, reindex, token deletion; a sound tree, with force',
    ),
    async (scenario) => {
      const lost = [
        loseAnswer(scenario, 'west', CHANGING.startAttempt),
        loseAnswer(scenario, 'west', CHANGING.giveShare),
        loseAnswer(scenario, 'west', MERKLE_CHECK, 2),
        loseAnswer(scenario, 'west', REINDEX),
        loseAnswer(scenario, 'west', CHANGING.deleteToken),
      ];
      const run = await start(scenario, { force: true, diff: true });
      await people(run);
      const report = await run.report();
      expect(lost.map(({ hits }) => hits)).toEqual([1, 1, 1, 1, 1]);
      expect(report).toMatchObject({
        ...{ outcome: 'completed', parkings: [], leftToDo: [] },
        result: { before: { verdict: 'sound' }, after: { verdict: 'sound' } },
      });
      expect(statuses(scenario, 'west', REINDEX)).toEqual([0]);
      expect(tokensOf(scenario)).toBe(0);
    },
  );

  first.it(
    `${cell('drReindex', 'parked, retry', 'begun with approvals that were asked for again; one that got lost is started again')}; ${cell('drReindex', 'parked, skip', 'the check after')}`,
    async (scenario) => {
      corrupt(scenario);
      endless(scenario);
      scenario.service.faults.add({ cluster: 'west', endpoint: MERKLE_CHECK, action: { status: 400 }, skip: 2 });
      const run = await start(scenario);
      await run.shares();
      await approveLongAgo(scenario, run, 'reindex');
      await approveAgain(run, 'reindex');
      await following(run);
      // A node was killed.
      scenario.service.cluster('west').reindex = undefined;
      const parked = await run.waitsFor('decision');
      expect(parked).toMatchObject({ step: 'Reindex west', code: 'STATE_DIVERGED' });
      await run.decide('retry');
      await run.decide('skip', 'Check the Merkle tree of west after');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', result: { after: { verdict: 'skipped' } } });
      expect(report.leftToDo).toEqual([
        expect.stringContaining('whether the reindex helped is not known'),
        expect.stringContaining('CRITICAL: The Merkle tree of west is corrupted'),
      ]);
      expect(statuses(scenario, 'west', REINDEX)).toEqual([200, 200]);
    },
  );

  second.it(cell('drReindex', 'refused', 'a sound tree, without force'), async (scenario) => {
    const run = await start(scenario);
    await people(run);
    expect(await run.failure()).toMatchObject({
      code: 'PRECONDITION_FAILED',
      message: expect.stringContaining('is sound') as string,
    });
    expect(statuses(scenario, 'west', REINDEX)).toEqual([]);
    expect(tokensOf(scenario)).toBe(0);
  });

  second.it(
    cell('drReindex', 'refused', 'a primary, a failover under way, a reindex under way, a rejected gate'),
    async (scenario) => {
      const [east, west] = [scenario.service.cluster('east'), scenario.service.cluster('west')];
      const refusal = async (input = {}) => (await (await start(scenario, input)).failure()).message;
      expect(await refusal({ cluster: 'east' })).toContain('DR secondary (east): observed primary');
      west.reindex = { startedAt: Date.now(), endsAt: Date.now() + 3_600_000 };
      expect(await refusal()).toContain('no reindex under way');
      west.reindex = undefined;
      await east.kill();
      expect(await refusal()).toContain('no change of the primary under way');
      await east.restart();
      expect(await (await start(scenario, { dryRun: true })).report()).toMatchObject({ outcome: 'planned' });

      const run = await start(scenario);
      await run.approve('reindex', 'grace', 'reject');
      expect(await run.report().catch(() => undefined)).not.toMatchObject({ outcome: 'completed' });
      expect(statuses(scenario, 'west', REINDEX)).toEqual([]);
    },
  );

  second.it(cell('drReindex', 'taken over at', 'the reindex'), async (scenario) => {
    corrupt(scenario);
    endless(scenario);
    const run = await start(scenario);
    await people(run);
    await following(run);
    await expectTakenOver(scenario, run, 'drReindex');
    scenario.service.cluster('west').reindex = undefined;
  });

  second.it(cell('drReindex', 'abort at', 'the reindex'), async (scenario) => {
    corrupt(scenario);
    endless(scenario);
    const run = await start(scenario);
    await people(run);
    await following(run);
    await run.control('abort', { reason: 'too slow' });
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'aborted' });
    expect(report.leftToDo).toContainEqual(expect.stringContaining('it cannot be cancelled'));
    expect(tokensOf(scenario)).toBe(0);
  });
});
