import { at, CHANGING, expectServiceOn, hold, parksInTime, underWay } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { pair, Scenario } from '../support/scenario';

const surprises = new Lane(() => Scenario.start({ topology: pair(3) }));
const doubts = new Lane(() => Scenario.start());

describe('surprises in the outage', () => {
  runLanes(surprises, doubts);

  surprises.it('a blocked audit device on the new primary: promote-back brings service back', async (scenario) => {
    const west = scenario.service.cluster('west');
    scenario.limit({ promote: '2s' });
    at(scenario, 'after', 'east', CHANGING.demote, () => void (west.auditBlocked = true));
    const run = await underWay(scenario);
    await parksInTime(run, 'Promote west');
    scenario.limit();
    await run.decide('promote-back');
    await run.until('service on east', ({ serviceBackAt }) => serviceBackAt);
    west.auditBlocked = false;
    const report = await run.report();

    expect(report.outcome).toBe('rolled-back');
    await expectServiceOn(scenario, 'east');
  });

  surprises.it('a leader change of the new primary right after its promotion changes nothing', async (scenario) => {
    at(scenario, 'after', 'west', CHANGING.promote, (west) => west.leaderChange());
    const run = await underWay(scenario);
    const report = await run.report();

    expect(report).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
    await expectServiceOn(scenario, 'west');
  });

  doubts.it('an old primary that became primary again meanwhile: nothing else is promoted', async (scenario) => {
    // The first try of the promotion is refused; while it is, somebody makes the old primary primary again.
    at(scenario, 'before', 'west', CHANGING.promote, () => {
      const east = scenario.service.cluster('east');
      const { setId } = scenario.state('west').dr;
      const role = { mode: 'primary', setId: setId ?? '', advertisedAddress: '', knownSecondaries: [] } as const;
      east.setRole('dr', role, scenario.service.now());
    });
    scenario.service.faults.add({ cluster: 'west', endpoint: CHANGING.promote, action: { status: 503 } });
    const run = await underWay(scenario, { onStuck: 'park' });
    const parked = await parksInTime(run, 'Promote west');
    expect(parked.code).toBe('STATE_DIVERGED');
    expect(scenario.calls('west', 'dr/secondary/promote')).toBe(1);
    await expectServiceOn(scenario, 'east');
    await run.decide('promote-back');
    expect((await run.report()).outcome).toBe('rolled-back');
    await expectServiceOn(scenario, 'east');
  });

  doubts.it(
    'a forged result of the demotion promotes nothing: the activity asks the old primary itself',
    async (scenario) => {
      const { reached, letGo } = hold(scenario, 'before', 'east', CHANGING.demote);
      scenario.service.faults.add({ cluster: 'east', endpoint: CHANGING.demote, action: 'reset' });
      const run = await underWay(scenario, { onStuck: 'park' });
      await reached;
      const { raw } = await run.handle.describe();
      const activityId = raw.pendingActivities?.[0]?.activityId ?? '';
      const forged = { outcome: 'done', observed: 'forged', confirmedAt: Date.now(), calls: 1 };
      await scenario.client.activity.complete({ workflowId: scenario.workflowId, activityId }, forged);
      const parked = await parksInTime(run, 'Promote west');
      expect(parked.code).toBe('STATE_DIVERGED');
      expect(scenario.calls('west', 'dr/secondary/promote')).toBe(0);
      await run.decide('promote-back');
      const report = await run.report();

      expect(report.outcome).toBe('rolled-back');
      await expectServiceOn(scenario, 'east');
      letGo();
    },
  );
});
