/** What a run tells a pager, it also closes: at the end of the wait, the parking or the outage, and at the end of the run. */
import { cli } from '../cli/support';
import { until } from '../support/by-hand';
import { WebhookServer } from '../support/notification-servers';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

jest.setTimeout(180_000);

describe('a pager', () => {
  let pager: WebhookServer;
  let hook: WebhookServer;
  let scenario: Scenario;
  let traffic = 500;
  beforeAll(async () => {
    [pager, hook] = await Promise.all([WebhookServer.start(), WebhookServer.start()]);
    hook.on('traffic', () => traffic);
    process.env['TEST_CLOSING_URL'] = `${hook.origin}/told`;
    process.env['TEST_CLOSING_KEY'] = 'r0uting-key-of-this-test';
  });
  afterAll(() => Promise.all([pager.stop(), hook.stop()]));
  // The addresses of the servers are known only then.
  openScenario((opened) => (scenario = opened), {
    get deployment() {
      return {
        laboratory: true,
        hooks: { traffic: { url: `${hook.origin}/traffic`, timeout: '20s' } },
        people: { remindAfter: '1h', escalateAfter: '1s' },
        notifications: [
          {
            name: 'pager',
            kind: 'pagerduty',
            routingKey: { env: 'TEST_CLOSING_KEY' },
            url: `${pager.origin}/v2/enqueue`,
          },
          { name: 'told', kind: 'webhook', url: { env: 'TEST_CLOSING_URL' } },
        ],
      };
    },
  });
  beforeEach(() => {
    pager.posted.length = 0;
    hook.posted.length = 0;
  });

  const alerts = () =>
    pager.posted.map(({ body }) => [String(body['dedup_key']).split('/').slice(3).join('/'), body['event_action']]);
  /** The subjects whose last word is not an end. */
  const open = () =>
    [...new Map(alerts() as [string, string][])].flatMap(([key, last]) => (last === 'resolve' ? [] : [key]));

  it('an outage, an escalated wait and a parked step are closed when each is over', async () => {
    const run = await scenario.start();
    await run.waitsFor('shares');
    await until('the escalation', () => open().includes('wait:shares'));
    await run.people();
    await run.parks('Direct clients to the new primary');
    await until('it is paged', () => open().includes('wait:parked:1'));
    // Clients have no service yet; what was waited for before is over.
    await until('closed', () => open().length === 2);
    expect(open()).toEqual(['outage', 'wait:parked:1']);
    expect(alerts()).toEqual(expect.arrayContaining([['wait:shares', 'resolve']]));
    traffic = 200;
    await run.do('retry Direct clients to the new primary');
    expect(await run.report()).toMatchObject({ outcome: 'completed' });
    await until('closed', () => open().length === 0);
    // No end comes before its beginning.
    const seen = new Set<string>();
    for (const [key = '', action] of alerts() as string[][]) {
      if (action === 'trigger') seen.add(key);
      else expect([key, seen.has(key)]).toEqual([key, true]);
    }
    const over = hook.posted.filter(({ body }) => body['event'] === 'over').map(({ body }) => body);
    expect(over.map(({ text }) => text)).toContain(
      'drSwitchover from east to west no longer waits for the decision or action that it asked for.',
    );
    for (const { closes, subject } of over) expect(closes).toEqual([subject]);
  });

  it('alerts that are open when a run is stopped are closed with it', async () => {
    const run = await scenario.start({ to: 'east' });
    await until('the escalation', () => open().includes('wait:shares'));
    await run.control('abort', { reason: 'not today' });
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    await until('closed', () => open().length === 0);
  });

  it('a run that was started by an incident has one alert there, and its end resolves it; its ticket is everywhere', async () => {
    const incident = { ticket: 'INC1', incidentKey: 'key-of-INC1' };
    const run = await scenario.start({ to: 'east', ...incident });
    await until('the escalation', () => pager.posted.length > 0);
    expect(await run.status()).toMatchObject(incident);
    const shown = await cli(['status', scenario.workflowId], { env: scenario.environment });
    expect(shown.out).toContain('ticket INC1');
    await run.people();
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', asked: incident });
    await until('closed', () => pager.posted.at(-1)?.body['event_action'] === 'resolve');
    const told = pager.posted.map(({ body }) => [body['dedup_key'], body['event_action']]);
    expect(told.slice(0, -1)).toEqual(told.slice(0, -1).map(() => ['key-of-INC1', 'trigger']));
    const classes = pager.posted.map(({ body }) => (body['payload'] as { readonly class?: string } | undefined)?.class);
    expect(classes).toEqual(expect.arrayContaining(['escalation', 'outage-started', 'service-ready']));
    const notified = hook.posted.filter(({ path }) => path === '/told');
    expect(notified.length).toBeGreaterThan(5);
    expect(notified.filter(({ body }) => body['ticket'] !== 'INC1')).toEqual([]);
  });

  it('a plan resolves no incident', async () => {
    const run = await scenario.run('drSwitchover', { to: 'west', dryRun: true, incidentKey: 'key-of-INC1' });
    expect(await run.report()).toMatchObject({ outcome: 'planned' });
    expect(pager.posted).toEqual([]);
  });
});
