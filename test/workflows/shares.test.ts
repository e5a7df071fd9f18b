import type { Receipt } from '../../src/contracts/run-facts';
import type { Report } from '../../src/contracts/report';
import { CHANGING, hold } from '../support/faults';
import { replayRun } from '../support/replay';
import { deeds, reportOf } from '../support/reports';
import { openScenario } from '../support/scenario';
import type { Scenario, TestRun } from '../support/scenario';

/** As long as a key share, and nobody's. */
const PLAIN = 'c0ffee'.repeat(11);
const TOKEN = `hvs.${'Ab3'.repeat(8)}`;
const PLAIN_EARLY = 'decade'.repeat(11);

describe('key shares', () => {
  let scenario: Scenario;
  let run: TestRun;
  let report: Report;
  let ofAnotherRun: unknown;
  let sent = 0;

  openScenario((opened) => (scenario = opened));
  beforeAll(async () => {
    const earlier = await scenario.start();
    ofAnotherRun = await earlier.envelope('ada');
    await earlier.control('abort', { reason: 'its invitation is enough' });
    expect((await earlier.report()).outcome).toBe('aborted');
  });

  const send = async (input: unknown): Promise<Receipt> => {
    sent += 1;
    await run.handle.signal('share', input);
    return run.receiptOf('share', sent);
  };
  const held = async () => (await run.waitsFor('shares')).held;

  it('before the ceremony: refused, and plain text is noticed there too', async () => {
    const input = { deployment: scenario.name, to: 'west', reason: 'a test of shares', requestedBy: 'olga' };
    const handle = await scenario.client.workflow.signalWithStart('drSwitchover', {
      taskQueue: scenario.taskQueue,
      workflowId: scenario.workflowId,
      args: [input],
      signal: 'share',
      signalArgs: [ofAnotherRun],
    });
    await handle.signal('share', { share: PLAIN_EARLY });
    run = scenario.attach(scenario.workflowId, handle.signaledRunId);
    sent = 2;
    expect(await run.receiptOf('share')).toMatchObject({
      verdict: 'refused',
      code: expect.stringMatching(/no-ceremony|wrong-ceremony/) as string,
    });
    expect(await run.receiptOf('share', 2)).toMatchObject({ verdict: 'refused', code: 'plain-text-share' });
  });

  it.each([
    ['no envelope at all', () => ({ hello: 'world' }), 'malformed'],
    ['the envelope of another run', () => ofAnotherRun, 'wrong-ceremony'],
    ['a key share in plain text', () => ({ holder: 'emil', share: PLAIN }), 'plain-text-share'],
    ['a token in plain text', () => ({ token: TOKEN }), 'plain-text-token'],
    ['both', () => ({ holder: 'emil', share: PLAIN, token: TOKEN }), 'plain-text-share'],
  ])('refused with a reason, and without a loss: %s', async (_what, make, code) => {
    await run.waitsFor('shares');
    expect(await send(await make())).toMatchObject({ verdict: 'refused', code });
    expect(await held()).toEqual([]);
  });

  it('a bare document counts; twice it is repeated; from a second holder the same share is refused', async () => {
    const { document } = (await run.envelope('ada')) as { readonly document: string };
    expect(await send(document)).toMatchObject({ verdict: 'accepted', from: { name: 'ada', how: 'signed' } });
    expect(await send({ document })).toMatchObject({ verdict: 'refused', code: 'repeated' });
    const { share } = scenario.person('ada');
    expect(await send(await run.envelope('bert', { share }))).toMatchObject({ code: 'same-share-as-another' });
    expect(await held()).toEqual(['ada']);
  });

  it('a corrected share replaces the earlier one of its holder; an older one does not', async () => {
    expect(await send(await run.envelope('bert', { share: `${'11'.repeat(32)}42` }))).toMatchObject({
      verdict: 'accepted',
    });
    expect(await send(await run.envelope('bert', { seq: 3 }))).toMatchObject({ verdict: 'accepted' });
    expect(await send(await run.envelope('bert', { seq: 2 }))).toMatchObject({
      verdict: 'refused',
      code: 'superseded',
    });
    expect(await held()).toEqual(['ada', 'bert']);
  });

  it('a wrong share value: the progress falls back, no holder is blamed, and one further share is enough', async () => {
    const right = scenario.person('cleo').share ?? '';
    const wrong = `${right.startsWith('00') ? 'ff' : '00'}${right.slice(2)}`;
    expect(await send(await run.envelope('cleo', { share: wrong }))).toMatchObject({ verdict: 'accepted' });
    const tokens = scenario.service.cluster('west').issuedSecrets.length;
    await run.approve('plan');
    const waiting = await run.waitsFor('shares', ({ threshold }) => threshold === 4);
    expect(waiting.held).toEqual(['ada', 'bert', 'cleo']);
    expect(waiting.epoch).toBe(1);
    const { findings } = await run.status();
    expect(findings.map(({ code }) => code)).toContain('shares-rejected');
    expect(findings.map(({ code }) => code)).not.toContain('bad-share');
    expect(scenario.service.cluster('west').issuedSecrets).toHaveLength(tokens);

    expect(await send(await run.envelope('dora'))).toMatchObject({ verdict: 'accepted' });
    await run.waitsFor('approval', ({ gate }) => gate === 'go');
    const after = await run.status();
    const blamed = after.findings.filter(({ code }) => code === 'bad-share');
    expect(blamed).toEqual([
      expect.objectContaining({ text: expect.stringMatching(/^The key share of cleo/) as string }),
    ]);
    expect(after.steps.filter(({ name }) => name.startsWith('Invite the key holders'))).toHaveLength(1);
  });

  it('more than needed is accepted; after the end of the ceremony it is refused', async () => {
    expect(await send(await run.envelope('emil'))).toMatchObject({ verdict: 'accepted' });
    const late = await run.envelope('emil', { seq: 2 });
    const { letGo } = hold(scenario, 'after', 'east', CHANGING.deleteToken);
    await run.approve('go', 'henry');
    await run.until('the ceremony is over', ({ steps }) =>
      steps.some(({ name, state }) => name === 'Destroy the ceremony keys' && state === 'done'),
    );
    expect(await send(late)).toMatchObject({ verdict: 'refused', code: 'no-ceremony' });
    letGo();
    report = await run.report();
    expect(report.outcome).toBe('completed');
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(sent);
  });

  it('the report that the run gave equals the one from its whole history', async () => {
    await replayRun(run);
    const later = await reportOf(run);
    expect(deeds(later)).toEqual(deeds(report));
    expect(later).toMatchObject({
      outcome: report.outcome,
      leftToDo: report.leftToDo,
      findings: report.findings,
      outage: report.outage,
    });
  });
});
