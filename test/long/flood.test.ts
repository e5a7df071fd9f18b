/**
 * Somebody who may only signal floods a run with as many signals as the server takes: the worker lives (it aborted), people
 * are warned, what is looked at is bounded, and approvers are still heard.
 */
import { sendSignal } from '../../src/cli/sending';
import { WINDOW_MS } from '../../workflows/engine/flood';
import { approvalOf } from '../support/people';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';

jest.setTimeout(300_000);

/** As many as the server takes for one run, or more where it is somebody else's. */
const SIGNALS = 10_000;

describe('as many signals as the server accepts', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened));

  it('stops no worker, warns people, is read within bounds, and blocks no approver: approvals go another way', async () => {
    const run = await scenario.start({ go: 'auto' });
    await run.shares();
    const { planDigest } = await run.waitsFor('approval');
    const began = Date.now();
    let refused: unknown;
    for (let sent = 0; refused === undefined && sent < SIGNALS + 100; sent += 100) {
      const batch = Array.from({ length: 100 }, (_, index) =>
        run.handle.signal(index % 2 === 0 ? 'approve' : 'decide', { name: `nobody ${index % 7}` }),
      );
      for (const each of await Promise.allSettled(batch)) if (each.status === 'rejected') refused = each.reason;
    }
    expect((refused as Error & { cause?: Error }).cause?.message).toContain('limit for signal events');

    const status = await run.until('the warning', (each) =>
      each.findings.some(({ code }) => code === 'signal-flood') ? each : undefined,
    );
    expect(status.findings.map(({ code }) => code)).toContain('too-many-signals');

    const { workflowId: wid, runId: rid } = status;
    const approval = { ns: temporalServer().namespace, wid, rid, gate: 'plan', planDigest };
    const document = await approvalOf(scenario.person('grace'), approval);
    const update = (input: unknown) => run.handle.executeUpdate<number, [unknown]>('approve', { args: [input] });
    for (const bad of ['not a document', {}, { name: 'x'.repeat(20_000) }]) await expect(update(bad)).rejects.toThrow();
    const updates = async () =>
      (await run.events()).flatMap(
        ({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) => accepted?.acceptedRequest?.input?.name ?? [],
      );
    expect(await updates()).toEqual([]);
    // Nobody looks at a further signal of this name: the command line sends the update by itself.
    const context = { stop: new AbortController().signal, err: () => undefined };
    const session = { client: scenario.client, namespace: approval.ns };
    const sent = await sendSignal(context, session, { workflowId: wid, runId: rid }, 'approve', document);
    expect(sent.receipt).toMatchObject({ verdict: 'accepted', from: { name: 'grace', how: 'signed' } });
    expect(await updates()).toEqual(['approve']);
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', gates: [{ gate: 'plan', by: [{ name: 'grace' }] }] });
    expect(report.findings.map(({ code }) => code)).toContain('signals-not-looked-at');
    // Looked at: 200 of each kind at once, in batches, and then 20 in each window.
    const windows = Math.ceil((Date.now() - began) / WINDOW_MS) + 1;
    const lookedAt = report.receipts.filter(({ signal }) => signal === 'decide').length;
    expect(lookedAt).toBeLessThanOrEqual(200 + 20 * windows);
    await expect(
      scenario.client.workflow.getHandle(wid, rid).executeUpdate('approve', { args: [document] }),
    ).rejects.toThrow();
  });
});
