/**
 * The ceremony against a real server with `sys/generate-root`, which shares its code path with operation tokens. Needs
 * a server with five key shares and threshold three (CONTRIBUTING.md, "Against a real server").
 */
import { opened } from '../support/recipient';
import type { Scenario } from '../support/scenario';
import { ATTEMPT, RealCeremonies, UPDATE, sharesGiven } from './ceremony';
import { converse, record, recordedTurns } from './conversation';
import { activeNode, callReal, keySharesOf, provenAndRevoked } from './real-service';
import type { RealServer } from './real-service';

export function rootTokens(server: RealServer): void {
  describe('rootTokenCeremony against a real server', () => {
    let ceremonies: RealCeremonies;
    let scenario: Scenario;

    beforeAll(async () => {
      ceremonies = await RealCeremonies.begin(server);
      ({ scenario } = ceremonies);
    });
    afterAll(() => ceremonies.stop());
    beforeEach(() => ceremonies.clear());
    afterEach(() => callReal(server, 'DELETE', 'sys/generate-root/attempt'));

    const statuses = (endpoint: string) => ceremonies.statuses(endpoint);
    /** A run whose ceremony is approved. */
    const approved = async () => {
      const run = await ceremonies.start();
      await run.approve('ceremony');
      return run;
    };

    it('answers as the simulated service does', async () => {
      const [address, keyShares] = [await activeNode(server), await keySharesOf(server)];
      const { turns, token } = await converse({ address, keyShares, pgpKey: ceremonies.recipient.publicKey });
      await provenAndRevoked(server, token);
      await record('answers-1.21.4.json', turns);
      expect(turns).toEqual(recordedTurns());
    });

    it('three holders make a root token that its recipient reads, also if a document is appended to the last answer', async () => {
      ceremonies.at(UPDATE, 3, { after: () => 'glued' });
      const report = await ceremonies.goodToken(await ceremonies.underWay());
      expect(report).toMatchObject({ parkings: [], findings: [] });
      expect(statuses(UPDATE)).toEqual([200, 200, 200]);
    });

    it('a share of another cluster is detected at the threshold, and one more holder proves which it is', async () => {
      const run = await approved();
      const { keyShares } = scenario.service.cluster('real');
      const taken = new Set(keyShares.map((share) => share.slice(-2)));
      const [place = ''] = ['ee', 'ed', 'ec', 'eb', 'ea', 'e9'].filter((one) => !taken.has(one));
      // It has the right length, and an x coordinate that no other holder has.
      const foreign = `${'5a'.repeat((keyShares[0]?.length ?? 0) / 2 - 1)}${place}`;
      await run.share('ada', { share: foreign });
      await run.share('bert');
      await run.share('cleo');
      await run.until('the rejection', ({ findings }) => findings.some(({ code }) => code === 'shares-rejected'));
      await run.share('dora');
      const report = await ceremonies.goodToken(run);
      expect(report.findings.map(({ code }) => code)).toEqual(['shares-rejected', 'bad-share']);
      expect(report.findings[1]?.text).toContain('ada');
    });

    it('a share that lacks a byte, and one that two holders give, are reported before the service gets them', async () => {
      const run = await approved();
      const [good = '', second = ''] = scenario.service.cluster('real').keyShares;
      await run.share('ada', { share: good.slice(0, -2) });
      await run.share('bert');
      await run.share('cleo', { share: second });
      await run.share('dora');
      await run.until('the odd one', ({ findings }) => findings.some(({ text }) => text.includes('ada')));
      await run.share('ada', { seq: 2 });
      const report = await ceremonies.goodToken(run);
      expect(report.findings.map(({ code }) => code)).toEqual(['shares-rejected']);
      const refused = report.receipts.filter(({ verdict }) => verdict === 'refused');
      expect(refused.map(({ from, code }) => [from?.name, code])).toContainEqual(['cleo', 'same-share-as-another']);
      expect(statuses(UPDATE)).toEqual([200, 200, 200]);
    });

    it('an attempt that is gone in the middle of a generation is made again with the same shares', async () => {
      ceremonies.afterShare(2, () => callReal(server, 'DELETE', 'sys/generate-root/attempt'));
      const report = await ceremonies.goodToken(await ceremonies.underWay());
      expect(report).toMatchObject({ parkings: [], findings: [] });
      expect(sharesGiven(report)).toBe(3);
      // The read before the last share notices that the attempt is gone, so no share is given to it.
      expect([statuses(ATTEMPT), statuses(UPDATE)]).toEqual([
        [200, 200],
        [200, 200, 200, 200, 200],
      ]);
    });

    it('a lost answer to the last share leaves a token that nobody holds: it is named first, and another is generated', async () => {
      const encoded = ceremonies.losesLastAnswer();
      const report = await ceremonies.goodToken(await ceremonies.underWay());
      expect(report.findings).toMatchObject([{ severity: 'critical', code: 'orphan-root-token' }]);
      expect(sharesGiven(report)).toBe(3);
      expect([statuses(ATTEMPT), statuses(UPDATE)]).toEqual([
        [200, 200],
        [200, 200, 200, 200, 200, 200],
      ]);
      // The alarm was correct.
      await provenAndRevoked(server, await opened(ceremonies.recipient, encoded()));
    });

    it('an attempt of somebody else is left alone: the run parks and continues when it has ended', async () => {
      const run = await approved();
      await run.share('ada');
      await run.share('bert');
      await run.waitsFor('shares', ({ held }) => held.length === 2);
      expect((await callReal(server, 'POST', 'sys/generate-root/attempt', { body: {} })).status).toBe(200);
      await run.share('cleo');
      const parked = await run.waitsFor('decision');
      expect(parked.code).toBe('ATTEMPT_FOREIGN');
      const there = await callReal(server, 'GET', 'sys/generate-root/attempt');
      expect(there.fields).toMatchObject({ started: true, progress: 0 });
      expect((await callReal(server, 'DELETE', 'sys/generate-root/attempt')).status).toBe(204);
      await run.decide('retry');
      await ceremonies.goodToken(run);
    });
  });
}
