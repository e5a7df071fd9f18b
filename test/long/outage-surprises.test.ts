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

  doubts.it(
    'a forged result of the demotion allows no promotion: the activity asks the old primary itself',
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
