/** People outside of a run are told what happens, in the background: a target that is down never holds a run back. */
import type { TestRun } from '../support/scenario';
import { CHANGING } from '../support/faults';
import { WebhookServer } from '../support/notification-servers';
import { Scenario } from '../support/scenario';

describe('notifications of a run', () => {
  let scenario: Scenario;
  let up: WebhookServer;
  beforeAll(async () => {
    up = await WebhookServer.start();
    process.env['TEST_UP'] = `${up.origin}/secret-of-up`;
    scenario = await Scenario.start({
      deployment: { notifications: [{ name: 'up', kind: 'webhook', url: { env: 'TEST_UP' } }] },
    });
  });
  afterAll(async () => {
    await Promise.all([scenario.stop(), up.stop()]);
  });
  beforeEach(() => {
    up.posted.length = 0;
  });

  const events = () => up.posted.map(({ body }) => String(body['event']));
  const told = (run: TestRun, event: string) =>
    run.until(`told ${event}`, () => up.posted.find(({ body }) => body['event'] === event)?.body);

  it('a step that parks inside the outage is told at once, and is meant to wake somebody', async () => {
    scenario.service.faults.add({ cluster: 'east', endpoint: CHANGING.demote, action: { status: 403 } });
    const run = await scenario.start({ go: 'auto' });
    await run.people({ go: false });
    const parked = await run.waitsFor('decision');
    const page = await told(run, 'parked');
    expect(page).toMatchObject({ severity: 'critical' });
    expect(page['text']).toContain(`waits for decision on parked step "${parked.step}"`);
    expect(page['text']).toContain('No cluster serves clients');
    expect(JSON.stringify(page['commands'])).toContain('runbook status deployment:');
    await run.decide('retry');
    expect(await run.report()).toMatchObject({ outcome: 'completed' });
  });

  it('a dry run tells nobody, and a refusal does', async () => {
    const dry = await scenario.start({ dryRun: true }, `dry-${scenario.name}`);
    expect((await dry.report()).outcome).toBe('planned');
    expect(events()).toEqual([]);
    const refused = await scenario.start();
    await refused.failure();
    await refused.until('told', () => events().length === 2);
    expect(events().sort()).toEqual(['finished', 'started']);
    expect(await told(refused, 'finished')).toMatchObject({
      ...{ outcome: 'refused', severity: 'warning' },
      details: expect.arrayContaining([expect.stringContaining('observed')]) as string[],
    });
  });
});
