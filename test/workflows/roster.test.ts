/**
 * Who is asked for key shares: stand-by holders by the clock or when somebody declines, groups that must be met, and what
 * is said when too few people are left.
 */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Receipt } from '../../src/contracts/run-facts';
import type { Waiting } from '../../src/contracts/run-status';
import { statusLines } from '../../src/cli/render-status';
import { currentDetails } from '../../workflows/engine/current-details';
import { CHANGING, statuses } from '../support/faults';
import { WebhookServer } from '../support/notification-servers';
import { declineOf } from '../support/people';
import { replayRun } from '../support/replay';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';

type Asking = Extract<Waiting, { for: 'shares' }>;

const TERMS = { holders: ['ada', 'bert', 'cleo'], standBy: ['dora', 'emil'], inviteStandByAfter: '25m' };

describe('the roster of a ceremony', () => {
  let scenario: Scenario;
  let told: WebhookServer;
  let ceremony: Readonly<Record<string, unknown>> = {};
  beforeAll(async () => {
    told = await WebhookServer.start();
    process.env['TEST_ROSTER_URL'] = told.origin;
    scenario = await Scenario.start({
      deployment: () => ({
        ceremony: { collectFor: '30m', useFor: '30m', ...TERMS, ...ceremony },
        notifications: [{ name: 'pager', kind: 'webhook', url: { env: 'TEST_ROSTER_URL' } }],
      }),
      person: (name) => (['dora', 'emil'].includes(name) ? { groups: ['holders', 'security'] } : undefined),
    });
  });
  afterAll(() => Promise.all([scenario.stop(), told.stop()]));
  beforeEach(() => {
    told.posted.length = 0;
    scenario.service.calls.length = 0;
  });

  const begin = async (more: Readonly<Record<string, unknown>>): Promise<TestRun> => {
    if (JSON.stringify(more) !== JSON.stringify(ceremony)) {
      await scenario.stopWorker();
      ceremony = more;
      await scenario.startWorker();
    }
    return scenario.tokenCeremony();
  };
  const asking = (run: TestRun, where: (waiting: Asking) => boolean = () => true) => run.waitsFor('shares', where);
  const declined = async (run: TestRun, name: string, more: Parameters<typeof declineOf>[1] | object = {}) => {
    const { cid, epoch } = await asking(run);
    const { workflowId, runId } = await run.status();
    const about = { ns: temporalServer().namespace, wid: workflowId, rid: runId, cid, epoch };
    return declineOf(scenario.person(name), { ...about, ...more });
  };
  const sendDecline = async (run: TestRun, input: unknown): Promise<Receipt> => {
    const { receipts } = await run.status();
    const arrival = receipts.filter(({ signal }) => signal === 'decline').length + 1;
    await run.handle.signal('decline', input);
    return run.until(`receipt of decline ${arrival}`, (status) =>
      status.receipts.find((each) => each.signal === 'decline' && each.arrival === arrival),
    );
  };
  const events = () => told.posted.map(({ body }) => String(body['event']));
  const screen = async (run: TestRun) => {
    const status = await run.status();
    const view = { ...status, state: 'running', startedAt: new Date().toISOString(), pendingActivities: [], status };
    return statusLines(view as unknown as Parameters<typeof statusLines>[0]).join('\n');
  };

  it('stand-by holders are asked when shares are missing after a while, and are told', async () => {
    const run = await begin({ inviteStandByAfter: '1200ms' });
    await run.share('ada');
    await run.share('bert');
    const later = await asking(run, ({ standBy, held }) => standBy === undefined && held.length === 2);
    expect(later).toMatchObject({ held: ['ada', 'bert'], missingHolders: ['cleo', 'dora', 'emil'] });
    const message = await run.until('the notification', () =>
      told.posted.find(({ body }) => body['event'] === 'stand-by-called'),
    );
    expect(JSON.stringify(message.body)).toContain('runbook share ceremony:west --holder dora');
    expect(message.body['text']).toMatch(/now asks who stands by for a key share/);
    expect(JSON.stringify(message.body['details'])).toMatch(/The run says: .* who stands by, dora and emil, for/);

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

  it('a stand-by who answers early counts, and nobody else is called in', async () => {
    const run = await begin({});
    for (const holder of ['dora', 'ada', 'bert']) await run.share(holder);
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    expect(report.holders).toMatchObject([
      { name: 'ada' },
      { name: 'bert' },
      { name: 'cleo' },
      { name: 'dora', as: 'stand-by', gave: { how: 'signed' } },
    ]);
    expect(report.holders?.[3]?.askedAt).toBeUndefined();
    expect(events()).not.toContain('stand-by-called');
    await replayRun(run);
  });

  describe('a holder who declines', () => {
    let run: TestRun;

    it('is shown as declined, and who stands by is asked at once; a worker that restarts changes nothing', async () => {
      run = await begin({});
      await run.share('ada');
      expect(await asking(run, ({ held }) => held.length === 1)).toMatchObject({
        missingHolders: ['bert', 'cleo'],
        standBy: { holders: ['dora', 'emil'], askedFrom: expect.any(Number) as number },
      });
      const receipt = await sendDecline(run, await declined(run, 'cleo'));
      expect(receipt).toMatchObject({
        verdict: 'accepted',
        text: 'cannot give a share: on a plane',
        from: { name: 'cleo', how: 'signed' },
      });
      const expected = {
        held: ['ada'],
        missingHolders: ['bert', 'dora', 'emil'],
        declined: [{ by: { name: 'cleo', how: 'signed' }, reason: 'on a plane' }],
      };
      expect(await asking(run)).toMatchObject(expected);
      expect((await asking(run)).standBy).toBeUndefined();
      await scenario.stopWorker();
      await scenario.startWorker();
      expect(await asking(run)).toMatchObject(expected);
    });

    it('the screens name each missing person with the exact command', async () => {
      const details = currentDetails(await run.status(), 'default');
      for (const shown of [await screen(run), details]) {
        for (const name of ['bert', 'dora', 'emil', 'cleo'])
          expect(shown).toContain(`runbook share ceremony:west --holder ${name}`);
        expect(shown).toMatch(/Declined; may give all the same[^]*cleo \(on a plane\)/);
        expect(shown).toContain('runbook decline ceremony:west');
      }
    });

    it.each([
      ['another ceremony', 'bert', { cid: '00000000-0000-4000-8000-000000000000' }, /another ceremony/],
      ['another round', 'bert', { epoch: 2 }, /another round/],
      ['another run', 'bert', { rid: '00000000-0000-4000-8000-000000000000' }, /another run/],
      ['somebody who is not asked', 'grace', {}, /not asked for a key share/],
      ["somebody else's name", 'bert', { name: 'emil' }, /signed with a key that is not known|signature/],
    ])('a decline for %s is refused with a receipt', async (_what, name, more, why) => {
      const before = await asking(run);
      const receipt = await sendDecline(run, await declined(run, name, more));
      expect(receipt).toMatchObject({ verdict: 'refused', text: expect.stringMatching(why) as string });
      expect(await asking(run)).toEqual(before);
    });

    it('nor is one without a signature, with a key share in it, or of somebody whose share is in hand', async () => {
      const plain = { holder: 'bert', reason: `${'c0ffee'.repeat(11)}` };
      expect(await sendDecline(run, plain)).toMatchObject({ verdict: 'refused', code: 'plain-text-share' });
      expect((await run.status()).findings).toContainEqual(expect.objectContaining({ code: 'plain-text-share' }));
      expect(await sendDecline(run, { name: 'bert' })).toMatchObject({ verdict: 'refused', code: 'refused' });
      expect(await sendDecline(run, await declined(run, 'ada'))).toMatchObject({ code: 'share-in-hand' });
      expect((await asking(run)).declined).toHaveLength(1);
    });

    it('may give all the same', async () => {
      await run.share('cleo');
      expect(await asking(run, ({ held }) => held.length === 2)).toMatchObject({ held: ['ada', 'cleo'] });
      expect((await asking(run)).declined).toBeUndefined();
      await run.share('dora');
      const report = await run.report();
      expect(report.outcome).toBe('completed');
      expect(report.holders?.find(({ name }) => name === 'cleo')).toMatchObject({
        declined: { how: 'signed', text: 'cannot give a share: on a plane' },
        gave: { how: 'signed' },
      });
      expect(report.holders?.find(({ name }) => name === 'dora')).toMatchObject({
        as: 'stand-by',
        why: 'cleo declined',
      });
      await replayRun(run);
    });
  });

  it('shares of any holders are not enough where a group is missing; the burst uses a set that satisfies it', async () => {
    const run = await begin({ groups: [{ group: 'security', shares: 1 }] });
    await run.shares();
    const waiting = await asking(run, ({ held }) => held.length === 3);
    expect(waiting.groups).toEqual([{ group: 'security', needed: 1, held: [], outOf: ['dora', 'emil'] }]);
    expect(await screen(run)).toContain('security: 0 of 1, needs 1 more of dora, emil');
    expect(await screen(run)).toContain("not Shamir's");
    expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([]);
    await run.share('emil');
    const report = await run.report();
    expect(report.outcome).toBe('completed');
    expect(statuses(scenario, 'west', CHANGING.giveShare)).toEqual([200, 200, 200]);
    await replayRun(run);
  });

  it('in a new epoch who was called in stays called in, and who declined is asked again', async () => {
    const run = await begin({});
    await sendDecline(run, await declined(run, 'cleo'));
    await asking(run, ({ standBy }) => standBy === undefined);
    const keys = join(scenario.directory, 'keys');
    for (const name of await readdir(keys)) if (name.endsWith('.key')) await rm(join(keys, name));
    await run.share('ada');
    const again = await asking(run, ({ epoch }) => epoch === 2);
    expect(again.missingHolders).toEqual(['ada', 'bert', 'cleo', 'dora', 'emil']);
    expect([again.declined, again.standBy]).toEqual([undefined, undefined]);
    // The decline was for the epoch before.
    const old = await sendDecline(run, await declined(run, 'cleo', { epoch: 1 }));
    expect(old).toMatchObject({ verdict: 'refused', text: expect.stringContaining('another round') as string });
    await run.control('abort', { reason: 'seen' });
    expect((await run.report()).holders?.map(({ name, epoch }) => `${name} ${epoch}`)).toContain('dora 2');
    await replayRun(run);
  });

  describe('too few people', () => {
    let run: TestRun;

    it('is said at once, with who can do what', async () => {
      run = await begin({ standBy: ['dora'] });
      await run.share('ada');
      for (const name of ['bert', 'dora']) await sendDecline(run, await declined(run, name));
      const { findings } = await run.status();
      expect(findings).toMatchObject([
        {
          severity: 'warning',
          code: 'holders-too-few',
          text: 'Too few key holders are left: 3 key shares are needed; in hand: ada; can still give: cleo; declined: bert, dora.',
        },
      ]);
      expect(findings[0]?.next).toContain('bert may give all the same: `runbook share ceremony:west --holder bert`');
      expect(findings[0]?.next).toContain('`runbook abort ceremony:west`');
      await run.until('the notification', () => events().includes('holders-too-few'));
      expect(await screen(run)).toContain('Too few key holders are left');
    });

    it('ends when one of them gives after all; nothing was waited for in silence', async () => {
      await run.share('dora');
      await run.share('cleo');
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', findings: [{ code: 'holders-too-few' }] });
      await replayRun(run);
    });

    it('where everybody gave and the service rejected the shares: who gave may correct his', async () => {
      run = await begin({ standBy: [] });
      await run.share('ada');
      await run.share('bert');
      await run.share('cleo', { share: `${'42'.repeat(32)}ee` });
      const found = await run.until('the finding', ({ findings }) =>
        findings.find(({ code }) => code === 'holders-too-few'),
      );
      expect(found.text).toContain('4 key shares are needed; in hand: ada, bert, cleo; can still give: nobody');
      expect(found.next).toContain('ada or bert or cleo may correct his share');
      await run.share('cleo', { seq: 2 });
      expect((await run.report()).outcome).toBe('completed');
      await replayRun(run);
    });

    it('in the groups: a group of which everybody declined cannot be satisfied any more', async () => {
      run = await begin({ groups: [{ group: 'security', shares: 1 }] });
      for (const name of ['dora', 'emil']) await sendDecline(run, await declined(run, name));
      const { findings } = await run.status();
      expect(findings).toMatchObject([
        { text: expect.stringContaining('the groups (1 of security) cannot be satisfied by 3 key shares') as string },
      ]);
      await run.control('abort', { reason: 'nobody of security is there' });
      expect((await run.report()).outcome).toBe('aborted');
      await replayRun(run);
    });
  });
});
