import { drPrimaries, expectFiltered, underWay } from '../support/faults';
import { FILTER, openScenario, replicating } from '../support/scenario';
import type { Scenario } from '../support/scenario';

describe('a deployment with several secondaries', () => {
  let scenario: Scenario;
  // East with the DR secondaries west and north, and a filtered performance secondary with a DR secondary of its own.
  const sets = { main: ['east', 'west', 'north'], eu: ['europe', 'europe-dr'] };
  openScenario((opened) => (scenario = opened), replicating(sets, { europe: FILTER }));

  it('has every DR secondary re-pointed from one ask of the holders, and the performance secondary follows', async () => {
    const run = await underWay(scenario);
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
    expect(report.receipts.filter(({ signal }) => signal === 'share')).toHaveLength(3);
    for (const cluster of ['east', 'north']) {
      expect(scenario.state(cluster).dr).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
      expect(scenario.state(cluster).operationTokens).toBe(0);
    }
    expect(scenario.state('europe').performance).toMatchObject({ connectedTo: 'west', state: 'stream-wals' });
    expect(scenario.state('europe-dr').dr.connectedTo).toBe('europe');
    // It followed by itself: nothing was issued for it and its filter was not touched.
    expect(scenario.calls('west', 'performance/primary/secondary-token')).toBe(0);
    expect(drPrimaries(scenario)).toEqual(['west', 'europe']);
    await expectFiltered(scenario, 'west', ['europe']);
  });

  it('finishes the others where one DR secondary is unreachable: its step alone parks, and skip leaves it to people', async () => {
    const run = await scenario.start({ to: 'east', go: 'auto' });
    await run.people({ go: false });
    await run.until('the outage', ({ outageSince }) => outageSince);
    await scenario.service.cluster('north').kill();
    const parked = await run.waitsFor('decision', ({ step }) => step.includes('north'));
    expect(parked.choices.map(({ action }) => action)).toContain('skip');
    // The other branches did not wait for it.
    await run.until('west follows', ({ steps }) =>
      steps.some(({ name, state }) => name === 'Wait until west streams from east' && state === 'done'),
    );
    const { waiting } = await run.status();
    expect(waiting).toHaveLength(1);
    await run.decide('skip', parked.step);
    const report = await run.report();

    expect(report.outcome).toBe('completed');
    expect(report.leftToDo).toContainEqual(expect.stringContaining('north was not seen following east'));
    expect(report.parkings).toHaveLength(1);
    expect(scenario.state('west').dr).toMatchObject({ connectedTo: 'east', state: 'stream-wals' });
    expect(drPrimaries(scenario)).toEqual(['east', 'europe']);
  });
});
