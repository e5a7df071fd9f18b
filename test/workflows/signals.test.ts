import type { Receipt } from '../../src/contracts/run-facts';
import type { Report } from '../../src/contracts/report';
import { cli } from '../cli/support';
import { approvalOf, controlOf, decisionOf } from '../support/people';
import { historyText } from '../support/secret-search';
import { signalWithPayload, UNREADABLE, UNREADABLE_CONTENT } from '../support/raw-payloads';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

const SECRET_NAME = 'hvs.CAESIJcanaryThatLooksLikeATokenOfTheService0123456789';

describe('every signal gets a receipt and the run continues to its normal end', () => {
  let scenario: Scenario;
  let run: TestRun;
  let report: Report;

  openScenario((opened) => (scenario = opened), {
    // Only the server's record of the sender attests this one, and the server of the tests records none.
    person: (name) =>
      name === 'emil'
        ? { attestation: 'principal', principal: 'user:emil', groups: ['holders', 'approvers'] }
        : undefined,
  });
  beforeAll(async () => {
    run = await scenario.start();
  });

  const person = (name: string) => scenario.person(name);
  const arrivals: Record<string, number> = {};
  /** The number of the next signal of this name. */
  const next = (signal: string) => (arrivals[signal] = (arrivals[signal] ?? 0) + 1);
  /** Sends a signal, and gives the receipt of exactly this one. */
  const send = async (signal: 'approve' | 'decide' | 'share' | 'pause', input: unknown) => {
    await run.handle.signal(signal, input);
    return run.receiptOf(signal, next(signal));
  };
  /** One after the other: several at once wait for each other. */
  const sendAll = async (signal: 'approve' | 'decide' | 'pause', inputs: readonly unknown[]) => {
    const receipts: Receipt[] = [];
    for (const input of inputs) receipts.push(await send(signal, input));
    return receipts;
  };
  const saying = (text: RegExp) => expect.stringMatching(text) as string;
  const OTHER_RUN = '00000000-0000-4000-8000-000000000000';

  it('payloads that cannot be decoded', async () => {
    await run.waitsFor('approval');
    await run.waitsFor('shares');
    for (const payload of Object.values(UNREADABLE))
      for (const signal of ['share', 'approve', 'decide', 'pause'] as const) {
        await signalWithPayload(scenario, run, signal, payload);
        const text = saying(/could not be read.*json\/plain/);
        const receipt = await run.receiptOf(signal, next(signal));
        expect(receipt).toMatchObject({ verdict: 'refused', code: 'undecodable', text });
      }
    // Longer than any document of ours.
    expect(await send('pause', { padding: 'x'.repeat(20 * 1024) })).toMatchObject({ code: 'undecodable' });
  });

  it('signals of unknown names: receipts for fifty, a count for the rest, no name that could be a secret', async () => {
    await run.handle.signal('aprove', {});
    await run.handle.signal(SECRET_NAME, {});
    // Kept by the SDK for itself, which throws at it.
    await run.handle.signal('__temporal_reserved', {});
    await Promise.all(Array.from({ length: 54 }, () => run.handle.signal('approved', { anything: 1 })));
    expect(await run.receiptOf('unknown', 1)).toMatchObject({
      code: 'unknown-signal',
      text: expect.stringMatching(/aprove/) as string,
    });
    expect(await run.receiptOf('unknown', 2)).toMatchObject({ code: 'plain-text-token', text: saying(/^[^.]*copied/) });
    expect((await run.receiptOf('unknown', 3)).text).toBe('no runbook has a signal (not shown)');
    await run.receiptOf('unknown', 50);
    expect((await run.status()).receipts.filter(({ signal }) => signal === 'unknown')).toHaveLength(50);
  });

  it('orders that are no documents of people who may decide: the receipt has the command that makes one', async () => {
    const { ns, wid, rid } = await run.identity();
    const order = { ns, wid, rid, action: 'pause', reason: '', name: 'grace', iat: 1 };
    const holder = await controlOf(person('ada'), { ns, wid, rid, action: 'pause' });
    const resume = await controlOf(person('grace'), { ns, wid, rid, action: 'resume' });
    const other = await controlOf(person('grace'), { ns, wid, rid: OTHER_RUN, action: 'pause' });
    const inputs = ['stop', { reason: 'nobody' }, { by: 'olga' }, order, resume, other, holder];
    const receipts = await sendAll('pause', inputs);
    const ofHolder = receipts.pop();
    for (const receipt of receipts)
      expect(receipt).toMatchObject({
        verdict: 'refused',
        code: 'refused',
        text: saying(new RegExp(`runbook pause ${wid}`)),
      });
    const text = saying(/for the approvers and operators of this deployment/);
    expect(ofHolder).toMatchObject({ verdict: 'refused', text });
    expect((await run.status()).paused).toBe(false);
  });

  it('approvals that are for something else, from somebody else, or wrongly signed', async () => {
    const { planDigest } = await run.waitsFor('approval');
    const right = { ...(await run.identity()), gate: 'plan', planDigest };
    const grace = person('grace');
    const sent: readonly (readonly [unknown, RegExp])[] = [
      [await approvalOf(grace, { ...right, rid: OTHER_RUN }), /another run/],
      [
        await approvalOf(grace, { ...right, gate: 'go' }),
        /another gate; gate plan is open.* Next: .*`runbook abort \S+` stops the run/,
      ],
      [await approvalOf({ ...grace, name: 'mallory' }, right), /a person whom the inventory does not list/],
      [await approvalOf({ ...grace, key: person('henry').key }, right), /signature|verif|key/],
      [{ yes: true }, /members/],
      [await approvalOf(person('emil'), right), /is authentication on\?/],
      // A holder is known, but in no group that this gate asks.
      [await approvalOf(person('ada'), right), /^gate plan can be approved by .*grace.*: ada is in none of its groups/],
    ];
    const receipts = await sendAll(
      'approve',
      sent.map(([input]) => input),
    );
    for (const [index, [, text]] of sent.entries())
      expect(receipts[index]).toMatchObject({ verdict: 'refused', text: saying(text) });
    expect(receipts.at(-1)).toMatchObject({ code: 'may-not-approve', from: { name: 'ada', how: 'signed' } });
    expect((await run.waitsFor('approval')).missing.join()).toContain('1 more of emil, grace, henry');
  });

  it('a share of a person whom only the server attests: the receipt says why', async () => {
    expect(await send('share', await run.envelope('emil', { unsigned: true }))).toMatchObject({
      verdict: 'refused',
      text: expect.stringContaining('is authentication on?') as string,
    });
  });

  it('decisions while nothing is parked', async () => {
    const decision = {
      ...(await run.identity()),
      step: 'Read and check again',
      parkingNo: 1,
      action: 'retry' as const,
    };
    const receipts = await sendAll('decide', [await decisionOf(person('grace'), decision), 'retry']);
    expect(receipts[0]).toMatchObject({
      verdict: 'refused',
      code: 'not-parked',
      from: { name: 'grace', how: 'signed' },
    });
    expect(receipts[1]).toMatchObject({ verdict: 'refused', code: 'refused' });
  });

  it('an approval before its gate opens is refused if it cannot have the plan, and counts if it does', async () => {
    const { planDigest } = await run.waitsFor('approval');
    for (const holder of ['ada', 'bert']) await run.share(holder);
    await run.approve('plan');
    await run.until('the plan gate is passed', ({ waiting }) => !waiting.some((each) => each.for === 'approval'));
    for (const signal of ['approve', 'share', 'share', 'share']) next(signal);
    // The go opens after the burst, which waits for the third share: these come early.
    const go = { ...(await run.identity()), gate: 'go', planDigest };
    await run.handle.signal('approve', await approvalOf(person('grace'), { ...go, gate: 'plan' }));
    await run.handle.signal('approve', await approvalOf(person('henry'), go));
    scenario.limit({ catchUp: '1s' });
    scenario.service.cluster('west').holdStream('dr', true);
    await run.share('cleo');
    expect(await run.receiptOf('approve', next('approve'))).toMatchObject({
      verdict: 'refused',
      text: expect.stringMatching(/another gate/) as string,
    });
    expect(await run.receiptOf('approve', next('approve'))).toMatchObject({
      verdict: 'accepted',
      from: { name: 'henry', how: 'signed' },
    });
  });

  it('decisions for another run, step, parking or choice leave the step parked; the right one is read', async () => {
    const parked = await run.waitsFor('decision');
    expect(parked).toMatchObject({
      step: 'Write a marker on east and wait until west has it',
      code: 'CONFIRMATION_TIMEOUT',
    });
    const right = {
      ...(await run.identity()),
      step: parked.step,
      parkingNo: parked.parkingNo,
      action: 'retry' as const,
    };
    const wrong = [
      [{ rid: OTHER_RUN }, 'refused', /another run/],
      [{ step: 'Demote east' }, 'not-parked', /wrong step/],
      [{ parkingNo: parked.parkingNo + 1 }, 'not-parked', /wrong parking/],
      [{ action: 'skip' }, 'no-such-choice', /choices: retry, abort/],
    ] as const;
    const documents = await Promise.all(wrong.map(([change]) => decisionOf(person('grace'), { ...right, ...change })));
    const stranger = await decisionOf({ ...person('grace'), name: 'mallory' }, right);
    const receipts = await sendAll('decide', [...documents, stranger]);
    for (const [index, [, code, text]] of wrong.entries())
      expect(receipts[index]).toMatchObject({ verdict: 'refused', code, text: saying(text) });
    expect(receipts.at(-1)).toMatchObject({ code: 'refused' });
    expect((await run.waitsFor('decision')).parkingNo).toBe(parked.parkingNo);

    const document = await decisionOf(person('grace'), right);
    expect(await send('decide', document)).toMatchObject({
      verdict: 'accepted',
      from: { name: 'grace', how: 'signed' },
    });
    const again = await run.waitsFor('decision', ({ parkingNo }) => parkingNo > parked.parkingNo);
    // A double click must not serve the next parking.
    expect(await send('decide', document)).toMatchObject({ verdict: 'refused', code: 'not-parked' });
    scenario.service.cluster('west').holdStream('dr', false);
    scenario.limit();
    expect(
      await send('decide', await decisionOf(person('grace'), { ...right, parkingNo: again.parkingNo })),
    ).toMatchObject({ verdict: 'accepted' });
    report = await run.report();
  });

  it('the report of the completed run has every receipt, and no unreadable content', async () => {
    expect(report.outcome).toBe('completed');
    for (const signal of ['share', 'approve', 'decide', 'pause'] as const) {
      const answered = report.receipts.filter((each) => each.signal === signal).map(({ arrival }) => arrival);
      // Each one, in its order or not.
      expect(answered.toSorted((one, other) => one - other)).toEqual(answered.map((_, index) => index + 1));
    }
    expect(report.receipts.filter(({ signal }) => signal === 'unknown')).toHaveLength(50);
    expect(report.findings).toContainEqual(
      expect.objectContaining({
        code: 'signals-not-looked-at',
        text: 'Signals that this run refused unread: 7 unknown.',
      }),
    );
    // Also by the command line, which reads the whole history: what people sent may be megabytes of it.
    const { workflowId, runId } = report;
    const printed = await cli(['report', workflowId, '--run-id', runId], { env: scenario.environment });
    expect([printed.code, printed.err]).toEqual([0, '']);
    const told = JSON.stringify([report, printed.out, await run.status()]);
    for (const canary of [SECRET_NAME, UNREADABLE_CONTENT]) expect(told).not.toContain(canary);
    const events = (await run.events()).filter((event) => !event.workflowExecutionSignaledEventAttributes);
    for (const canary of [SECRET_NAME, UNREADABLE_CONTENT]) {
      expect(historyText({ events })).not.toContain(canary);
      expect(scenario.logLines.join('\n')).not.toContain(canary);
    }
    scenario.shows(told);
  });

  it('a rejection ends the run as aborted while shares are still missing; two approvals of one person count once', async () => {
    const { gates } = scenario.inForce;
    const { plan } = gates;
    Object.assign(gates, { plan: { ...plan, approvals: 2 } });
    const changes = () => scenario.calls('west', 'dr/primary/demote') + scenario.calls('east', '/attempt');
    const before = changes();
    const rejected = await scenario.start({ to: 'east' });
    await rejected.do('approve plan', 'approve plan');
    const answered = await rejected.until('both approvals have receipts', ({ receipts }) => {
      const approvals = receipts.filter(({ signal }) => signal === 'approve');
      return approvals.length === 2 && approvals;
    });
    expect(answered.every(({ from }) => from?.name === 'grace')).toBe(true);
    const waiting = await rejected.waitsFor('approval');
    expect(waiting.approved).toEqual([{ name: 'grace', how: 'signed' }]);
    expect(waiting.missing.join()).toMatch(/1/);

    await rejected.approve('plan', 'henry', 'reject');
    const ended = await rejected.report();
    Object.assign(gates, { plan });
    expect(ended.outcome).toBe('aborted');
    expect(ended.gates).toMatchObject([{ gate: 'plan', state: 'rejected', by: [{ name: 'henry', how: 'signed' }] }]);
    expect(ended.leftToDo).toEqual([expect.stringMatching(/stopped by henry: rejected at gate plan/)]);
    expect(ended.steps.map(({ name }) => name)).toContain('Destroy the ceremony keys');
    expect(changes()).toBe(before);
  });

  it('updates in one name are read so often, also after another worker replayed the run; an update after a flood of signals has a receipt', async () => {
    const flooded = await scenario.start({ to: 'east' });
    await flooded.waitsFor('approval');
    const update = () => flooded.handle.executeUpdate<number, [unknown]>('decide', { args: [{ name: 'nobody' }] });
    // The server takes ten at once.
    for (let sent = 0; sent < 40; sent += 10) await Promise.all(Array.from({ length: 10 }, update));
    const refused = { cause: { message: saying(/checked its maximum.*send it again in ten seconds/) } };
    // Each window has room for a few more in one name, and a new window may begin between any two.
    const refusedSoon = async () => {
      const refusal = async (left: number): Promise<unknown> =>
        update().then(
          () => (left > 0 ? refusal(left - 1) : undefined),
          (error: unknown) => error,
        );
      expect(await refusal(40)).toMatchObject(refused);
    };
    await refusedSoon();
    await scenario.stopWorker();
    await scenario.startWorker();
    await refusedSoon();
    // As many signals as are looked at, each with a receipt of its own.
    const signal = (_: unknown, index: number) => flooded.handle.signal('decide', { name: `nobody ${index}` });
    await Promise.all(Array.from({ length: 200 }, signal));
    await flooded.receiptOf('decide', 200);
    const decided = { ...(await flooded.identity()), step: 'any', parkingNo: 1, action: 'retry' } as const;
    const document = await decisionOf(person('grace'), { ...decided, reason: 'a test' });
    const arrival = await flooded.handle.executeUpdate<number, [unknown]>('decide', { args: [document] });
    expect(await flooded.receiptOf('decide', arrival)).toMatchObject({ code: 'not-parked', from: { name: 'grace' } });
    await flooded.approve('plan', 'henry', 'reject');
    expect((await flooded.report()).outcome).toBe('aborted');
  });
});
