import { randomUUID } from 'node:crypto';
import { CHANGING, signalled } from '../support/faults';
import { FAILOVER_LIMITS, bringBack, expectServesAlone } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { cell } from '../support/matrix';
import { at, parksInTime, refusePromotion, underWay } from '../support/outage';
import { replayRun } from '../support/replay';
import { takeOverBy } from '../support/take-over';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const planned = new Lane(() => Scenario.start({ limits: FAILOVER_LIMITS }));
const outages = new Lane(() => Scenario.start({ limits: FAILOVER_LIMITS }));

const ask = (scenario: Scenario, input: Readonly<Record<string, unknown>> = {}) =>
  scenario.run('drFailover', input, `ui-${randomUUID()}`);

/** Starts a failover that takes the lock over, and sees that the run became one. */
async function takeOver(scenario: Scenario, run: TestRun, tookOver = 'drSwitchover'): Promise<void> {
  const starter = await ask(scenario, { takeOver: true, takeOverDocument: await takeOverBy(run) });
  const { runId } = await run.handle.describe();
  expect(await starter.handle.result()).toMatchObject({ outcome: 'handed-over', runId, tookOver });
  await run.until('the failover', ({ runbook }) => runbook === 'drFailover');
}

const invitations = (report: { readonly steps: readonly { readonly name: string }[] }) =>
  report.steps.filter(({ name }) => name.startsWith('Invite the key holders')).length;

describe('a failover that takes the lock over', () => {
  runLanes(planned, outages);

  planned.it(
    `${cell('drSwitchover', 'taken over at', 'gate plan, with shares in hand')}: nobody is asked for a share again; only with takeOver, and never from a failover`,
    async (scenario) => {
      const run = await scenario.start();
      await run.shares();
      await run.until(
        'three shares',
        ({ receipts }) => receipts.filter(({ signal }) => signal === 'share').length === 3,
      );
      await scenario.service.cluster('east').kill();

      const refused = await (await ask(scenario)).failure();
      expect(refused.code).toBe('LOCK_HELD');
      expect(JSON.stringify(refused.details)).toContain('{\\"takeOver\\": true}');
      expect((await run.status()).runbook).toBe('drSwitchover');

      await takeOver(scenario, run);
      await run.waitsFor('approval', ({ gate }) => gate === 'promote');
      const { waiting } = await run.status();
      expect(waiting.map((each) => each.for)).toEqual(['approval']);

      // The signal itself: a failover is a failover already.
      await run.handle.signal('takeOver', { deployment: scenario.name, reason: 'once more' });
      await run.until('the receipt', ({ receipts }) => receipts.some(({ code }) => code === 'failover-already'));
      await run.approve('promote');
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', parkings: [], takenOver: { by: 'grace' } });
      expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
      expect(invitations(report)).toBe(1);
      await expectServesAlone(scenario, 'west');
    },
  );

  planned.it('asks the holders anew where they were asked for something else', async (scenario) => {
    await bringBack(scenario, 'east', 'west');
    const run = await scenario.run('drReindex', { cluster: 'east', tokenSource: 'ceremony' });
    await run.shares();
    const { invitation } = await run.status();
    await run.waitsFor('approval');
    await scenario.service.cluster('west').kill();
    await takeOver(scenario, run, 'drReindex');
    await run.until('another invitation', (status) => status.invitation !== invitation);
    await run.shares();
    await run.approve('promote');
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', parkings: [], result: { from: 'west', to: 'east' } });
    expect(invitations(report)).toBe(2);
    expect(scenario.calls('east', 'dr/secondary/reindex')).toBe(0);
    await expectServesAlone(scenario, 'east');
  });

  outages.it(cell('drSwitchover', 'taken over at', 'a parked step inside of the outage'), async (scenario) => {
    scenario.limit({ demote: '2s' });
    // Dead with its demotion: whether it was demoted is not known to the switchover.
    at(scenario, 'after', 'east', CHANGING.demote, (east) => east.kill());
    const run = await underWay(scenario, { onStuck: 'park' });
    await parksInTime(run, ({ step }) => step === 'Demote east');
    scenario.limit();
    await takeOver(scenario, run);
    await run.approve('promote');
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', takenOver: { by: 'grace' } });
    expect(invitations(report)).toBe(1);
    expect(scenario.calls('west', 'dr/secondary/promote')).toBe(1);
    // The outage is the switchover's own: it began with the demotion.
    expect(report.outage?.totalMs).toBeGreaterThan(0);
    await expectServesAlone(scenario, 'west');
    await replayRun(run);
  });

  outages.it(
    'is not needed any more where a cluster was being promoted and is then seen to serve: the run goes on',
    async (scenario) => {
      await bringBack(scenario, 'east', 'west');
      const promoting = signalled();
      const heard = signalled();
      at(scenario, 'after', 'east', CHANGING.promote, () => {
        promoting.resolve();
        return heard.promise;
      });
      const run = await underWay(scenario, { to: 'east' });
      await promoting.promise;
      const input = { deployment: scenario.name, reason: 'no primary for a minute' };
      await run.handle.signal('takeOver', { ...input, takeOverDocument: await takeOverBy(run) });
      await run.until('the receipt', ({ receipts }) => receipts.some(({ signal }) => signal === 'takeOver'));
      heard.resolve();
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
      expect(report.findings.map(({ code }) => code)).toContain('take-over-not-needed');
      expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east' });
      await expectServesAlone(scenario, 'east');
    },
  );

  outages.it(cell('drSwitchover', 'taken over at', 'a refused promotion inside of the outage'), async (scenario) => {
    const refusal = refusePromotion(scenario, 'west');
    const run = await underWay(scenario, { onStuck: 'park' });
    await parksInTime(run, ({ step }) => step === 'Promote west');
    // The demoted primary answers: that it is none is proven, and the silence has lasted.
    refusal.remove();
    await takeOver(scenario, run);
    await run.approve('promote');
    const report = await run.report();

    expect(report).toMatchObject({
      outcome: 'completed',
      result: { from: 'east', to: 'west' },
      loss: { loss: 'none' },
    });
    expect(invitations(report)).toBe(1);
    await expectServesAlone(scenario, 'west');
  });
});
