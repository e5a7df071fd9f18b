/** Who is asked for key shares: stand-by holders by the clock, and what is said when the service rejects all that were given. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Waiting } from '../../src/contracts/run-status';
import type { Deployment } from '../../src/inventory';
import { ceremonyKeyFiles } from '../support/directory';
import type { WebhookServer } from '../support/notification-servers';
import { openWebhook, WEBHOOK } from '../support/notification-servers';
import { replayRun } from '../support/replay';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

type Asking = Extract<Waiting, { for: 'shares' }>;

describe('the roster of a ceremony', () => {
  let scenario: Scenario;
  let told: WebhookServer;
  const roster = { holders: ['ada', 'bert', 'cleo'], standBy: ['dora', 'emil'], inviteStandByAfter: '1200ms' };
  openWebhook((opened) => (told = opened));
  openScenario((opened) => (scenario = opened), {
    deployment: { ceremony: { collectFor: '30m', useFor: '30m', ...roster }, notifications: [WEBHOOK] },
  });
  beforeEach(() => {
    told.posted.length = 0;
  });

  /** As a new file of the inventory would. */
  const ceremony = (changes: Partial<Deployment['ceremony']>) => Object.assign(scenario.inForce.ceremony, changes);
  const asking = (run: TestRun, where: (waiting: Asking) => boolean = () => true) => run.waitsFor('shares', where);

  it('stand-by holders are asked when shares are missing after a while, and are notified', async () => {
    const run = await scenario.tokenCeremony();
    await run.share('ada');
    await run.share('bert');
    const later = await asking(run, ({ standBy, held }) => standBy === undefined && held.length === 2);
    expect(later).toMatchObject({ held: ['ada', 'bert'], missingHolders: ['cleo', 'dora', 'emil'] });
    const message = await run.until('the notification', () =>
      told.posted.find(({ body }) => body['event'] === 'stand-by-called'),
    );
    expect(JSON.stringify(message.body)).toContain('runbook share ceremony:west --holder dora');
    expect(message.body['text']).toMatch(/now asks the stand-by holders for key shares/);
    expect(JSON.stringify(message.body['details'])).toMatch(
      /The run says: .* the stand-by holders, dora and emil, for/,
    );

    await run.share('emil');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.holders).toMatchObject([
      { name: 'ada', as: 'holder', why: 'invited', gave: { how: 'signed' } },
      { name: 'bert', as: 'holder', gave: { how: 'signed' } },
      { name: 'cleo', as: 'holder' },
      { name: 'dora', as: 'stand-by', why: 'shares were still missing after 1.2 s' },
      { name: 'emil', as: 'stand-by', gave: { how: 'signed' } },
    ]);
    expect(report.holders?.[2]?.gave).toBeUndefined();
    const [first, , , standBy] = report.holders ?? [];
    expect(Date.parse(standBy?.askedAt ?? '') - Date.parse(first?.askedAt ?? '')).toBeGreaterThanOrEqual(1_200);
    await replayRun(run);
  });

  it('in a new epoch people who were called in stay called in', async () => {
    const run = await scenario.tokenCeremony();
    await asking(run, ({ standBy }) => standBy === undefined);
    for (const path of ceremonyKeyFiles(join(scenario.directory, 'keys'))) await rm(path);
    await run.share('ada');
    const again = await asking(run, ({ epoch }) => epoch === 2);
    expect(again.missingHolders).toEqual(['ada', 'bert', 'cleo', 'dora', 'emil']);
    expect(again.standBy).toBeUndefined();
    await run.control('abort', { reason: 'seen' });
    expect((await run.report()).holders?.map(({ name, epoch }) => `${name} ${epoch}`)).toContain('dora 2');
    await replayRun(run);
  });

  it('a stand-by who answers early counts, and no other is called in', async () => {
    ceremony({ inviteStandByAfterMs: 1_500_000 });
    const run = await scenario.tokenCeremony();
    for (const holder of ['dora', 'ada', 'bert']) await run.share(holder);
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    expect(report.holders?.map(({ name }) => name)).toEqual(['ada', 'bert', 'cleo', 'dora']);
    expect(report.holders?.[3]).toMatchObject({ as: 'stand-by', gave: { how: 'signed' } });
    expect(report.holders?.[3]?.askedAt).toBeUndefined();
    expect(told.posted.map(({ body }) => body['event'])).not.toContain('stand-by-called');
  });

  it('if all gave and the service rejected the shares, every holder may correct theirs', async () => {
    ceremony({ standBy: [] });
    const run = await scenario.tokenCeremony();
    await run.share('ada');
    await run.share('bert');
    await run.share('cleo', { share: `${'42'.repeat(32)}ee` });
    const found = await run.until('the finding', ({ findings }) =>
      findings.find(({ code }) => code === 'shares-rejected'),
    );
    expect(found).toMatchObject({ severity: 'warning' });
    expect(found.next).toMatch(/one of ada, bert, cleo gives the right share with the same command\. The run/);
    expect((await asking(run, ({ threshold }) => threshold === 4)).missingHolders).toEqual([]);
    await run.share('cleo', { seq: 2 });
    expect((await run.report()).outcome).toBe('completed');
    await replayRun(run);
  });
});
