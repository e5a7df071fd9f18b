/** Whom a run asks whose holders enter their shares themselves: who declines, stands by, or forgets the token. */
import { setTimeout as delay } from 'node:timers/promises';
import { ArrivedSignals } from '../../activities/support/approvals/arrived-signals';
import { ceremonyWorkflowId } from '../../src/contracts/names';
import { declines, enterAll, enterUnseen, expectClean, handIn, shownFor } from '../support/direct';
import { expectServiceOn } from '../support/faults';
import { WebhookServer } from '../support/notification-servers';
import type { TestRun } from '../support/scenario';
import { Scenario } from '../support/scenario';

jest.setTimeout(240_000);

/** How long the token may be on its way, where that is to end. */
const HAND_IN_MS = 300;

const findingCodes = (report: { readonly findings: readonly { readonly code: string }[] }) =>
  report.findings.map(({ code }) => code);

/** The wait for the token has ended, and the run has answered to that. */
async function timeIsOver(run: TestRun): Promise<boolean> {
  const { events } = await run.handle.fetchHistory();
  const started = (events ?? []).find(
    ({ timerStartedEventAttributes: timer }) => Number(timer?.startToFireTimeout?.nanos ?? 0) === HAND_IN_MS * 1e6,
  )?.timerStartedEventAttributes?.timerId;
  const fired = (events ?? []).findIndex(({ timerFiredEventAttributes: timer }) => timer && timer.timerId === started);
  return fired >= 0 && (events ?? []).slice(fired).some((each) => each.workflowTaskCompletedEventAttributes);
}

describe('the holders of direct key shares', () => {
  let scenario: Scenario;
  let told: WebhookServer;
  beforeAll(async () => {
    told = await WebhookServer.start();
    process.env['TEST_DIRECT_URL'] = told.origin;
    scenario = await Scenario.start({
      deployment: {
        ceremony: {
          ...{ collectFor: '30m', useFor: '30m', shares: 'direct' },
          ...{ holders: ['ada', 'bert', 'cleo'], standBy: ['dora', 'emil'], inviteStandByAfter: '25m' },
        },
        notifications: [{ name: 'pager', kind: 'webhook', url: { env: 'TEST_DIRECT_URL' } }],
        people: { remindAfter: '1s', escalateAfter: '1500ms' },
      },
    });
  });
  afterAll(() => Promise.all([scenario.stop(), told.stop()]));
  beforeEach(() => {
    told.posted.length = 0;
    scenario.limit();
  });

  it('the last share is in and nobody hands the token in, though something else comes again and again: an alarm; handed in then it is held after all, and deleted', async () => {
    scenario.limit({ handIn: `${HAND_IN_MS}ms` });
    let isOver = false;
    const stream = jest.spyOn(ArrivedSignals.prototype, 'all').mockImplementation(async function (
      this: ArrivedSignals,
      signal,
      arrivals,
    ) {
      // The next waits already when a look ends.
      while (!isOver && !(isOver = await timeIsOver(run))) await delay(50);
      await handIn(run, 'west', 'AAAA');
      return Promise.all(arrivals.map((arrival) => this.of(signal, arrival)));
    });
    const run = await scenario.startRunbook(
      'merkleCheck',
      { deployment: scenario.name, cluster: 'west', reason: 'a test of the alarm', requestedBy: 'olga' },
      'merkle-check:west',
    );
    await shownFor(run, 'west');
    await handIn(run, 'west', 'AAAA');
    const encoded = await enterAll(scenario, run, 'west');
    const parked = await run.waitsFor('decision').finally(() => stream.mockRestore());
    expect(parked).toMatchObject({ step: 'Key shares on west', code: 'TOKEN_ORPHANED' });
    expect(parked.next).toContain('`runbook submit-token merkle-check:west --cluster west`');
    expect((await run.status()).findings[0]).toMatchObject({ severity: 'critical', code: 'orphan-token' });
    await run.until('the pager', () => told.values('event').includes('critical-finding'));
    await handIn(run, 'west', encoded);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', result: { merkle: { verdict: 'sound' } } });
    expect(findingCodes(report)).toEqual(['orphan-token', 'orphan-held-after-all']);
    expect(report.tokens.map(({ cluster, state }) => [cluster, state])).toEqual([['west', 'deleted']]);
    expect(scenario.service.cluster('west').snapshotState().operationTokens).toBe(0);
    await expectClean(scenario, run, report);
  });

  it('the time for the token ends while the one that was handed in is looked at: no alarm, and nobody is asked', async () => {
    scenario.limit({ handIn: `${HAND_IN_MS}ms` });
    const run = await scenario.startRunbook(
      'merkleCheck',
      { deployment: scenario.name, cluster: 'west', reason: 'a test of a slow look', requestedBy: 'olga' },
      'merkle-check:west',
    );
    const slow = jest.spyOn(ArrivedSignals.prototype, 'all').mockImplementation(async function (
      this: ArrivedSignals,
      signal,
      arrivals,
    ) {
      while (signal === 'submitEncodedToken' && !(await timeIsOver(run))) await delay(50);
      return Promise.all(arrivals.map((arrival) => this.of(signal, arrival)));
    });
    try {
      // Handed in before the run sees that the last share is in: its time cannot end before it is there.
      const shown = await shownFor(run, 'west');
      await enterUnseen(scenario, 'west', shown, (encoded) => handIn(run, 'west', encoded));
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', findings: [], parkings: [] });
      await expectClean(scenario, run, report);
    } finally {
      slow.mockRestore();
    }
  });

  it('a holder who declines: who stands by is asked at once, and reminded by name; too few left is said, and the run goes on', async () => {
    const run = await scenario.startRunbook(
      'operationTokenCeremony',
      { deployment: scenario.name, cluster: 'west', uses: ['dr.promote'], reason: 'a token', requestedBy: 'olga' },
      ceremonyWorkflowId('west'),
    );
    const shown = await shownFor(run, 'west');
    expect(shown.text).toContain('Asked: ada, bert, cleo. Who of them entered a share already is not known here');
    expect(shown.text).toMatch(/Standing by, asked at \d{4}-.* UTC or as soon as somebody declines.*: dora, emil/);
    expect(shown.text).toMatch(/3 more are needed, until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/);
    expect(shown.text).toContain('`runbook decline ceremony:west --holder YOUR-NAME --reason WHY`');
    const command = `vault operator generate-root -dr-token -nonce=${shown.nonce}`;
    const reminder = await run.until('the reminder', () =>
      told.posted.find(({ body }) => body['event'] === 'reminder'),
    );
    expect(reminder.body['text']).toContain('themselves, and somebody hands in the encoded token (ada, bert, cleo)');
    await run.until('the escalation', () => told.values('event').includes('escalation'));

    expect(await declines(scenario, run, 'cleo')).toMatchObject({ verdict: 'accepted' });
    const waiting = await run.waitsFor('action', ({ commands }) => commands?.length === 4);
    expect(waiting.commands?.map(({ who }) => who)).toEqual(['ada', 'bert', 'dora', 'emil']);
    expect(waiting.commands?.every((each) => each.command.endsWith(command))).toBe(true);
    expect(waiting.instructions.join('\n')).toContain('with the same command: cleo (on a plane)');
    const called = await run.until('the pager', () =>
      told.posted.find(({ body }) => body['event'] === 'stand-by-called'),
    );
    expect(called.body['text']).toMatch(/now asks who stands by, dora and emil, .*: cleo declined/);
    expect(JSON.stringify(called.body)).toContain(command);

    for (const name of ['dora', 'emil']) await declines(scenario, run, name);
    const found = await run.until('the finding', ({ findings }) =>
      findings.find(({ code }) => code === 'holders-too-few'),
    );
    expect(found.text).toBe(
      'Too few key holders are left: 3 key shares are needed; whose are in is not known here; can still give: ada, bert; declined: cleo, dora, emil.',
    );
    expect(found.next).toContain('cleo, dora, emil may enter a key share all the same: `runbook status ceremony:west`');
    await run.until('the pager', () => told.values('event').includes('holders-too-few'));

    // One of them can after all.
    await handIn(run, 'west', await enterAll(scenario, run, 'west', ['ada', 'bert', 'emil']));
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
    expect(report.holders).toMatchObject([
      { name: 'ada', as: 'holder' },
      { name: 'bert' },
      { name: 'cleo', declined: { text: 'cannot give a share: on a plane' } },
      { name: 'dora', as: 'stand-by', why: 'cleo declined' },
      { name: 'emil', as: 'stand-by' },
    ]);
    await expectClean(scenario, run, report);
  });

  it('who declined for one cluster is not waited for on the next: who stands by is asked there from the beginning', async () => {
    const run = await scenario.start({ go: 'auto' });
    await handIn(run, 'west', await enterAll(scenario, run, 'west'));
    await run.until('nobody to be asked', ({ receipts, waiting }) => {
      const inHand = receipts.some(({ code }) => code === 'accepted');
      return inHand && !waiting.some((each) => each.for === 'action');
    });
    expect(await declines(scenario, run, 'bert')).toMatchObject({ verdict: 'accepted' });
    expect(told.values('event').filter((event) => event === 'stand-by-called')).toHaveLength(0);
    await run.approve('plan');
    const waiting = await run.waitsFor('action', ({ what }) => what.includes(' on east '));
    expect(waiting.commands?.map(({ who }) => who)).toEqual(['ada', 'cleo', 'dora', 'emil']);
    await handIn(run, 'east', await enterAll(scenario, run, 'east', ['ada', 'cleo', 'dora']));
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
    await expectServiceOn(scenario, 'west');
    await expectClean(scenario, run, report);
  });
});
