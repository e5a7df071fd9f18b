import { randomUUID } from 'node:crypto';
import type { RunbookName } from '../../src/contracts/names';
import { cli } from '../cli/support';
import { approveLongAgo } from '../support/aged-approvals';
import { at, CHANGING, hold, parksInTime, refusePromotion, underWay } from '../support/faults';
import { bringBack, expectServesAlone, expectTakenOver, FAILOVER_LIMITS, takeOverBy } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { replayRun } from '../support/replay';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const planned = new Lane(() => Scenario.start({ limits: FAILOVER_LIMITS }));
const outages = new Lane(() => Scenario.start({ limits: FAILOVER_LIMITS }));

const ask = (scenario: Scenario, input: Readonly<Record<string, unknown>> = {}) =>
  scenario.run('drFailover', input, `ui-${randomUUID()}`);

/** Starts a failover that takes the lock over, and sees that the run became one. */
async function takeOver(
  scenario: Scenario,
  run: TestRun,
  tookOver: RunbookName = 'drSwitchover',
  to?: string,
): Promise<void> {
  const takeOverDocument = await takeOverBy(run, scenario.asked({ to }));
  const starter = await ask(scenario, { takeOver: true, takeOverDocument, to });
  const { runId } = await run.handle.describe();
  expect(await starter.handle.result()).toMatchObject({ outcome: 'handed-over', runId, tookOver });
  await run.until('the failover', ({ runbook }) => runbook === 'drFailover');
}

const invitations = (report: { readonly steps: readonly { readonly name: string }[] }) =>
  report.steps.filter(({ name }) => name.startsWith('Invite the key holders')).length;

describe('a failover that takes the lock over', () => {
  runLanes(planned, outages);

  describe('before an outage', () => {
    const { it } = planned;

    it('at gate plan, with shares collected: no holder is asked for a share again; only with takeOver, and never from a failover', async (scenario) => {
      const run = await scenario.start();
      await run.shares();
      const given = (each: { readonly signal: string }) => each.signal === 'share';
      await run.until('three shares', ({ receipts }) => receipts.filter(given).length === 3);
      await scenario.service.cluster('east').kill();

      const refused = await (await ask(scenario)).failure();
      expect(refused.code).toBe('LOCK_HELD');
      expect(JSON.stringify(refused.details)).toContain('{\\"takeOver\\": true}');
      expect((await run.status()).runbook).toBe('drSwitchover');

      await takeOver(scenario, run);
      await run.waitsFor('approval', ({ gate }) => gate === 'promote');
      expect((await run.status()).waiting.map((each) => each.for)).toEqual(['approval']);
      const shown = async (...words: string[]) => (await cli(words, { env: scenario.environment })).out.split('\n');
      const isFailover = new RegExp(`^${run.handle.workflowId} +drFailover +running`);
      expect((await shown('status', run.handle.workflowId))[0]).toMatch(isFailover);
      // The list of the server comes a moment later.
      const isListed = new RegExp(`^${run.handle.workflowId} +drFailover +${scenario.name} +running`);
      while (!(await shown('list', '--open', '--limit', '200')).some((line) => isListed.test(line)));

      // The signal itself: a failover is a failover already.
      await run.handle.signal('takeOver', { deployment: scenario.name, reason: 'once more' });
      await run.until('the receipt', ({ receipts }) => receipts.some(({ code }) => code === 'failover-already'));
      await run.approve('promote');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], takenOver: { by: { name: 'grace' } } });
      // What a failover may lose is told, and judged, as that of a failover.
      expect(report.runbook).toBe('drFailover');
      expect(report.receipts.filter(given)).toHaveLength(3);
      expect(invitations(report)).toBe(1);
      await expectServesAlone(scenario, 'west');
    });

    it('at the gate of drReindex: asks the holders again if they were asked for something else', async (scenario) => {
      await bringBack(scenario, 'east', 'west');
      const run = await scenario.begin('drReindex', { cluster: 'east', tokenSource: 'ceremony' }, 'shares');
      const { invitation } = await run.status();
      await run.waitsFor('approval', ({ gate }) => gate === 'reindex');
      await scenario.service.cluster('west').kill();
      await takeOver(scenario, run, 'drReindex');
      await run.until('another invitation', (status) => status.invitation !== invitation);
      await run.do('shares', 'approve promote');
      const report = await run.report();

      const result = { from: 'west', to: 'east' };
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], result });
      expect(invitations(report)).toBe(2);
      expect(scenario.calls('east', 'dr/secondary/reindex')).toBe(0);
      await expectServesAlone(scenario, 'east');
    });

    it('at a step that parked before the outage, and from a pause, which it ends', async (scenario) => {
      await bringBack(scenario, 'west', 'east');
      scenario.limit({ catchUp: '1s' });
      scenario.service.cluster('west').holdStream('dr', true);
      const parked = await underWay(scenario);
      await parked.parks('Write a marker on east and wait until west has it');
      await expectTakenOver(scenario, parked, 'drSwitchover');
      scenario.service.cluster('west').holdStream('dr', false);

      const paused = await scenario.start({ go: 'auto' });
      await paused.shares();
      await paused.control('pause', { reason: 'look first' });
      await paused.receiptOf('pause');
      await paused.approve('plan');
      await paused.waitsFor('resume');
      await expectTakenOver(scenario, paused, 'drSwitchover');
      expect((await paused.status()).paused).toBe(false);
      expect(scenario.calls('east', CHANGING.demote)).toBe(0);
      await expectServesAlone(scenario, 'east');
    });
  });

  describe('inside of an outage', () => {
    const { it } = outages;

    it('at a parked step inside of the outage', async (scenario) => {
      scenario.limit({ demote: '2s' });
      // Dead with its demotion: whether it was demoted is not known to the switchover.
      at(scenario, 'after', 'east', CHANGING.demote, (east) => east.kill());
      const run = await underWay(scenario, { onStuck: 'park' });
      await parksInTime(run, 'Demote east');
      scenario.limit();
      await takeOver(scenario, run);
      await run.approve('promote');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', takenOver: { by: { name: 'grace' } } });
      expect(invitations(report)).toBe(1);
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(1);
      // The outage is the switchover's own: it began with the demotion.
      expect(report.outage?.totalMs).toBeGreaterThan(0);
      await expectServesAlone(scenario, 'west');
      await replayRun(run);
    });

    it('is no longer needed if a cluster was being promoted and is then confirmed to serve: the run continues', async (scenario) => {
      await bringBack(scenario, 'east', 'west');
      const { reached, letGo } = hold(scenario, 'after', 'east', CHANGING.promote);
      const run = await underWay(scenario, { to: 'east' });
      await reached;
      const input = { deployment: scenario.name, reason: 'no primary for a minute' };
      await run.handle.signal('takeOver', { ...input, takeOverDocument: await takeOverBy(run, input) });
      await run.receiptOf('takeOver');
      letGo();
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(report.findings.map(({ code }) => code)).toContain('take-over-not-needed');
      // It never became one, and the report does not say so.
      expect(report.takenOver).toBeUndefined();
      expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east' });
      await expectServesAlone(scenario, 'east');
    });

    it('at a refused promotion inside of the outage', async (scenario) => {
      const refusal = refusePromotion(scenario, 'west');
      const run = await underWay(scenario, { onStuck: 'park' });
      await parksInTime(run, 'Promote west');
      // The demoted primary answers: that it is none is proven, and the silence has lasted.
      refusal.remove();
      await scenario.service.cluster('west').kill();
      await takeOver(scenario, run, 'drSwitchover', 'west');
      const refused = await run.parks('Read and check the deployment');
      expect(refused).toMatchObject({
        code: 'PRECONDITION_FAILED',
        choices: [{ action: 'retry' }, { action: 'abort' }],
      });
      expect(refused.message).not.toContain('touched');
      await scenario.service.cluster('west').restart();
      await run.do('retry', 'approve promote');
      const report = await run.report();

      const result = { from: 'east', to: 'west' };
      expect(report).toMatchObject({ outcome: 'completed', result, loss: { loss: 'none' } });
      expect(invitations(report)).toBe(1);
      await expectServesAlone(scenario, 'west');
    });

    it('at a demotion that parked with nothing sent, once the primary is lost: a refusal parks, and the outage is reported', async (scenario) => {
      await bringBack(scenario, 'east', 'west');
      const run = await scenario.start({ to: 'east' });
      await run.people({ go: false });
      await approveLongAgo(scenario, run, 'go');
      await run.parks('Demote west');
      // Nothing was sent: the demotion itself tells of no outage.
      for (const name of ['east', 'west']) await scenario.service.cluster(name).kill();
      await takeOver(scenario, run, 'drSwitchover', 'east');
      await run.parks('Read and check the deployment');
      await scenario.service.cluster('east').restart();
      await run.do('retry', 'approve promote');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', result: { from: 'west', to: 'east' } });
      expect(invitations(report)).toBe(1);
      expect(report.outage).toMatchObject({
        startedBecause: expect.stringContaining('not been confirmed to serve') as string,
      });
      expect(report.outage?.totalMs).toBeGreaterThan(0);
      await expectServesAlone(scenario, 'east');
    });
  });
});
