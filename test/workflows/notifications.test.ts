/** People outside of a run are told what happens, in the background: a target that is down never holds a run back. */
import type { TestRun } from '../support/scenario';
import { CHANGING } from '../support/faults';
import { WebhookServer } from '../support/notification-servers';
import { Scenario } from '../support/scenario';

describe('notifications of a run', () => {
  let scenario: Scenario;
  let up: WebhookServer;
  let hanging: WebhookServer;
  beforeAll(async () => {
    [up, hanging] = await Promise.all([WebhookServer.start(), WebhookServer.start()]);
    const gone = await WebhookServer.start();
    process.env['TEST_UP'] = `${up.origin}/secret-of-up`;
    process.env['TEST_HANGING'] = `${hanging.origin}/secret-of-hanging`;
    process.env['TEST_GONE'] = `${gone.origin}/secret-of-gone`;
    await gone.stop();
    hanging.answers = ['hang'];
    scenario = await Scenario.start({
      deployment: {
        people: { remindAfter: '300ms', escalateAfter: '500ms' },
        notifications: [
          { name: 'up', kind: 'webhook', url: { env: 'TEST_UP' } },
          { name: 'gone', kind: 'slack', url: { env: 'TEST_GONE' }, events: ['started', 'outage-started', 'finished'] },
          { name: 'hanging', kind: 'webhook', url: { env: 'TEST_HANGING' }, events: ['outage-started'], timeout: '1s' },
        ],
      },
    });
  });
  afterAll(async () => {
    await Promise.all([scenario.stop(), up.stop(), hanging.stop()]);
  });
  beforeEach(() => {
    up.posted.length = 0;
  });

  const events = () => up.posted.map(({ body }) => String(body['event']));
  const told = (run: TestRun, event: string) =>
    run.until(`told ${event}`, () => up.posted.find(({ body }) => body['event'] === event)?.body);

  it('each event is told once, in order, while two targets are down; the report names those', async () => {
    const run = await scenario.start({ go: 'auto' });
    const reminder = await told(run, 'reminder');
    expect(reminder).toMatchObject({ severity: 'info', workflowId: scenario.workflowId });
    const escalation = await told(run, 'escalation');
    expect(escalation['severity']).toBe('warning');
    expect(JSON.stringify([reminder, escalation])).toMatch(/runbook (approve|share) deployment:/);
    await run.people({ go: false });
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
    const told1 = events().filter((event) => event !== 'reminder' && event !== 'escalation');
    // The gate and the shares are waited for side by side.
    expect(told1).toEqual([
      'started',
      'waiting-for-people',
      'waiting-for-people',
      'outage-started',
      'service-ready',
      'protected-again',
      'finished',
    ]);
    expect(up.posted.at(-1)?.body).toMatchObject({ event: 'finished', outcome: 'completed', severity: 'info' });
    const waits = up.posted.filter(({ body }) => body['event'] === 'waiting-for-people');
    expect(JSON.stringify(waits)).toContain('runbook share');
    expect(JSON.stringify(waits)).toContain('runbook approve');
    // One finding for each target, however often it was not told.
    const failed = report.findings.filter(({ code }) => code === 'notification-failed').map(({ text }) => text);
    expect(failed.sort()).toEqual([
      expect.stringMatching(/^gone \(slack\) was not told that started: ECONNREFUSED/),
      expect.stringMatching(/^hanging \(webhook\) was not told that outage-started: no answer within 1 s/),
    ]);
    // While one target let the run wait for its answer, the run went on.
    const unanswered = report.findings.find(({ text }) => text.startsWith('hanging (webhook)'));
    const demotion = report.steps.find(({ name }) => name === 'Demote west' || name === 'Demote east');
    expect(Date.parse(demotion?.startedAt ?? '')).toBeLessThan(Date.parse(unanswered?.at ?? ''));
    expect(report.steps.map(({ name }) => name)).not.toContain('notify');
    expect(JSON.stringify(report)).not.toContain('secret-of-');
  });

  it('a step that parks inside the outage is told at once, and is meant to wake somebody', async () => {
    scenario.service.faults.add({ cluster: 'west', endpoint: CHANGING.demote, action: { status: 403 } });
    const run = await scenario.start({ to: 'east', go: 'auto' });
    await run.people({ go: false });
    const parked = await run.waitsFor('decision');
    const page = await told(run, 'parked');
    expect(page).toMatchObject({ severity: 'critical' });
    expect(page['text']).toContain(`is parked at "${parked.step}"`);
    expect(page['text']).toContain('No cluster serves clients');
    expect(JSON.stringify(page['commands'])).toContain('--action retry');
    await run.decide('retry');
    expect(await run.report()).toMatchObject({ outcome: 'completed' });
  });

  it('a dry run tells nobody, and a refusal does', async () => {
    const dry = await scenario.start({ dryRun: true }, `dry-${scenario.name}`);
    expect((await dry.report()).outcome).toBe('planned');
    expect(events()).toEqual([]);
    const refused = await scenario.start({ to: 'east' });
    await refused.failure();
    await refused.until('told', () => events().length === 2);
    expect(events().sort()).toEqual(['finished', 'started']);
    expect(await told(refused, 'finished')).toMatchObject({
      ...{ outcome: 'refused', severity: 'warning' },
      details: expect.arrayContaining([expect.stringContaining('observed')]) as string[],
    });
  });
});
