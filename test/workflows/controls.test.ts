/**
 * Who may abort, pause and take over a run: people of the inventory who may decide, with documents of theirs. Inside the
 * outage none of it stops what brings service back.
 */
import { CHANGING, signalled } from '../support/faults';
import { FAILOVER_LIMITS, expectServesAlone } from '../support/failover';
import { at, parksInTime, refusePromotion, underWay } from '../support/outage';
import { reportOf } from '../support/reports';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';
import { takeOverBy } from '../support/take-over';

/** Sends something while the demotion is under way, and lets it end when the run has looked at it. */
async function duringDemotion(
  scenario: Scenario,
  send: (run: TestRun) => Promise<unknown>,
  input: Readonly<Record<string, unknown>> = {},
): Promise<TestRun> {
  const demoting = signalled();
  const heard = signalled();
  at(scenario, 'after', 'east', CHANGING.demote, () => {
    demoting.resolve();
    return heard.promise;
  });
  const run = await underWay(scenario, input);
  await demoting.promise;
  await send(run);
  heard.resolve();
  return run;
}

const receiptOf = (run: TestRun, signal: string, arrival = 1) =>
  run.until(`the receipt of ${signal} ${arrival}`, ({ receipts }) =>
    receipts.find((each) => each.signal === signal && each.arrival === arrival),
  );

it('an unsigned abort or takeOver from a name that nobody knows does not stop an outage half-way', async () => {
  const scenario = await Scenario.start();
  try {
    const run = await duringDemotion(scenario, async (run) => {
      await run.handle.signal('abort', { by: 'nobody', reason: 'an attack' });
      const takeOver = { deployment: scenario.name, reason: 'an attack', requestedBy: 'nobody' };
      await run.handle.signal('takeOver', takeOver);
      for (const signal of ['abort', 'takeOver']) await receiptOf(run, signal);
    });
    expect(await run.report()).toMatchObject({ outcome: 'completed', parkings: [] });
    const { receipts } = await run.status();
    for (const signal of ['abort', 'takeOver'])
      expect(receipts).toContainEqual(expect.objectContaining({ signal, verdict: 'refused' }));
  } finally {
    await scenario.stop();
  }
});

describe('people who may decide', () => {
  it('hold a run with a document once: an unsigned pause and a copy of theirs change nothing', async () => {
    const scenario = await Scenario.start();
    try {
      const run = await scenario.start({ go: 'auto' });
      await run.waitsFor('approval');
      const pause = await run.controlDocument('pause');
      await run.handle.signal('pause', pause);
      await receiptOf(run, 'pause');
      await run.people({ go: false });
      await run.waitsFor('resume');
      await run.control('resume');
      await run.handle.signal('pause', pause);
      expect(await receiptOf(run, 'pause', 2)).toMatchObject({ verdict: 'refused', code: 'repeated' });
      await run.handle.signal('pause', { by: 'nobody', reason: 'an attack', before: 'Read the final state' });
      expect(await receiptOf(run, 'pause', 3)).toMatchObject({ verdict: 'refused' });
      expect(await run.report()).toMatchObject({ outcome: 'completed' });
      // What was noted of the names is of those who signed.
      expect((await reportOf(run)).controls.map(({ control, by }) => `${control} ${by}`)).toEqual([
        'pause grace',
        'resume grace',
      ]);
    } finally {
      await scenario.stop();
    }
  });

  it('take over inside an outage where a step parked, and only as many as gate promote needs', async () => {
    const scenario = await Scenario.start({
      limits: FAILOVER_LIMITS,
      deployment: {
        gates: {
          plan: { approvals: 1, groups: ['approvers'], validFor: '4h' },
          go: { approvals: 1, groups: ['approvers'], validFor: '10m' },
          promote: { approvals: 2, groups: ['approvers'], excludeRequester: false, validFor: '4h' },
        },
      },
    });
    try {
      const refusal = refusePromotion(scenario, 'west');
      const input = { deployment: scenario.name, reason: 'no primary', requestedBy: 'grace' };
      const order = async (run: TestRun, name: string) =>
        run.handle.signal('takeOver', { ...input, takeOverDocument: await takeOverBy(run, name) });
      const run = await duringDemotion(
        scenario,
        async (demoting) => {
          await order(demoting, 'grace');
          expect(await receiptOf(demoting, 'takeOver')).toMatchObject({
            verdict: 'accepted',
            text: expect.stringContaining('1 more approval') as string,
          });
        },
        { onStuck: 'park' },
      );
      await parksInTime(run, ({ step }) => step === 'Promote west');
      expect(await run.status()).toMatchObject({ runbook: 'drSwitchover' });
      await order(run, 'henry');
      await run.until('the failover', ({ runbook }) => runbook === 'drFailover');
      refusal.remove();
      await run.approve('promote', 'grace');
      await run.approve('promote', 'henry');
      expect(await run.report()).toMatchObject({ outcome: 'completed', takenOver: { by: 'grace' } });
      await expectServesAlone(scenario, 'west');
    } finally {
      await scenario.stop();
    }
  });
});
