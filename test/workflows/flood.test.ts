/**
 * Somebody who may only signal floods a run: the worker lives, people are warned, what is looked at is bounded, and
 * approvers are still heard. As many signals as the server takes: `test/long/flood.test.ts`.
 */
import { sendSignal } from '../../src/cli/signals';
import { LANE_TEST_MS } from '../support/lane';
import { approvalOf } from '../support/people';
import { Scenario } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';

jest.setTimeout(LANE_TEST_MS);

/** More than a fifth of what the server takes for one run. */
const SIGNALS = 2_100;

describe('a flood of tiny signals', () => {
  let scenario: Scenario;
  beforeAll(async () => {
    scenario = await Scenario.start();
  });
  afterAll(() => scenario.stop());

  it('warns people early, is looked at within bounds, and silences no approver: approvals go another way', async () => {
    const run = await scenario.start({ go: 'auto' });
    for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
    const { planDigest } = await run.waitsFor('approval');
    for (let sent = 0; sent < SIGNALS; sent += 100) {
      const name = `nobody ${sent / 100}`;
      await Promise.all(
        Array.from({ length: 100 }, (_, index) => run.handle.signal(index % 2 === 0 ? 'approve' : 'decide', { name })),
      );
    }
    const status = await run.until('the warning', (each) =>
      each.findings.some(({ code }) => code === 'signal-flood') ? each : undefined,
    );
    expect(status.findings.map(({ code }) => code)).toContain('too-many-signals');
    // One receipt for all of a batch that is nobody's in particular.
    await run.until('one for many', ({ receipts }) => receipts.some(({ alsoFor = [] }) => alsoFor.length > 0));

    const { workflowId: wid, runId: rid } = status;
    const approval = { ns: temporalServer().namespace, wid, rid, gate: 'plan', planDigest };
    const document = await approvalOf(scenario.person('grace'), approval);
    const before = await run.eventCount();
    const update = (input: unknown) => run.handle.executeUpdate<number, [unknown]>('approve', { args: [input] });
    for (const bad of ['not a document', {}, { name: 'x'.repeat(20_000) }]) await expect(update(bad)).rejects.toThrow();
    expect((await run.eventCount()) - before).toBeLessThan(5);
    expect(await run.status()).toMatchObject({ phase: 'waiting-for-people' });
    // Nobody looks at a further signal of this name: the command line sends the update by itself.
    const stop = new AbortController().signal;
    const sent = await sendSignal(scenario.client, { workflowId: wid, runId: rid }, 'approve', document, stop);
    expect(sent.receipt).toMatchObject({ verdict: 'accepted', from: { name: 'grace', how: 'signed' } });
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', gates: [{ gate: 'plan', by: [{ name: 'grace' }] }] });
    expect(report.findings.map(({ code }) => code)).toContain('signals-not-looked-at');
    // Looked at: 200 of each name at most, in batches.
    expect(report.receipts.filter(({ signal }) => signal === 'decide').length).toBeLessThanOrEqual(200);
    expect(report.signals.length).toBeLessThanOrEqual(1_000);
  });
});
