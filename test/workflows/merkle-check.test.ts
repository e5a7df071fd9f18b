import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CHANGING, loseAnswer, signalled, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { cell, expectFewEvents } from '../support/matrix';
import { Scenario, temporaryDirectory } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const MERKLE_CHECK = 'POST /v1/sys/replication/dr/secondary/merkle-check';
const directory = temporaryDirectory('merkle');
const batchFile = join(directory, 'batch-token');

/**
 * `merkleCheck` changes nothing but the tokens that it makes and deletes. The check itself cannot be skipped, because it
 * is all that the run does; the deletion of the tokens can. It holds no lock of a deployment: no failover takes it over.
 */
const lane = new Lane(() => Scenario.start({ cluster: () => ({ batchToken: { file: batchFile } }) }));
/** Clusters of other names: the lock of a check is the cluster's. */
const ceremony = new Lane(() =>
  Scenario.start({
    topology: {
      clusters: ['north', 'south'].map((name) => ({ name, nodes: 1 })),
      dr: [{ primary: 'north', secondaries: ['south'] }],
    },
  }),
);

type Input = Readonly<Record<string, unknown>> & { readonly cluster?: string };

const start = (scenario: Scenario, { cluster = 'west', ...input }: Input = {}): Promise<TestRun> => {
  return scenario.run('merkleCheck', { cluster, ...input }, `merkle-check:${cluster}`);
};

function makeBatchToken(scenario: Scenario): void {
  const east = scenario.service.cluster('east');
  east.writePolicy('dr-operations', [{ path: 'sys/replication/dr/secondary/*', capabilities: ['read', 'update'] }]);
  writeFileSync(batchFile, east.createToken({ policies: ['dr-operations'], type: 'batch', ttlMs: 7_200_000 }), {
    mode: 0o600,
  });
}

describe('merkleCheck', () => {
  runLanes(lane, ceremony);

  ceremony.it(cell('merkleCheck', 'no fault', 'by ceremony, sound'), async (scenario) => {
    const run = await start(scenario, { cluster: 'south' });
    await run.shares();
    const report = await run.report();

    expect(report).toMatchObject({
      outcome: 'completed',
      leftToDo: [],
      findings: [],
      result: { merkle: { cluster: 'south', verdict: 'sound', damage: [] } },
    });
    expect(report.tokens.map(({ cluster, state }) => [cluster, state])).toEqual([['south', 'deleted']]);
    expect(scenario.state('south').operationTokens).toBe(0);
    await expectFewEvents('merkleCheck', run);
  });

  ceremony.it(
    cell('merkleCheck', 'lost answer', 'attempt start, share, merkle-check, token deletion'),
    async (scenario) => {
      const lost = [
        loseAnswer(scenario, 'south', CHANGING.startAttempt),
        loseAnswer(scenario, 'south', CHANGING.giveShare),
        loseAnswer(scenario, 'south', MERKLE_CHECK, 2),
        loseAnswer(scenario, 'south', CHANGING.deleteToken),
      ];
      const run = await start(scenario, { cluster: 'south' });
      await run.shares();
      expect(await run.report()).toMatchObject({
        outcome: 'completed',
        parkings: [],
        result: { merkle: { verdict: 'sound' } },
      });
      expect(lost.map(({ hits }) => hits)).toEqual([1, 1, 1, 1]);
      expect(scenario.state('south').operationTokens).toBe(0);
    },
  );

  ceremony.it(cell('merkleCheck', 'parked, skip', 'deletion of the tokens'), async (scenario) => {
    // The record cannot be read when the token is to be deleted.
    scenario.service.faults.add({
      cluster: 'south',
      endpoint: MERKLE_CHECK,
      action: () => scenario.breakRecord(),
    });
    const run = await start(scenario, { cluster: 'south' });
    await run.shares();
    await run.decide('skip', 'Delete the operation tokens');
    const report = await run.report();
    await scenario.mendRecord();

    expect(report).toMatchObject({ outcome: 'completed', result: { merkle: { verdict: 'sound' } } });
    expect(report.leftToDo).toContainEqual(expect.stringContaining('"Delete the operation tokens" was skipped'));
    expect(scenario.state('south').operationTokens).toBe(1);
  });

  ceremony.it(cell('merkleCheck', 'abort at', 'key shares'), async (scenario) => {
    const run = await start(scenario, { cluster: 'south' });
    await run.share('ada');
    await run.control('abort', { reason: 'not needed' });
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'aborted' });
    expect(statuses(scenario, 'south', CHANGING.startAttempt)).toEqual([]);
    // What the run before left is deleted all the same.
    expect(report.tokens.map(({ cluster, state }) => [cluster, state])).toEqual([['south', 'deleted']]);
    expect(scenario.state('south').operationTokens).toBe(0);
  });

  lane.it(
    'damage is told by subtree, page and subpage, as a critical finding that names the reindex',
    async (scenario) => {
      makeBatchToken(scenario);
      scenario.service.cluster('west').corruptedPages = { tree: 'replicated', page: 5, subpages: [28, 30] };
      const report = await (await start(scenario)).report();

      expect(report.result).toMatchObject({
        merkle: {
          verdict: 'corrupted',
          rootCorrupted: true,
          damage: [{ subtree: '1', treeType: 'replicated', rootCorrupted: true, pages: 1, subpages: 2 }],
        },
      });
      expect(report.findings).toEqual([
        expect.objectContaining({ severity: 'critical', code: 'merkle-tree-corrupted' }),
      ]);
      expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([]);
      scenario.service.cluster('west').corruptedPages = undefined;
    },
  );

  lane.it(cell('merkleCheck', 'parked, retry', 'the check is refused'), async (scenario) => {
    scenario.service.faults.add({ cluster: 'west', endpoint: MERKLE_CHECK, action: { status: 400 } });
    const run = await start(scenario);
    await run.decide('retry', 'Check the Merkle tree of west');
    expect(await run.report()).toMatchObject({ outcome: 'completed', result: { merkle: { verdict: 'sound' } } });
  });

  lane.it(cell('merkleCheck', 'abort at', 'the check'), async (scenario) => {
    const over = signalled();
    const slow = scenario.service.faults.add({
      cluster: 'west',
      endpoint: MERKLE_CHECK,
      action: () => over.promise,
      times: Infinity,
    });
    const run = await start(scenario);
    await run.until('the check', ({ steps }) => steps.some(({ name }) => name.startsWith('Check the Merkle')));
    await run.until('the call', () => slow.hits > 0);
    await run.control('abort', { reason: 'too slow' });
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    over.resolve();
  });

  lane.it(cell('merkleCheck', 'refused', 'a primary, and a tree that is being reindexed'), async (scenario) => {
    expect(await (await start(scenario, { cluster: 'east' })).failure()).toMatchObject({
      code: 'PRECONDITION_FAILED',
      message: expect.stringContaining('DR secondary (east): observed primary') as string,
    });
    scenario.service.cluster('west').reindex = { startedAt: Date.now(), endsAt: Date.now() + 3_600_000 };
    expect(await (await start(scenario)).failure()).toMatchObject({
      code: 'PRECONDITION_FAILED',
      message: expect.stringContaining('no reindex under way') as string,
    });
    scenario.service.cluster('west').reindex = undefined;
    expect(await (await start(scenario, { dryRun: true })).report()).toMatchObject({ outcome: 'planned' });
    expect(statuses(scenario, 'west', MERKLE_CHECK)).toEqual([]);
  });
});
