/** A run that is flooded while no cluster serves still hears the people whom it waits for, by signal and by update. */
import { refusePromotion } from '../support/faults';
import { expectServesAlone, FAILOVER_LIMITS } from '../support/failover';
import { Lane, runLanes } from '../support/lane';
import { decisionOf } from '../support/people';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

const world = new Lane(() => Scenario.start({ limits: FAILOVER_LIMITS }));
/** An honest person is heard within this time. */
const HEARD_MS = 20_000;

/** More of each way than a run takes at once, in many names and in grace's. */
async function flood(run: TestRun): Promise<void> {
  const by = (index: number) => ({ name: index % 5 === 0 ? 'grace' : `nobody ${index}` });
  for (let sent = 0; sent < 230; sent += 10) {
    const numbers = Array.from({ length: 10 }, (_, index) => sent + index);
    await Promise.all(numbers.map((index) => run.handle.signal('decide', by(index))));
    // Those for which there is no room are refused.
    await Promise.allSettled(numbers.map((index) => run.handle.executeUpdate('decide', { args: [by(index)] })));
  }
}

/** A run that is parked in its outage, with a flood before and after what is sent. */
async function parkedInOutage(scenario: Scenario, to: string) {
  const refusal = refusePromotion(scenario, to);
  const run = await scenario.start({ to, go: 'auto', onStuck: 'park' });
  await run.people({ go: false });
  const { step, parkingNo } = await run.parks();
  await flood(run);
  const decided = { ...(await run.identity()), step, parkingNo, action: 'promote-back' } as const;
  return { run, refusal, document: await decisionOf(scenario.person('grace'), { ...decided, reason: 'a test' }) };
}

describe('a run that is flooded inside its outage', () => {
  const { it } = world;
  runLanes(world);

  it('reads a decision by signal within 20 s, although the flood continues', async (scenario) => {
    const { run, refusal, document } = await parkedInOutage(scenario, 'west');
    const sent = Date.now();
    await run.handle.signal('decide', document);
    for (let index = 0; index < 15; index += 1) await run.handle.signal('decide', { name: 'grace' });
    await run.until('the decision counts', ({ receipts }) =>
      receipts.some(({ signal, verdict }) => signal === 'decide' && verdict === 'accepted'),
    );
    expect(Date.now() - sent).toBeLessThan(HEARD_MS);
    refusal.remove();
    expect(await run.report()).toMatchObject({ outcome: 'rolled-back' });
    await expectServesAlone(scenario, 'east');
  });

  it('reads a decision by update within 20 s', async (scenario) => {
    const { run, refusal, document } = await parkedInOutage(scenario, 'west');
    const sent = Date.now();
    let arrival: number | undefined;
    while (arrival === undefined && Date.now() - sent < HEARD_MS)
      arrival = await run.handle
        .executeUpdate<number, [unknown]>('decide', { args: [document] })
        .catch(() => undefined);
    expect(await run.receiptOf('decide', arrival)).toMatchObject({ verdict: 'accepted' });
    expect(Date.now() - sent).toBeLessThan(HEARD_MS);
    refusal.remove();
    expect(await run.report()).toMatchObject({ outcome: 'rolled-back' });
    await expectServesAlone(scenario, 'east');
  });
});
