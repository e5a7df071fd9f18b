/** Holders who give their shares to the service themselves: no share comes near Temporal or a worker. */
import { ceremonyWorkflowId } from '../../src/contracts/names';
import { enter, enterAll, enterUnseen, expectClean, handIn, heldLooks, progressOf, shownFor } from '../support/direct';
import { CHANGING, expectServiceOn, statuses } from '../support/faults';
import { Lane, Lanes, LANE_TEST_MS } from '../support/lane';
import type { Recipient } from '../support/recipient';
import { encryptedTo, newRecipient, opened } from '../support/recipient';
import { Scenario, pair } from '../support/scenario';

jest.setTimeout(LANE_TEST_MS);

const WEST = ceremonyWorkflowId('west');

/** The holders are asked on two clusters, one after the other; docs/benchmarks.md has the same figure. */
const DIRECT_SWITCHOVER_EVENTS = 240;

const inOneNode = new Lane(() => Scenario.start());
const inThreeNodes = new Lane(() =>
  Scenario.start({
    topology: pair(3),
    deployment: {
      ceremony: {
        holders: ['ada', 'bert', 'cleo', 'dora', 'emil'],
        collectFor: '30m',
        useFor: '30m',
        shares: 'direct',
      },
    },
  }),
);

const ceremony = (scenario: Scenario, more: Readonly<Record<string, unknown>> = {}) =>
  scenario.startRunbook(
    'operationTokenCeremony',
    {
      deployment: scenario.name,
      cluster: 'west',
      uses: ['dr.promote'],
      reason: 'a token to have at hand',
      requestedBy: 'olga',
      ...more,
    },
    WEST,
  );

const findingCodes = (report: { readonly findings: readonly { readonly code: string }[] }) =>
  report.findings.map(({ code }) => code);

describe('key shares that holders enter in the service themselves', () => {
  const lanes = new Lanes(inOneNode, inThreeNodes);
  let recipient: Recipient;
  beforeAll(async () => {
    recipient = await newRecipient();
    lanes.start();
  });
  afterAll(() => lanes.ended());

  it(
    'operationTokenCeremony: shows nonce, key and commands, follows the progress, takes the encoded token',
    inOneNode.test(async (scenario) => {
      const run = await ceremony(scenario, { shares: 'direct' });
      const shown = await shownFor(run, 'west');
      const attempt = await scenario.service.cluster('west').node(0).attempts.read('dr-operation-token');
      expect(shown.nonce).toBe(attempt.nonce);
      expect(shown.text).toContain(`vault operator generate-root -dr-token -nonce=${attempt.nonce}`);
      expect(shown.text).toContain((attempt.pgp_fingerprint.match(/.{1,4}/g) ?? []).join(' '));
      expect(shown.text).toContain('0 of 3 key shares are in');
      // A share that is sent to the run all the same is refused.
      await run.handle.signal('share', { share: 'no' });

      await enter(shown, scenario.person('ada').share ?? '');
      await progressOf(run, shown, 1);
      await enter(shown, scenario.person('bert').share ?? '');
      await progressOf(run, shown, 2);
      const answer = await enter(shown, scenario.person('cleo').share ?? '');
      // Before anything else the run says that a token exists which it does not hold.
      await run.until('what is missing', ({ waiting }) => JSON.stringify(waiting).includes('A TOKEN EXISTS'));

      await handIn(run, 'east', String(answer['encoded_token']));
      await run.handle.signal('submitEncodedToken', { encoded_token: answer['encoded_token'], complete: true });
      await handIn(run, 'west', `${String(answer['encoded_token'])}\n`);
      const report = await run.report();

      expect(report).toMatchObject({ outcome: 'completed', findings: [], parkings: [] });
      expect(report.receipts.map(({ signal, verdict, code }) => [signal, verdict, code])).toEqual([
        ['share', 'refused', 'no-ceremony'],
        ['submitEncodedToken', 'refused', 'wrong-cluster'],
        ['submitEncodedToken', 'refused', 'malformed'],
        ['submitEncodedToken', 'accepted', 'accepted'],
      ]);
      expect(scenario.service.cluster('west').snapshotState().operationTokens).toBe(1);
      expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([200]);
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'cancelled by somebody: the run says so, and a decision starts another attempt',
    inOneNode.test(async (scenario) => {
      const run = await ceremony(scenario, { shares: 'direct' });
      const first = await shownFor(run, 'west');
      await enter(first, scenario.person('ada').share ?? '');
      await progressOf(run, first, 1);
      await scenario.service.cluster('west').node(0).attempts.cancel();
      expect(await run.waitsFor('decision')).toMatchObject({ step: 'Key shares on west', code: 'ATTEMPT_LOST' });
      await run.decide('retry');
      await handIn(run, 'west', await enterAll(scenario, run, 'west', undefined, [first.nonce]));
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', findings: [] });
      expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([200, 200]);
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'a script enters all shares between two looks: the run says that a token may exist, and takes it',
    inOneNode.test(async (scenario) => {
      const run = await ceremony(scenario, { shares: 'direct' });
      const encoded = await enterUnseen(scenario, 'west', await shownFor(run, 'west'));
      await run.waitsFor('action', ({ instructions }) => instructions.join('\n').includes('A TOKEN EXISTS'));
      await handIn(run, 'west', encoded);
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', findings: [] });
      expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([200]);
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'the last share is in and the run is aborted before the token came: the alarm is its first finding',
    inOneNode.test(async (scenario) => {
      const run = await ceremony(scenario, { shares: 'direct' });
      await enterAll(scenario, run, 'west');
      await run.until('what is missing', ({ waiting }) => JSON.stringify(waiting).includes('A TOKEN EXISTS'));
      await run.handle.signal('abort', { by: 'olga', reason: 'nobody has the token' });
      const report = await run.report();
      expect(report.outcome).toBe('aborted');
      expect(report.findings[0]).toMatchObject({ severity: 'critical', code: 'orphan-token' });
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'aborted while the token that was handed in is looked at: the run ends once that is done, and nobody is alarmed',
    inOneNode.test(async (scenario) => {
      const run = await ceremony(scenario, { shares: 'direct' });
      const encoded = await enterAll(scenario, run, 'west');
      await run.until('what is missing', ({ waiting }) => JSON.stringify(waiting).includes('A TOKEN EXISTS'));
      const goOn = await heldLooks(scenario, 'west', () => handIn(run, 'west', encoded));
      await run.handle.signal('abort', { by: 'olga', reason: 'not needed any more' });
      await run.until('nobody is asked any more', ({ waiting }) => waiting.length === 0);
      goOn();
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'aborted', findings: [] });
      expect(report.receipts.map(({ signal, verdict }) => `${signal}: ${verdict}`)).toContain(
        'submitEncodedToken: accepted',
      );
      const { events } = await run.handle.fetchHistory();
      const scheduled = (name: string) =>
        (events ?? []).find((each) => each.activityTaskScheduledEventAttributes?.activityType?.name === name)?.eventId;
      const looked = (events ?? []).find(
        ({ activityTaskCompletedEventAttributes: done }) =>
          String(done?.scheduledEventId) === String(scheduled('takeEncodedToken')),
      );
      expect(Number(scheduled('endDirectAttempt'))).toBeGreaterThan(Number(looked?.eventId));
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'a lost final answer in the sealed mode: whoever got it hands it in, and the run deletes that token too',
    inOneNode.test(async (scenario) => {
      let encoded = '';
      let lost = 0;
      scenario.service.faults.add({
        cluster: 'west',
        endpoint: CHANGING.giveShare,
        when: 'after',
        skip: 2,
        action: (_cluster, answer) => {
          encoded = String((answer?.body as Readonly<Record<string, unknown>>)['encoded_token']);
          lost += 1;
        },
      });
      scenario.service.faults.add({
        cluster: 'west',
        endpoint: CHANGING.giveShare,
        skip: 2,
        action: 'lose-answer',
      });
      const run = await scenario.start({ shares: 'sealed' });
      await run.people({ go: false });
      await run.waitsFor('approval', ({ gate }) => gate === 'go');
      expect(lost).toBe(1);
      expect((await run.status()).findings[0]).toMatchObject({ severity: 'critical', code: 'orphan-token' });
      await run.handle.signal('submitEncodedToken', {
        cluster: 'west',
        encodedToken: 'hvs.CANARYplainTokenOfSomebody',
      });
      await handIn(run, 'west', encoded);
      await handIn(run, 'west', encoded);
      await run.until(
        'the receipts',
        ({ receipts }) => receipts.filter(({ signal }) => signal === 'submitEncodedToken').length === 3,
      );
      await run.approve('go', 'henry');
      const report = await run.report();

      expect(report.outcome).toBe('completed');
      expect(report.receipts.filter(({ signal }) => signal === 'submitEncodedToken').map(({ code }) => code)).toEqual([
        'plain-text-token',
        'accepted',
        'repeated',
      ]);
      expect(findingCodes(report)).toEqual(
        expect.arrayContaining(['orphan-token', 'plain-text-token', 'orphan-held-after-all']),
      );
      expect(JSON.stringify(report)).not.toContain('CANARYplain');
      // Both of west's and the one of east are gone: what could not be deleted while west was primary is in the ledger.
      await expectServiceOn(scenario, 'west');
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'a token that is handed in while the burst of sealed shares is parked ends it',
    inOneNode.test(async (scenario) => {
      let encoded = '';
      scenario.service.faults.add({
        ...{ cluster: 'east', endpoint: CHANGING.giveShare, when: 'after', skip: 2 },
        action: (_cluster, answer) => {
          encoded = String((answer?.body as Readonly<Record<string, unknown>>)['encoded_token']);
          scenario.service.faults.add({
            ...{ cluster: 'east', endpoint: CHANGING.startAttempt, times: Infinity },
            action: { status: 400 },
          });
        },
      });
      scenario.service.faults.add({ cluster: 'east', endpoint: CHANGING.giveShare, skip: 2, action: 'lose-answer' });
      const run = await scenario.startRunbook(
        'merkleCheck',
        { deployment: scenario.name, cluster: 'east', reason: 'a test', requestedBy: 'olga' },
        'merkle-check:east',
      );
      for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
      const name = 'Generate operation token on east';
      await run.waitsFor('decision', ({ step }) => step === name);
      await handIn(run, 'east', encoded);
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', result: { merkle: { verdict: 'sound' } } });
      expect(report.parkings).toEqual([expect.not.objectContaining({ decision: expect.anything() as unknown })]);
      expect(report.steps.find((each) => each.name === name)).toMatchObject({
        outcome: 'done',
      });
      expect(findingCodes(report)).toEqual(expect.arrayContaining(['orphan-token', 'orphan-held-after-all']));
      expect(scenario.service.cluster('east').snapshotState().operationTokens).toBe(0);
      await expectClean(scenario, run, report);
    }),
  );

  const rootToken = async (scenario: Scenario, cluster: string) => {
    const people = { reason: 'a new audit device is needed', requestedBy: 'olga', shares: 'direct' };
    const input = { deployment: scenario.name, cluster, recipientPgpKey: recipient.publicKey, ...people };
    const run = await scenario.startRunbook('rootTokenCeremony', input, ceremonyWorkflowId(cluster));
    await run.approve('ceremony');
    const encoded = await enterAll(scenario, run, cluster);
    await run.until('what is missing', ({ waiting }) => JSON.stringify(waiting).includes('A TOKEN EXISTS'));
    return { run, encoded };
  };

  it(
    "rootTokenCeremony: the attempt has the recipient's key; all that came is passed on, and read by nobody here",
    inOneNode.test(async (scenario) => {
      const { run, encoded } = await rootToken(scenario, 'west');
      // Anybody can encrypt to the recipient, and be first.
      const other = await encryptedTo(recipient, 'hello');
      const goOn = await heldLooks(scenario, 'west', () => handIn(run, 'west', other));
      await handIn(run, 'west', encoded);
      goOn();
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', findings: [] });
      expect(report.result).toMatchObject({ encryptedToken: other, otherMessages: [encoded] });
      expect(report.leftToDo.join('\n')).toMatch(
        /otherMessages in the result.*says at once where it holds no root token/s,
      );
      const token = await opened(recipient, encoded);
      const cluster = scenario.service.cluster('west');
      expect(cluster.tokens.identify(token, scenario.service.now())?.policies).toEqual(['root']);
      // It is its recipient's: no later run takes it for one that nobody holds.
      const input = { deployment: scenario.name, cluster: 'west', dryRun: true, reason: 'a test' };
      const plan = await scenario.startRunbook('operationTokenDisposal', input, `plan:${scenario.name}`);
      expect(JSON.stringify((await plan.report()).plan?.content)).not.toContain('root token');
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'rootTokenCeremony, aborted while the token that was handed in is looked at: its recipient gets it all the same',
    inOneNode.test(async (scenario) => {
      const { run, encoded } = await rootToken(scenario, 'west');
      const goOn = await heldLooks(scenario, 'west', () => handIn(run, 'west', encoded));
      await run.handle.signal('abort', { by: 'olga', reason: 'not needed any more' });
      // A query is answered behind the signal.
      await run.status();
      goOn();
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'aborted', findings: [], result: { encryptedToken: encoded } });
      expect(report.leftToDo.join('\n')).toMatch(/stopped by olga.*Give the encrypted token/s);
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'drSwitchover: what it costs, with each share seen on its own',
    inOneNode.test(async (scenario) => {
      const run = await scenario.start({ go: 'auto', to: 'east', shares: 'direct' });
      await handIn(run, 'east', await enterAll(scenario, run, 'east'));
      await run.approve('plan');
      await handIn(run, 'west', await enterAll(scenario, run, 'west'));
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
      expect(findingCodes(report)).toEqual(['token-kept']);
      await expectServiceOn(scenario, 'east');
      const events = await run.eventCount();
      process.stderr.write(`history events of drSwitchover with shares: direct: ${events}\n`);
      expect(events).toBeLessThanOrEqual(DIRECT_SWITCHOVER_EVENTS);
      await expectClean(scenario, run, report);
    }),
  );

  it(
    'drSwitchover: a leader change loses the attempt and brings it back; the first token is in hand before the outage',
    inThreeNodes.test(async (scenario) => {
      const run = await scenario.start();
      const { planText } = await run.until('the plan', (status) => status.planText !== undefined && status);
      expect(planText).toContain('"shares":"direct"');
      const first = await shownFor(run, 'west');
      await enter(first, scenario.person('ada').share ?? '');
      await progressOf(run, first, 1);
      const west = scenario.service.cluster('west');
      west.leaderChange(1);
      const second = await shownFor(run, 'west', [first.nonce]);
      expect(second.address).not.toBe(first.address);
      west.leaderChange(0);
      // What was entered before counts again, and nobody had to decide anything.
      const third = await shownFor(run, 'west', [second.nonce]);
      expect([third.nonce, third.text]).toEqual([first.nonce, expect.stringContaining('1 of 3 key shares are in')]);
      await enter(third, scenario.person('bert').share ?? '');
      const answer = await enter(third, scenario.person('cleo').share ?? '');
      await handIn(run, 'west', String(answer['encoded_token']));
      await run.approve('plan');
      await run.approve('go', 'henry');
      // Service is back when the holders are asked again.
      await shownFor(run, 'east');
      expect((await run.status()).serviceBackAt).toBeDefined();
      await handIn(run, 'east', await enterAll(scenario, run, 'east'));
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [] });
      expect(findingCodes(report)).toEqual(expect.arrayContaining(['attempt-lost', 'attempt-reappeared']));
      expect(report.findings.filter(({ severity }) => severity === 'critical')).toEqual([]);
      await expectServiceOn(scenario, 'west');
      await expectClean(scenario, run, report);
    }),
  );
});
