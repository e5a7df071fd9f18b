/**
 * Who may abort, pause and take over a run: people of the inventory who may decide, with documents of theirs. Inside the
 * outage none of it stops what brings service back.
 */
import { CHANGING, hold, parksInTime, refusePromotion, underWay } from '../support/faults';
import { expectServesAlone, FAILOVER_LIMITS, takeOverBy } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { reportOf } from '../support/reports';
import { Scenario } from '../support/scenario';
import { temporalServer } from '../support/temporal-server';
import type { TestRun } from '../support/scenario';

const approvers = { approvals: 1, groups: ['approvers'], validFor: '4h' };
const world = new Lane(() =>
  Scenario.start({
    limits: FAILOVER_LIMITS,
    deployment: {
      gates: { plan: approvers, go: approvers, promote: { ...approvers, approvals: 2, excludeRequester: false } },
    },
  }),
);

/** Sends something while the demotion of east is under way, and lets it end when the run has looked at it. */
async function duringDemotion(
  scenario: Scenario,
  send: (run: TestRun) => Promise<unknown>,
  input: Readonly<Record<string, unknown>> = {},
): Promise<TestRun> {
  const { reached, letGo } = hold(scenario, 'after', 'east', CHANGING.demote);
  const run = await underWay(scenario, input);
  await reached;
  await send(run);
  letGo();
  return run;
}

describe('orders to a run', () => {
  const { it } = world;
  runLanes(world);

  it('an outage is not stopped half-way by unsigned ones, from an unknown name or in that of an approver', async (scenario) => {
    const { name: deployment } = scenario;
    const unsigned = {
      abort: { by: 'nobody', reason: 'an attack' },
      takeOver: { deployment, reason: 'an attack', requestedBy: 'nobody' },
    };
    const run = await duringDemotion(scenario, async (demoting) => {
      for (const signal of ['abort', 'takeOver'] as const) {
        await demoting.handle.signal(signal, unsigned[signal]);
        expect(await demoting.receiptOf(signal)).toMatchObject({ verdict: 'refused' });
      }
      const { workflowId: wid, runId: rid } = await demoting.handle.describe();
      const { namespace: ns } = temporalServer();
      const claim = {
        ns,
        wid,
        rid,
        action: 'abort',
        reason: 'an attack',
        name: 'grace',
        iat: Math.floor(Date.now() / 1_000),
      };
      await demoting.handle.signal('abort', claim);
      expect(await demoting.receiptOf('abort', 2)).toMatchObject({
        ...{ verdict: 'refused', text: expect.stringContaining('requires a signature') as string },
      });
    });
    expect(await run.report()).toMatchObject({ outcome: 'completed', parkings: [] });
  });

  it('a run is paused by a signed document once: an unsigned one, or a copy of it from anybody, makes no changes', async (scenario) => {
    const run = await scenario.start({ to: 'east', go: 'auto' });
    await run.waitsFor('approval');
    await run.handle.signal('pause', { by: 'nobody', reason: 'an attack' });
    await run.receiptOf('pause');
    const pause = await run.controlDocument('pause');
    await run.handle.signal('pause', pause);
    await run.receiptOf('pause', 2);
    await run.people({ go: false });
    await run.waitsFor('resume');
    await run.control('resume');
    await run.handle.signal('pause', pause);
    expect(await run.receiptOf('pause', 3)).toMatchObject({ verdict: 'refused', code: 'repeated' });
    expect(await run.report()).toMatchObject({ outcome: 'completed' });
    // What was noted of the names is of those who signed.
    expect((await reportOf(run)).controls.map(({ control, by }) => `${control} ${by.name} ${by.how}`)).toEqual([
      'pause grace signed',
      'resume grace signed',
    ]);
  });

  it('people take over inside an outage if a step parked, and only as many as gate promote needs', async (scenario) => {
    const refusal = refusePromotion(scenario, 'west');
    const input = { deployment: scenario.name, reason: 'no primary', requestedBy: 'grace' };
    const order = async (run: TestRun, name: string) =>
      run.handle.signal('takeOver', { ...input, takeOverDocument: await takeOverBy(run, input, name) });
    const send = async (demoting: TestRun) => {
      await order(demoting, 'grace');
      const text = expect.stringContaining('1 more of') as string;
      expect(await demoting.receiptOf('takeOver')).toMatchObject({ verdict: 'accepted', text });
    };
    const run = await duringDemotion(scenario, send, { onStuck: 'park' });
    await parksInTime(run, 'Promote west');
    expect(await run.status()).toMatchObject({ runbook: 'drSwitchover' });
    await order(run, 'henry');
    await run.until('the failover', ({ runbook }) => runbook === 'drFailover');
    refusal.remove();
    await run.approve('promote', 'grace');
    await run.approve('promote', 'henry');
    expect(await run.report()).toMatchObject({
      outcome: 'completed',
      takenOver: { by: { name: 'henry', how: 'signed' } },
    });
    await expectServesAlone(scenario, 'west');
  });
});
