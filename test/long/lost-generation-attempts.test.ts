import { request } from 'undici';
import type { SimulatedCluster } from '../../src/simulator';
import { CHANGING, expectServiceOn, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { at, underWay } from '../support/outage';
import { pair, Scenario } from '../support/scenario';

const ATTEMPT = '/v1/sys/replication/dr/secondary/generate-operation-token/attempt';
const CANCEL = `DELETE ${ATTEMPT}`;

const changes = new Lane(() => Scenario.start({ topology: pair(3) }));
const others = new Lane(() => Scenario.start({ topology: pair(3) }));

/** Somebody else's call on the attempt slot of a cluster. */
async function strangerCalls(cluster: SimulatedCluster, method: 'POST' | 'DELETE', more = {}): Promise<number> {
  const options = { method, body: JSON.stringify(more) };
  const { statusCode, body } = await request(`${cluster.apiAddress}${ATTEMPT}`, options);
  await body.dump();
  return statusCode;
}

/** Shares that holders gave in the run: each was asked once. */
const sharesGiven = (report: { readonly receipts: readonly { readonly signal: string }[] }) =>
  report.receipts.filter(({ signal }) => signal === 'share').length;

/**
 * An attempt lives in the memory of one node. What happens to that node costs another attempt with the shares in hand,
 * never another word with the holders.
 */
describe('a generation attempt that is lost in the middle of a generation', () => {
  runLanes(changes, others);

  changes.it(
    'by a leader change or a restart of its node is made again with the same shares; by one with the last share it is not',
    async (scenario) => {
      const west = scenario.service.cluster('west');
      const restart = async () => {
        const active = west.snapshotState().activeNode ?? 0;
        await west.killNode(active);
        await west.startNode(active);
      };
      // West in the burst before the outage, east in the one after it.
      at(scenario, 'after', 'west', CHANGING.giveShare, () => west.leaderChange(), 1);
      at(scenario, 'after', 'west', CHANGING.giveShare, restart, 3);
      at(scenario, 'after', 'east', CHANGING.giveShare, (east) => east.leaderChange(), 3);
      const run = await underWay(scenario);
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
      expect(sharesGiven(report)).toBe(3);
      expect(statuses(scenario, 'west', CHANGING.startAttempt).length).toBeGreaterThanOrEqual(3);
      expect(statuses(scenario, 'east', CHANGING.startAttempt)).toHaveLength(1);
      expect(west.snapshotState().operationTokens).toBe(1);
      expect(scenario.state('east').operationTokens).toBe(0);
      await expectServiceOn(scenario, 'west');
    },
  );

  changes.it(
    'and comes back with its old leader is told from the new one: its progress is not trusted',
    async (scenario) => {
      const east = scenario.service.cluster('east');
      const first = east.snapshotState().activeNode ?? 0;
      const second = (first + 1) % 3;
      at(scenario, 'after', 'east', CHANGING.giveShare, () => east.leaderChange(second), 1);
      // The new attempt has taken one share when the old one, which has one too, is back.
      at(scenario, 'after', 'east', CHANGING.giveShare, () => east.leaderChange(first), 3);
      const run = await underWay(scenario, { to: 'east' });
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
      expect(sharesGiven(report)).toBe(3);
      expect(report.findings.filter(({ severity }) => severity === 'critical')).toEqual([]);
      expect(east.snapshotState().operationTokens).toBe(1);
      await expectServiceOn(scenario, 'east');
    },
  );

  others.it(
    'is not touched where it is somebody else’s: the run parks until its owner frees the slot',
    async (scenario) => {
      const west = scenario.service.cluster('west');
      const run = await scenario.start({ go: 'auto' });
      await run.until('an invitation', ({ invitation }) => invitation);
      expect(await strangerCalls(west, 'POST')).toBe(200);
      await run.people({ go: false });
      const parked = await run.waitsFor('decision', ({ code }) => code === 'ATTEMPT_FOREIGN');
      expect(parked).toMatchObject({
        step: 'Generate operation token on west',
        observed: expect.stringMatching(
          /^attempt [0-9a-f]{8} with a one-time password, 0 of 3 key shares given$/,
        ) as string,
        needed: 'the free slot, or our own attempt',
      });
      await run.decide('retry');
      await run.waitsFor('decision', ({ parkingNo }) => parkingNo === parked.parkingNo + 1);
      expect(statuses(scenario, 'west', CANCEL)).toEqual([]);
      expect(statuses(scenario, 'west', CHANGING.giveShare)).toEqual([]);

      expect(await strangerCalls(west, 'DELETE')).toBe(204);
      await run.decide('retry');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(sharesGiven(report)).toBe(3);
      // The owner's own call is the only one that cancelled anything.
      expect(statuses(scenario, 'west', CANCEL)).toEqual([204]);
      await expectServiceOn(scenario, 'west');
    },
  );

  others.it('is not touched either where it takes the slot in the middle of our burst', async (scenario) => {
    const east = scenario.service.cluster('east');
    // The node loses our attempt, and somebody is faster than we are.
    at(
      scenario,
      'after',
      'east',
      CHANGING.giveShare,
      async () => {
        expect(await strangerCalls(east, 'DELETE')).toBe(204);
        expect(await strangerCalls(east, 'POST')).toBe(200);
      },
      2,
    );
    const run = await underWay(scenario, { to: 'east' });
    await run.waitsFor('decision', ({ code }) => code === 'ATTEMPT_FOREIGN');
    expect(statuses(scenario, 'east', CANCEL)).toEqual([204]);
    await run.decide('abort');
    const report = await run.report();

    expect(report.outcome).toBe('aborted');
    expect(statuses(scenario, 'east', CANCEL)).toEqual([204]);
    expect(scenario.calls('west', 'dr/primary/demote')).toBe(0);
    await expectServiceOn(scenario, 'west');
  });
});
