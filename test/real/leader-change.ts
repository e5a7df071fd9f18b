/**
 * The ceremony in a real cluster whose active node steps down, is sealed, or is killed during a generation. Needs three
 * nodes with Raft storage (CONTRIBUTING.md, "Against a real server").
 */
import type { Report } from '../../src/contracts/report';
import { opened } from '../support/recipient';
import type { TestRun } from '../support/scenario';
import { CANCEL, RealCeremonies, UPDATE, sharesGiven } from './ceremony';
import { record, recordedTurns } from './conversation';
import { until } from '../support/by-hand';
import { converseOnLeadership } from './leadership';
import { RealNodes } from './real-nodes';
import { callReal, keySharesOf, provenAndRevoked } from './real-service';
import type { RealCluster } from './real-service';

export function leaderChanges(cluster: RealCluster): void {
  describe('rootTokenCeremony in a real cluster', () => {
    let ceremonies: RealCeremonies;
    let nodes: RealNodes;

    beforeAll(async () => {
      nodes = await RealNodes.of(cluster);
      await nodes.settle();
      ceremonies = await RealCeremonies.begin(cluster);
    });
    afterAll(() => ceremonies.stop());
    beforeEach(() => ceremonies.clear());
    afterEach(() => nodes.settle());

    const attemptAt = async (node: string) =>
      (await callReal(cluster, 'GET', 'sys/generate-root/attempt', { node })).fields;
    const codes = ({ findings }: Report) => findings.map(({ code }) => code);

    /** The token is valid, and no holder was asked twice. If the nodes took too long, an operator decides `retry`. */
    async function endsWithToken(run: TestRun): Promise<Report> {
      const decided = new Set<number>();
      await until('the end of the run', async () => {
        if ((await run.handle.describe()).status.name !== 'RUNNING') return true;
        const { waiting } = await run.status().catch(() => ({ waiting: [] }));
        for (const parked of waiting) {
          if (parked.for !== 'decision' || decided.has(parked.parkingNo)) continue;
          expect(['CONFIRMATION_TIMEOUT', 'ATTEMPT_LOST']).toContain(parked.code);
          decided.add(parked.parkingNo);
          await run.decide('retry');
        }
        return undefined;
      });
      const report = await ceremonies.goodToken(run);
      expect(sharesGiven(report)).toBe(3);
      return report;
    }

    it('its nodes answer as those of the simulated service do', async () => {
      const keyShares = await keySharesOf(cluster);
      const { turns, token } = await converseOnLeadership({ nodes, keyShares });
      await record('leadership-1.21.4.json', turns);
      await provenAndRevoked(cluster, token);
      expect(turns).toEqual(recordedTurns('leadership-1.21.4.json'));
    });

    it.each([
      ['gives up after the first share', 1, () => nodes.stepDown()],
      ['gives up right before the last share', 2, () => nodes.stepDown()],
      ['is sealed in the middle of a generation', 2, () => nodes.seal()],
      ['is killed in the middle of a generation', 2, () => nodes.killActive()],
    ] as const)(
      'an active node that %s is replaced, and no holder is asked again; an attempt of one that keeps running is there when it is back',
      async (how, nth, change) => {
        let former = '';
        ceremonies.afterShare(nth, async () => (former = await change()));
        expect(codes(await endsWithToken(await ceremonies.underWay()))).toEqual([]);
        expect(await nodes.active()).not.toBe(former);
        if (!how.startsWith('gives up')) return;
        await nodes.lead(former);
        expect(await attemptAt(former)).toMatchObject({ started: true, progress: nth });
      },
    );

    it('a leader change under the last share itself leaves an alarm only if its answer does not settle it', async () => {
      ceremonies.at(UPDATE, 3, { before: async () => void (await nodes.stepDown()) });
      const report = await endsWithToken(await ceremonies.underWay());
      const settled = ceremonies.statuses(UPDATE).includes(400);
      expect(codes(report)).toEqual(settled ? [] : ['orphan-root-token']);
    });

    it('a former leader that is back with its attempt in the middle of the next one does not disturb it', async () => {
      let former = '';
      ceremonies.afterShare(2, async () => (former = await nodes.stepDown()));
      // A share of the second attempt: it counts, and then its node steps down too.
      ceremonies.afterShare(4, async () => {
        expect(await nodes.stepDown()).not.toBe(former);
        await nodes.lead(former);
      });
      const report = await endsWithToken(await ceremonies.underWay());
      expect(codes(report)).toEqual([]);
      // The run recognized its own attempt and freed the slot.
      expect(ceremonies.statuses(CANCEL).filter((status) => status !== 307)).toEqual([204]);
    });

    it('waits while every node is sealed, and makes the token when they are unsealed', async () => {
      let sealed: Promise<void> | undefined;
      ceremonies.afterShare(2, () => (sealed = nodes.sealAll()));
      const run = await ceremonies.underWay();
      await until('the seal', () => sealed !== undefined);
      await sealed;
      for (const node of nodes.addresses)
        expect((await callReal(cluster, 'GET', 'sys/generate-root/attempt', { node })).status).toBe(503);
      await nodes.unsealAll();
      expect(codes(await endsWithToken(run))).toEqual([]);
    });

    it('an active node that stops with the answer to the last share leaves a token that is named first', async () => {
      const encoded = ceremonies.losesLastAnswer(() => nodes.killActive());
      const report = await endsWithToken(await ceremonies.underWay());
      expect(report.findings).toMatchObject([{ severity: 'critical', code: 'orphan-root-token' }]);
      // The token outlived its node.
      await provenAndRevoked(cluster, await opened(ceremonies.recipient, encoded()));
    });
  });
}
