/** As `test/workflows/flood.test.ts`, with as many signals as the server takes: the worker process lives (it aborted). */
import { sendSignal } from '../../src/cli/signals';
import { approvalOf } from '../support/people';
import { Scenario } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';

jest.setTimeout(300_000);

/** As many as the server takes for one run. */
const SIGNALS = 10_000;

describe('as many signals as the server takes', () => {
  let scenario: Scenario;
  beforeAll(async () => {
    scenario = await Scenario.start();
  });
  afterAll(() => scenario.stop());

  it('ends no worker, and the command line gives an approval as an update', async () => {
    const run = await scenario.start({ go: 'auto' });
    for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder);
    const { planDigest } = await run.waitsFor('approval');
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
    // Checked in few batches: what is left of the history is the run's.
    expect(await run.eventCount()).toBeLessThan(45_000);

    const { workflowId: wid, runId: rid } = status;
    const approval = { ns: temporalServer().namespace, wid, rid, gate: 'plan', planDigest };
    const document = await approvalOf(scenario.person('grace'), approval);
    const stop = new AbortController().signal;
    const sent = await sendSignal(scenario.client, { workflowId: wid, runId: rid }, 'approve', document, stop);
    expect(sent.receipt).toMatchObject({ verdict: 'accepted', from: { name: 'grace', how: 'signed' } });
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', gates: [{ gate: 'plan', by: [{ name: 'grace' }] }] });
    expect(report.signals.length).toBeLessThanOrEqual(1_000);
    await expect(
      scenario.client.workflow.getHandle(wid, rid).executeUpdate('approve', { args: [document] }),
    ).rejects.toThrow();
  });
});
