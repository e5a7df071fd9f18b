import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { approveAgain, approveLongAgo } from '../support/aged-approvals';
import { CHANGING, drPrimaries, expectServiceOn, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { at } from '../support/outage';
import { Scenario, temporaryDirectory } from '../support/scenario';

const HOUR_MS = 3_600_000;

const batchFile = join(temporaryDirectory('batch'), 'batch-token');
const prepared = new Lane(() => Scenario.start({ cluster: () => ({ batchToken: { file: batchFile } }) }));
/** Makes an orphan batch token on the primary and puts it where the inventory says. */
function makeBatchToken(scenario: Scenario, primary: string, ttlMs: number): void {
  const cluster = scenario.service.cluster(primary);
  cluster.writePolicy('dr-operations', [{ path: 'sys/replication/dr/secondary/*', capabilities: ['read', 'update'] }]);
  writeFileSync(batchFile, cluster.createToken({ policies: ['dr-operations'], type: 'batch', ttlMs }), { mode: 0o600 });
}

describe('where the operation tokens come from', () => {
  runLanes(prepared);

  prepared.it(
    'auto falls back to the ceremony where the batch token would not outlive the run by the margin',
    async (scenario) => {
      makeBatchToken(scenario, 'east', HOUR_MS / 4);
      const run = await scenario.start({ go: 'auto' });
      await run.people({ go: false });
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(report.plan?.content.choices['tokenSource']).toBe('ceremony');
      expect(report.tokens.map(({ cluster, state }) => [cluster, state])).toEqual([
        ['west', 'kept'],
        ['east', 'deleted'],
      ]);
      await expectServiceOn(scenario, 'west');
    },
  );

  prepared.it(
    'a batch run deletes what an earlier ceremony had to leave behind while its cluster was primary',
    async (scenario) => {
      expect(scenario.state('west').operationTokens).toBe(1);
      makeBatchToken(scenario, 'west', 2 * HOUR_MS);
      const run = await scenario.start({ to: 'east', go: 'auto', tokenSource: 'batch' });
      // Without a go the approvals of the plan are what may be too old right before the demotion.
      await approveLongAgo(scenario, run, 'plan');
      await approveAgain(run, 'plan');
      const report = await run.report();

      expect(report.outcome).toBe('completed');
      expect(report.gates.map(({ gate, state }) => [gate, state])).toEqual([
        ['plan', 'approved'],
        ['plan', 'approved'],
      ]);
      expect(statuses(scenario, 'west', CHANGING.demote)).toEqual([200]);
      expect(scenario.state('west').operationTokens).toBe(0);
      expect(report.tokens).toContainEqual(expect.objectContaining({ cluster: 'west', state: 'deleted' }));
      await expectServiceOn(scenario, 'east');
    },
  );

  prepared.it(
    'a batch token that both clusters refuse in the outage: the holders are asked for the way back',
    async (scenario) => {
      makeBatchToken(scenario, 'east', 2 * HOUR_MS);
      at(scenario, 'after', 'east', CHANGING.demote, () => {
        for (const name of ['east', 'west']) scenario.service.cluster(name).writePolicy('dr-operations', []);
      });
      const run = await scenario.start({ to: 'west', go: 'auto', tokenSource: 'batch' });
      await run.people({ shares: [], go: false });
      await run.waitsFor('shares');
      expect(drPrimaries(scenario)).toEqual([]);
      await run.shares();
      const report = await run.report();

      expect(report.outcome).toBe('rolled-back');
      const came = expect.objectContaining({
        code: 'SHARES_MISSING',
        endedAt: expect.any(String) as string,
      }) as unknown;
      expect(report.parkings).toContainEqual(came);
      expect(report.findings).toContainEqual(expect.objectContaining({ code: 'batch-token-refused' }));
      expect(statuses(scenario, 'west', CHANGING.promote)).toEqual([403]);
      expect(statuses(scenario, 'east', CHANGING.promote)).toEqual([403, 200]);
      await expectServiceOn(scenario, 'east');
    },
  );
});
