/**
 * Merkle trees. `merkleCheck` changes nothing but the tokens that it makes and deletes: the check cannot be skipped, because
 * it is all that the run does; it holds no lock of a deployment, so that no failover takes it over. `drReindex` checks,
 * rebuilds the tree behind its gate, follows that to its end, and checks again.
 */
import { CHANGING, loseAnswers, refuse, statuses } from '../support/faults';
import { until } from '../support/by-hand';
import { Lane, runLanes } from '../support/lane';
import { expectFewEvents } from '../support/matrix';
import { clusters, Scenario } from '../support/scenario';
import type { Deed, TestRun } from '../support/scenario';

const DR = '/v1/sys/replication/dr/secondary';
const MERKLE_CHECK = `POST ${DR}/merkle-check`;
const REINDEX = `POST ${DR}/reindex`;
const timing = { reindexMs: 1_200 };

/** Clusters of other names: the lock of a check is the cluster's. */
const checking = new Lane(() => {
  const dr = [{ primary: 'north', secondaries: ['south'] }];
  return Scenario.start({ topology: { clusters: clusters('north', 'south'), dr } });
});
const rebuilding = new Lane(() => Scenario.start({ topology: { timing } }));
/** Nobody is asked for key shares. */
const byBatchToken = new Lane(async () => {
  const scenario = await Scenario.start({ topology: { timing }, batchToken: true });
  scenario.makeBatchToken();
  return scenario;
});

const corrupt = (scenario: Scenario) => {
  const west = scenario.service.cluster('west');
  west.corruptedPages = { tree: 'replicated', page: 5, subpages: [28, 30] };
  west.reindex = undefined;
};
const underWay = () => ({ startedAt: Date.now() - 36_000_000, endsAt: Date.now() + 36_000_000 });

/** The next reindex does not end by itself. */
const endless = ({ service: { faults } }: Scenario) =>
  faults.add({
    cluster: 'west',
    endpoint: REINDEX,
    when: 'after',
    action: (west) => void (west.reindex = underWay()),
  });

async function following(run: TestRun): Promise<void> {
  await until('the reindex is followed', async () => {
    const { raw } = await run.handle.describe();
    return raw.pendingActivities?.some(({ activityType }) => activityType?.name === 'followDrReindex');
  });
}

describe('Merkle trees', () => {
  runLanes(checking, rebuilding, byBatchToken);

  describe('merkleCheck', () => {
    describe('by a token of the holders', () => {
      const { it } = checking;
      const check = (scenario: Scenario, ...deeds: readonly Deed[]) =>
        scenario.begin('merkleCheck', { cluster: 'south' }, ...deeds);
      const expectDeleted = (scenario: Scenario, { tokens }: Awaited<ReturnType<TestRun['report']>>) => {
        expect(tokens).toMatchObject([{ cluster: 'south', state: 'deleted' }]);
        expect(scenario.state('south').operationTokens).toBe(0);
      };

      it('a sound tree leaves no work', async (scenario) => {
        const run = await check(scenario, 'shares');
        const report = await run.report();
        expect(report).toMatchObject({ outcome: 'completed', leftToDo: [], findings: [] });
        expect(report.result).toMatchObject({ merkle: { cluster: 'south', verdict: 'sound', damage: [] } });
        expectDeleted(scenario, report);
        await expectFewEvents('merkleCheck', run);
      });

      it('parked, retry and abort: the check is refused, and its token is deleted', async (scenario) => {
        refuse(scenario, 'south', MERKLE_CHECK, 400);
        const CHECK = 'Check the Merkle tree of south';
        const run = await check(scenario, 'shares', `retry ${CHECK}`);
        await run.parks(CHECK, 1);
        await run.do('abort');
        const report = await run.report();
        const parkings = ['retry', 'abort'].map((action) => ({ decision: { action } }));
        expect(report).toMatchObject({ outcome: 'aborted', parkings });
        expect(report.result).toBeUndefined();
        expectDeleted(scenario, report);
      });

      it('parked, skip: the deletion of the tokens', async (scenario) => {
        // The record cannot be read when the token is to be deleted.
        scenario.service.faults.add({ cluster: 'south', endpoint: MERKLE_CHECK, action: () => scenario.breakRecord() });
        const report = await (await check(scenario, 'shares', 'skip Delete the operation tokens')).report();
        await scenario.repairRecord();
        expect(report).toMatchObject({ outcome: 'completed', result: { merkle: { verdict: 'sound' } } });
        expect(report.leftToDo).toContainEqual(expect.stringContaining('"Delete the operation tokens" was skipped'));
        expect(scenario.state('south').operationTokens).toBe(1);
      });
    });

    describe('by a batch token', () => {
      const { it } = byBatchToken;
      const west = { cluster: 'west' };

      it('damage is reported by subtree, page and subpage, as a critical finding that names the reindex', async (scenario) => {
        corrupt(scenario);
        const report = await scenario.play('merkleCheck', west);
        const damage = [{ subtree: '1', treeType: 'replicated', rootCorrupted: true, pages: 1, subpages: 2 }];
        expect(report.result).toMatchObject({ merkle: { verdict: 'corrupted', rootCorrupted: true, damage } });
        expect(report.findings).toMatchObject([{ severity: 'critical', code: 'merkle-tree-corrupted' }]);
        expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([]);
        scenario.service.cluster('west').corruptedPages = undefined;
      });

      it('refused: a primary, and a tree that is being reindexed', async (scenario) => {
        const { service } = scenario;
        expect(await scenario.refusal('merkleCheck', { cluster: 'east' })).toContain(
          'DR secondary (east): observed primary',
        );
        service.cluster('west').reindex = underWay();
        expect(await scenario.refusal('merkleCheck', west)).toContain('no reindex under way');
        service.cluster('west').reindex = undefined;
        expect(await scenario.play('merkleCheck', { ...west, dryRun: true })).toMatchObject({ outcome: 'planned' });
        expect(statuses(scenario, 'west', MERKLE_CHECK)).toEqual([]);
      });
    });
  });

  describe('drReindex', () => {
    const reindex = (scenario: Scenario, input: object, ...deeds: readonly Deed[]) =>
      scenario.begin('drReindex', { cluster: 'west', ...input }, ...deeds);
    const tokensOf = (scenario: Scenario) => scenario.state('west').operationTokens;

    describe('by a token of the holders', () => {
      const { it } = rebuilding;

      it('a corrupted tree is sound afterwards', async (scenario) => {
        corrupt(scenario);
        const run = await reindex(scenario, { skipFlush: true }, 'shares', 'approve reindex');
        const report = await run.report();
        expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
        expect(report.result).toMatchObject({
          before: { verdict: 'corrupted' },
          reindex: { epoch: expect.any(Number) as number },
          after: { verdict: 'sound' },
        });
        expect(report.leftToDo).toEqual([expect.stringContaining('Do not kill a node of west')]);
        const detail = 'diff=false, force=false, skip_flush=true';
        expect(report.plan?.content).toMatchObject({ operations: [{ endpoint: 'secondary/reindex', detail }] });
        expect(report.plan?.content.warnings.join(' ')).toMatch(/only DR secondary.*skip_flush: .*do not kill a node/);
        expect(statuses(scenario, 'west', REINDEX)).toEqual([200]);
        expect(tokensOf(scenario)).toBe(0);
        await expectFewEvents('drReindex', run);
      });

      it('lost answers: attempt start, share, check, reindex, deletion; a sound tree, with force', async (scenario) => {
        const { startAttempt, giveShare, deleteToken } = CHANGING;
        const lost = [startAttempt, giveShare, [MERKLE_CHECK, 2], REINDEX, deleteToken] as const;
        loseAnswers(scenario, { west: lost });
        const run = await reindex(scenario, { force: true, diff: true }, 'shares', 'approve reindex');
        expect(await run.report()).toMatchObject({
          ...{ outcome: 'completed', parkings: [], leftToDo: [] },
          result: { before: { verdict: 'sound' }, after: { verdict: 'sound' } },
        });
        expect(statuses(scenario, 'west', REINDEX)).toEqual([0]);
        expect(tokensOf(scenario)).toBe(0);
      });

      it('refused: a sound tree, without force', async (scenario) => {
        const run = await reindex(scenario, {}, 'shares', 'approve reindex');
        const { code, message } = await run.failure();
        expect([code, message]).toEqual(['PRECONDITION_FAILED', expect.stringContaining('is sound')]);
        expect(statuses(scenario, 'west', REINDEX)).toEqual([]);
        expect(tokensOf(scenario)).toBe(0);
      });
    });

    describe('by a batch token', () => {
      const { it } = byBatchToken;

      it('parked, retry: begun with approvals that were asked for again; one that got lost is started again; parked, skip: the check after', async (scenario) => {
        corrupt(scenario);
        endless(scenario);
        scenario.service.faults.add({
          cluster: 'west',
          endpoint: MERKLE_CHECK,
          action: { status: 403 },
          skip: 2,
          times: Infinity,
        });
        const run = await reindex(scenario, {}, 'renew reindex');
        await following(run);
        // A node was killed.
        scenario.service.cluster('west').reindex = undefined;
        expect(await run.parks()).toMatchObject({ step: 'Reindex west', code: 'STATE_DIVERGED' });
        await run.do('retry');
        const refused = await run.parks('Check the Merkle tree of west after');
        expect(refused.observed).toBe('west refused the batch token');
        expect(refused.next).toContain('another run with {"tokenSource": "ceremony"}');
        await run.do('skip Check the Merkle tree of west after');
        const report = await run.report();
        expect(report).toMatchObject({ outcome: 'completed', result: { after: { verdict: 'skipped' } } });
        expect(report.leftToDo).toEqual([
          expect.stringContaining('unknown whether the reindex helped'),
          expect.stringContaining('CRITICAL: The Merkle tree of west is corrupted'),
        ]);
        expect(statuses(scenario, 'west', REINDEX)).toEqual([200, 200]);
      });

      it('refused: a primary, a failover under way, a reindex under way, a rejected gate', async (scenario) => {
        const [east, west] = [scenario.service.cluster('east'), scenario.service.cluster('west')];
        const refusal = (cluster = 'west') => scenario.refusal('drReindex', { cluster });
        expect(await refusal('east')).toContain('DR secondary (east): observed primary');
        west.reindex = underWay();
        expect(await refusal()).toContain('no reindex under way');
        west.reindex = undefined;
        await east.kill();
        expect(await refusal()).toContain('no change of the primary under way');
        await east.restart();
        const rejected = await reindex(scenario, {}, 'reject reindex');
        expect(await rejected.report()).toMatchObject({ outcome: 'aborted', gates: [{ state: 'rejected' }] });
        expect(statuses(scenario, 'west', REINDEX)).toEqual([]);
      });

      it('abort at the reindex', async (scenario) => {
        corrupt(scenario);
        endless(scenario);
        const run = await reindex(scenario, {}, 'approve reindex');
        await following(run);
        await run.control('abort', { reason: 'too slow' });
        const report = await run.report();
        expect(report).toMatchObject({ outcome: 'aborted' });
        expect(JSON.stringify(report)).toContain('reindex in progress: building, 500 of 1000');
        expect(report.leftToDo).toContainEqual(expect.stringContaining('It cannot be cancelled'));
      });
    });
  });
});
