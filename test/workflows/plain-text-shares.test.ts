/** A key share in plain text stands in the event that brought it and nowhere else, whatever brought it. */
import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Report } from '../../src/contracts/report';
import { cli } from '../cli/support';
import { until } from '../support/by-hand';
import { signalled } from '../support/faults';
import { findCanaries, historyText } from '../support/secret-search';
import type { WebhookServer } from '../support/notification-servers';
import { openWebhook, WEBHOOK } from '../support/notification-servers';
import { approvalOf, decisionOf } from '../support/people';
import { replayRun } from '../support/replay';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';

const TOKEN = `hvs.${'Ab3'.repeat(8)}`;
/** As long as a key share, and nobody's; another one for each place. */
const shares = new Map<string, string>();
function plain(where: string): string {
  const made = createHash('shake256', { outputLength: 33 }).update(where).digest('hex');
  shares.set(where, made);
  return made;
}

function found(texts: readonly string[]): string[] {
  return [...new Set(texts.flatMap((text) => findCanaries(text, shares)))];
}

describe('a key share in plain text, in a message that is no share', () => {
  let scenario: Scenario;
  let hook: WebhookServer;
  let run: TestRun;
  let report: Report;
  const told: unknown[] = [];

  openWebhook((opened) => (hook = opened));
  openScenario((opened) => (scenario = opened), { deployment: { notifications: [WEBHOOK] } });
  beforeAll(async () => {
    run = await scenario.start();
    await run.waitsFor('shares');
  });

  let runId = '';
  const identity = () => ({ ns: temporalServer().namespace, wid: scenario.workflowId, rid: runId });

  it.each([
    [
      'approve',
      async (share: string) => {
        const { planDigest } = await run.waitsFor('approval');
        return approvalOf(scenario.person('grace'), { ...identity(), gate: 'plan', planDigest, comment: share });
      },
    ],
    [
      'decide',
      (share: string) => {
        const parking = { step: 'any', parkingNo: 1, action: 'retry' } as const;
        return decisionOf(scenario.person('grace'), { ...identity(), ...parking, reason: `go on: ${share}` });
      },
    ],
    ['pause', (share: string) => ({ by: 'olga', reason: 'why', before: share })],
    ['resume', (share: string) => ({ by: share, reason: 'why' })],
    ['abort', (share: string) => ({ by: 'olga', reason: `my share is ${share}` })],
    ['takeOver', (share: string) => ({ deployment: scenario.name, reason: share })],
  ] as const)('%s: refused before it is read', async (signal, make) => {
    runId = (await run.status()).runId;
    await run.handle.signal(signal, await make(plain(signal)));
    expect(await run.receiptOf(signal)).toMatchObject({ verdict: 'refused', code: 'plain-text-share' });
  });

  it('signals that no runbook has: in their content, and as their name', async () => {
    await run.handle.signal('helo', { hello: 'world' });
    await run.handle.signal('shares', { holder: 'ada', key: plain('an unknown signal') });
    await run.handle.signal(plain('the name of a signal'));
    const receipts = await Promise.all([1, 2, 3].map((arrival) => run.receiptOf('unknown', arrival)));
    expect(receipts.map(({ code }) => code)).toEqual(['unknown-signal', 'plain-text-share', 'plain-text-share']);
    told.push(await run.status());
  });

  it('an operation token instead is reported as one: it is to be revoked, and no rekey is needed', async () => {
    shares.set('a token', TOKEN);
    await run.handle.signal('approve', { name: 'grace', comment: `take ${TOKEN}` });
    expect(await run.receiptOf('approve', 2)).toMatchObject({ verdict: 'refused', code: 'plain-text-token' });
    const { findings } = await run.status();
    expect(findings.find(({ code }) => code === 'plain-text-token')?.next).toMatch(
      /^In this order: end that token now/,
    );
  });

  it('digests, identifiers and fingerprints are no shares: the run continues with them', async () => {
    await run.control('pause', { reason: `commit of 2026-11-21, ticket CHG0012345678, ${runId}` });
    await run.receiptOf('pause', 2);
    await run.control('resume', { reason: 'seen' });
    await run.shares();
    const { planDigest } = await run.waitsFor('approval');
    const comment = `read it; digest ${planDigest}, CA ${createHash('sha256').update('ca').digest('hex')}`;
    await run.handle.signal(
      'approve',
      await approvalOf(scenario.person('grace'), { ...identity(), gate: 'plan', planDigest, comment }),
    );
    await run.approve('go', 'henry');
    report = await run.report();
    expect(report.outcome).toBe('completed');
    await replayRun(run);
  });

  it('each is a critical finding with namespace, workflow, run and event, and the advice in its order', async () => {
    const holds = (event: object) => found([historyText({ events: [event] })]).length > 0;
    const ids = (await run.events()).filter(holds).map(({ eventId }) => Number(eventId));
    expect(ids).toHaveLength(9);
    const findings = report.findings.filter(({ code }) => code.startsWith('plain-text-'));
    const place = `of workflow ${scenario.workflowId}, run ${runId}, namespace ${temporalServer().namespace}`;
    const named = findings.map(({ text }) => Number(/in event (\d+) \(/.exec(text)?.[1]));
    expect(named.sort((a, b) => a - b)).toEqual(ids);
    for (const { severity, text, next } of findings) {
      expect(severity).toBe('critical');
      expect(text).toContain(place);
      expect(next).toMatch(/finish this run; (rekey .*; )?then delete this run, its resets, exports and backups/);
    }
    const alarms = hook.posted.filter(({ body }) => body['event'] === 'critical-finding');
    expect(alarms).toHaveLength(9);
    for (const { body } of alarms) expect(body).toMatchObject({ severity: 'critical', runId });
  });

  it('the exit code alone shows that a critical item is left, also of a run that completed', async () => {
    const { code, out } = await cli(['watch', scenario.workflowId, '--run-id', runId], { env: scenario.environment });
    expect([code, out]).toEqual([8, expect.stringMatching(/Completed: [^]*CRITICAL/)]);
    told.push(out);
  });

  it('the start input: the run fails before any copy, also if it was to be handed over', async () => {
    const input = { reason: `ada's share is ${plain('start input')}` };
    for (const workflowId of [scenario.workflowId, `other-${scenario.name}`]) {
      const refused = await scenario.start(input, workflowId);
      const { code, message, details } = await refused.failure();
      expect(code).toBe('PLAIN_TEXT_SHARE');
      expect(message).toContain(`event 1 (the input of drSwitchover) of workflow ${workflowId}`);
      expect(JSON.stringify(details)).toContain('rekey');
      told.push(message, details);
      expect(found([historyText({ events: (await refused.events()).slice(1) })])).toEqual([]);
      await replayRun(refused);
    }
  });

  it('a token in the start input is reported as one: it is to be revoked, and no rekey is needed', async () => {
    const refused = await scenario.start({ reason: `with ${TOKEN}` });
    const { code, message, details } = await refused.failure();
    expect([code, message]).toEqual(['PLAIN_TEXT_SHARE', expect.stringMatching(/^A token seems to be in plain text/)]);
    expect(JSON.stringify(details)).toMatch(/without tokens.*In this order: end that token now/);
    told.push(message, details);
  });

  it('a run without other notifications sends it at once: a dry run and a check of readiness, while they read', async () => {
    const over = signalled();
    scenario.service.faults.add({ endpoint: /./, action: () => over.promise, times: Infinity });
    const quiet = [await scenario.start({ dryRun: true }, `dry-${scenario.name}`), await scenario.run('readiness')];
    for (const each of quiet) {
      const { workflowId } = each.handle;
      await each.handle.signal('share', { holder: 'ada', share: plain(workflowId) });
      await until(`told of ${workflowId}`, () => hook.posted.some(({ body }) => body['workflowId'] === workflowId));
    }
    scenario.service.faults.clear();
    over.resolve();
    for (const each of quiet) {
      told.push(await each.report());
      await replayRun(each);
      const others = (await each.events()).filter((event) => !event.workflowExecutionSignaledEventAttributes);
      expect(found([historyText({ events: others })])).toEqual([]);
      const events = hook.posted.filter(({ body }) => body['workflowId'] === each.handle.workflowId);
      expect(events.map(({ body }) => body['event'])).toEqual(['critical-finding']);
    }
  });

  it('a flood of shares and tokens is one: the rest is counted in receipts', async () => {
    const over = signalled();
    scenario.service.faults.add({ endpoint: /./, action: () => over.promise, times: Infinity });
    const flooded = await scenario.run('readiness');
    for (let index = 1; index <= 24; index++)
      await flooded.handle.signal('paste', { text: index % 2 === 0 ? TOKEN : plain('a flood') });
    await flooded.receiptOf('unknown', 24);
    scenario.service.faults.clear();
    over.resolve();
    const { findings } = await flooded.report();
    const plainOnes = findings.filter(({ code }) => code.startsWith('plain-text-'));
    expect(plainOnes).toHaveLength(21);
    expect(plainOnes.at(-1)?.text).toMatch(/^Further signals seem/);
    told.push(findings);
  });

  it('no share is anywhere else: other events, logs, reports, files, notifications, status', async () => {
    expect(shares.size).toBe(13);
    // Of this run: those that were refused have the same Workflow ID.
    const all = await scenario.attach(scenario.workflowId, runId).events();
    const events = all.filter((event) => !event.workflowExecutionSignaledEventAttributes);
    const entries = await readdir(scenario.directory, { recursive: true, withFileTypes: true });
    const files = await Promise.all(
      entries.filter((entry) => entry.isFile()).map((entry) => readFile(join(entry.parentPath, entry.name), 'utf8')),
    );
    expect(files.length).toBeGreaterThan(4);
    const people = [...told, report, hook.posted].map((each) => JSON.stringify(each));
    expect(found([historyText({ events }), ...files, ...scenario.logLines, ...people])).toEqual([]);
    scenario.shows(JSON.stringify(told));
  });
});
