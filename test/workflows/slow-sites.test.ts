/** Sites that need longer than the budgets: a step that parked because its time was over goes on by itself once its state is there. */
import { CHANGING, expectFollows, expectServiceOn } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { pair, Scenario } from '../support/scenario';

const readings = { leaderChangeChance: 0 };
/** Longer than the budgets below, and what a change gets in addition. */
const restarting = new Lane(() =>
  Scenario.start({
    topology: { ...pair(), readings, timing: { restartMs: 9_000 } },
    limits: { demote: '1s', promote: '1s' },
  }),
);
const comparing = new Lane(() =>
  Scenario.start({
    topology: { ...pair(), readings, timing: { merkleDiffMs: 6_000, merkleSyncMs: 3_000 } },
    limits: { streaming: '2s' },
  }),
);
const cut = new Lane(() => Scenario.start({ topology: { ...pair(), readings }, limits: { streaming: '1s' } }));

const STREAMS = 'Wait until east streams from west';

describe('a site that needs longer than the budgets', () => {
  runLanes(restarting, comparing, cut);

  restarting.it('restarts for longer: demotion and promotion park, and continue by themselves', async (scenario) => {
    const run = await scenario.start();
    await run.people();
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' } });
    expect(report.parkings.map(({ step, decision }) => [step, decision])).toEqual([
      ['Demote east', undefined],
      ['Promote west', undefined],
    ]);
    const told = report.findings.filter(({ code }) => code === 'arrived-late').map(({ text }) => text);
    expect(told).toEqual([expect.stringContaining('"Demote east"'), expect.stringContaining('"Promote west"')]);
    // Nothing was sent again.
    expect([scenario.calls('east', CHANGING.demote), scenario.calls('west', CHANGING.promote)]).toEqual([1, 1]);
    await expectServiceOn(scenario, 'west');
  });

  comparing.it('compares a large tree for longer than it may take to stream: that is no failure', async (scenario) => {
    const run = await scenario.start();
    await run.people();
    expect(await run.report()).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
    expectFollows(scenario, 'east', 'west');
  });

  cut.it(
    'does not reach the new primary: the wait parks, says that it keeps checking, and ends once it does',
    async (scenario) => {
      const run = await scenario.start();
      const { service } = scenario;
      service.faults.add({
        ...{ cluster: 'east', endpoint: /secondary\/update-primary$/, when: 'after' },
        action: () => service.partition('east', 'west'),
      });
      await run.people();
      const parked = await run.parks(STREAMS);
      expect(parked.next).toContain('The run keeps checking for hours');
      service.heal();
      const report = await run.report();
      expect(report).toMatchObject({ outcome: 'completed', parkings: [{ step: STREAMS }] });
      expectFollows(scenario, 'east', 'west');
    },
  );
});
