import type { WebhookServer } from '../support/notification-servers';
import { openWebhook, WEBHOOK } from '../support/notification-servers';
import { deeds, reportOf } from '../support/reports';
import { refusePromotion } from '../support/faults';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

describe('notifications of a run that ends otherwise', () => {
  let scenario: Scenario;
  let up: WebhookServer;
  openScenario((opened) => (scenario = opened), {
    deployment: { notifications: [WEBHOOK] },
  });
  openWebhook((opened) => (up = opened));
  beforeEach(() => void (up.posted.length = 0));

  const events = () => up.posted.map(({ body }) => String(body['event']));
  const posted = (run: TestRun, event: string) =>
    run.until(`told ${event}`, () => up.posted.find(({ body }) => body['event'] === event)?.body);

  it('a dry run sends none, and a refusal does', async () => {
    const dry = await scenario.start({ dryRun: true }, `dry-${scenario.name}`);
    expect((await dry.report()).outcome).toBe('planned');
    expect(events()).toEqual([]);
    const refused = await scenario.start({ to: 'east' });
    await refused.failure();
    expect(await posted(refused, 'finished')).toMatchObject({
      ...{ outcome: 'refused', severity: 'warning' },
      details: expect.arrayContaining([expect.stringContaining('observed')]) as string[],
    });
    expect(events()).toEqual(['started', 'finished']);
  });

  /** Terminates the run and gives its report, which must say of its deeds what the report before said. */
  async function terminate(run: TestRun) {
    const status = await run.status();
    const live = await reportOf(run);
    expect(live.outcome).toBe('running');
    await run.handle.terminate('ended by a test');
    const report = await reportOf(run);
    expect(deeds(report)).toEqual(deeds(live));
    expect(report.outcome).toBe('terminated');
    // The run itself knows the same steps and receipts.
    const steps = report.steps.filter(({ number }) => number > 0);
    expect([...new Set(steps.map(({ name }) => name))]).toEqual([...new Set(status.steps.map(({ name }) => name))]);
    for (const { name, state } of status.steps) {
      const last = steps.findLast((step) => step.name === name);
      expect([name, last?.outcome]).toEqual([name, state === 'parked' ? 'failed' : state]);
    }
    const key = (each: { signal: string; arrival: number; verdict: string }) =>
      `${each.signal} ${each.arrival} ${each.verdict}`;
    expect(report.receipts.map(key).sort()).toEqual(status.receipts.map(key).sort());
    expect(report.findings.filter(({ code }) => code === 'run-terminated')).toHaveLength(1);
    return { report, live };
  }

  it('terminated while people are waited for: no cluster was changed, only the keys are left', async () => {
    const run = await scenario.start();
    await run.share('ada');
    await run.waitsFor('shares', ({ held }) => held.length === 1);
    await run.approve('plan');
    await run.receiptOf('approve');
    const { report, live } = await terminate(run);
    expect(live.leftToDo.join()).toMatch(/The run waits for: .*key shares/);
    expect(report.outage).toBeUndefined();
    expect(report.loss).toBeUndefined();
    expect(report.tokens).toEqual([]);
    expect(report.leftToDo).toEqual([expect.stringMatching(/^The keys of ceremony .* were not destroyed/)]);
    expect(report.findings.map(({ text }) => text).join()).toMatch(/during phase waiting-for-people.*ended by a test/);
  });

  it('terminated in the outage: people are woken; the report says first that no cluster is primary, and what to do', async () => {
    refusePromotion(scenario, 'west');
    const run = await scenario.start({ onStuck: 'park' });
    await run.people();
    await run.waitsFor('decision', ({ step }) => step === 'Promote west');
    const page = await posted(run, 'parked');
    expect(page['severity']).toBe('critical');
    expect(page['text']).toMatch(/waits for decision on parked step "Promote west".* No cluster serves clients\./);
    expect(JSON.stringify(page['commands'])).toContain(`runbook status ${scenario.workflowId}`);
    const { report } = await terminate(run);
    expect(report.outage).toMatchObject({ startedAt: expect.any(String) as string });
    expect(report.outage?.endedAt).toBeUndefined();
    expect(report.loss?.loss).toBe('none');
    expect(report.leftToDo[0]).toMatch(/east is demoted and no cluster was promoted: clients have no primary/);
    expect(report.findings[0]).toMatchObject({ severity: 'critical', code: 'run-terminated' });
    expect(report.findings[0]?.text).toContain('It waited for: decision on parked step "Promote west" (parking 1)');
    expect(report.tokens).toMatchObject([{ cluster: 'west', state: 'unproven' }]);
    expect(report.leftToDo.join('\n')).toMatch(/A DR operation token of west was generated and is not proven deleted/);
  });
});
