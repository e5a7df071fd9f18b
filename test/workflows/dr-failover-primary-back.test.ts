/** A failover that waits for people, and whose primary comes back by itself meanwhile. */
import { nextCommandOf } from '../../src/contracts/next-commands';
import { CHANGING, statuses } from '../support/faults';
import { expectServesAlone, FAILOVER_LIMITS, failoverPeople, startFailover } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { Scenario } from '../support/scenario';
import { openWebhook, WEBHOOK } from '../support/notification-servers';
import type { WebhookServer } from '../support/notification-servers';
import type { TestRun } from '../support/test-run';
import { until } from '../support/by-hand';

const objectives = { outage: '10m', unprotected: '10m' };
const watching = (steadyMs: number) =>
  new Lane(() =>
    Scenario.start({
      limits: FAILOVER_LIMITS,
      timing: { watchMs: 100, steadyMs },
      deployment: { objectives },
    }),
  );
const soon = watching(400);
const late = watching(60_000);

/** The evidence was gathered, and the gate is open. */
function waitsForPeople(run: TestRun) {
  return run.until('gate promote is open', ({ waiting }) => waiting.some((each) => each.for === 'approval'));
}

/** What the run says that a primary is back. */
const SEEN = 'east has reported DR primary again';

describe('a failover that waits for people', () => {
  let told: WebhookServer;
  openWebhook((opened) => (told = opened));
  const pager = () => ({
    ...{ name: 'pager', kind: 'pagerduty', routingKey: { env: WEBHOOK.url.env }, url: `${told.origin}/pager` },
  });
  const lane = new Lane(() =>
    Scenario.start({ limits: FAILOVER_LIMITS, deployment: { notifications: [WEBHOOK, pager()] } }),
  );
  runLanes(lane);

  lane.it('pages, and says between which clusters, why, for whom, and where the run is', async (scenario) => {
    await scenario.service.cluster('east').kill();
    const run = await startFailover(scenario, { reason: 'the site of east burns' });
    await waitsForPeople(run);
    const waits = () => told.posted.filter(({ body }) => JSON.stringify(body).includes('approval of gate promote'));
    await until('both are told', () => waits().length === 2);
    const [paged, posted] = waits().toSorted(
      (one, other) => Number(other.path === '/pager') - Number(one.path === '/pager'),
    );
    const title = `[CRITICAL] ${scenario.name}: drFailover from east to west waits for approval of gate promote. No cluster serves clients.`;
    const details = [
      'Requested by, as the run says: "olga" (UNVERIFIED)',
      'Reason, as the run says: "the site of east burns"',
    ];
    const link = expect.stringContaining(encodeURIComponent(scenario.workflowId)) as string;
    expect(posted?.body).toMatchObject({ title, details, link, severity: 'critical' });
    expect(paged?.body).toMatchObject({
      ...{ event_action: 'trigger', links: [{ href: link }] },
      payload: { summary: title, severity: 'critical', custom_details: { details } },
    });
    await run.control('abort', { reason: 'end of the test' });
    await run.report();
  });
});

describe('a failover that waits for people while its primary comes back', () => {
  runLanes(soon, late);

  describe('and stays', () => {
    const { it } = soon;

    it('ends the outage at that reading, notifies people, and ends by itself without a change', async (scenario) => {
      await scenario.service.cluster('east').kill();
      const run = await startFailover(scenario);
      await waitsForPeople(run);
      expect(await run.status()).toMatchObject({ phase: 'waiting-for-people' });
      await scenario.service.cluster('east').restart();

      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'aborted', outage: { endedBy: 'primary-back' } });
      expect(JSON.stringify(report)).toContain('east is the DR primary again and stayed so');
      expect(report.findings).toContainEqual(
        expect.objectContaining({
          code: 'primary-is-back',
          text: expect.stringContaining(SEEN) as string,
          next: expect.stringContaining(nextCommandOf.control('pause', run.handle.workflowId)) as string,
        }),
      );
      expect(report.objectives?.filter(({ verdict }) => verdict === 'missed')).toEqual([]);
      expect(report.withoutDrProtection).toBeUndefined();
      expect(await run.status()).toMatchObject({ serviceBackAt: expect.any(Number) as number });
      for (const each of ['east', 'west']) expect(statuses(scenario, each, CHANGING.promote)).toEqual([]);
      await expectServesAlone(scenario, 'east');
    });

    it('is kept by a pause, and ends once the pause is over', async (scenario) => {
      const east = scenario.service.cluster('east');
      await east.kill();
      const run = await startFailover(scenario);
      await waitsForPeople(run);
      await run.control('pause');
      await east.restart();
      await run.until('the primary is back', ({ serviceBackAt }) => serviceBackAt !== undefined);
      // By now it would have ended.
      await until('the primary stayed', async () => {
        const events = await run.events();
        const ordered = events.find(
          ({ activityTaskScheduledEventAttributes: order }) => order?.activityType?.name === 'awaitPrimaryStays',
        );
        return events.some(
          ({ activityTaskCompletedEventAttributes: done }) =>
            ordered !== undefined && String(done?.scheduledEventId) === String(ordered.eventId),
        );
      });
      expect((await run.status()).outcome).toBeUndefined();
      await run.control('resume');
      expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    });

    it('does not count a primary as back if its calls fail', async (scenario) => {
      const east = scenario.service.cluster('east');
      await east.kill();
      const run = await startFailover(scenario);
      await waitsForPeople(run);
      east.auditBlocked = true;
      await east.restart();
      await until('the run looked at the broken primary', () => {
        scenario.service.advance();
        return scenario.service.calls.filter(({ path }) => path.endsWith('auth/token/lookup-self')).length > 3;
      });
      expect(JSON.stringify(await run.status())).not.toContain(SEEN);
      east.auditBlocked = false;
      expect(await run.report()).toMatchObject({ outcome: 'aborted', outage: { endedBy: 'primary-back' } });
    });
  });

  describe('and is gone again, or is doubted by people', () => {
    const { it } = late;

    it('counts a new outage if it is gone again, and fails over', async (scenario) => {
      const east = scenario.service.cluster('east');
      await east.kill();
      const run = await startFailover(scenario);
      await waitsForPeople(run);
      await east.restart();
      await run.until('the primary is back', ({ serviceBackAt }) => serviceBackAt !== undefined);
      await east.kill();
      await run.until('it is gone again', ({ serviceBackAt }) => serviceBackAt === undefined);
      await failoverPeople(run);
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', outage: { endedBy: 'service-ready' } });
      expect(report.outage?.startedBecause).toContain('was DR primary for a moment');
      await expectServesAlone(scenario, 'west');
    });
  });
});
