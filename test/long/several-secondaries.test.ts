import { actions, drPrimaries, expectFiltered, expectFollows, underWay } from '../support/faults';
import { FILTER, openScenario, replicating } from '../support/scenario';
import type { Scenario } from '../support/scenario';

describe('a deployment with several secondaries', () => {
  let scenario: Scenario;
  // East with the DR secondaries west and north, and a filtered performance secondary with a DR secondary of its own.
  const sets = { main: ['east', 'west', 'north'], eu: ['europe', 'europe-dr'] };
  openScenario((opened) => (scenario = opened), replicating(sets, { europe: FILTER }));

  it('has every DR secondary re-pointed from one ceremony, and the performance secondary follows; one that is unreachable does not delay the others: only its step parks', async () => {
    const run = await underWay(scenario);
    await run.until('the outage', ({ outageSince }) => outageSince);
    await scenario.service.cluster('north').kill();
    const parked = await run.waitsFor('decision', ({ step }) => step.includes('north'));
    expect(actions(parked)).toContain('skip');
    await run.until('east follows', ({ steps }) =>
      steps.some(({ name, state }) => name === 'Wait until east streams from west' && state === 'done'),
    );
    expect((await run.status()).waiting).toHaveLength(1);
    await scenario.service.cluster('north').restart();
    await run.decide('retry', parked.step);
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', leftToDo: [] });
    expect(report.parkings).toHaveLength(1);
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    for (const cluster of ['east', 'north']) {
      expectFollows(scenario, cluster, 'west');
      expect(scenario.state(cluster).operationTokens).toBe(0);
    }
    expectFollows(scenario, 'europe', 'west', 'performance');
    expect(scenario.state('europe-dr').dr.connectedTo).toBe('europe');
    // It followed by itself: nothing was issued for it and its filter was not touched.
    expect(scenario.calls('west', 'performance/primary/secondary-token')).toBe(0);
    expect(drPrimaries(scenario)).toEqual(['west', 'europe']);
    await expectFiltered(scenario, 'west', ['europe']);
  });
});
