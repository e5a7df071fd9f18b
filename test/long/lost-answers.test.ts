import { CHANGING, expectFollows, expectServiceOn, expectLost, loseAnswers, statuses } from '../support/faults';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

const REVOKE = 'POST /v1/sys/replication/dr/primary/revoke-secondary';

/** An answer that is lost after its effect says nothing: the state decides, and nothing is done twice. */
describe('answers that are lost after their effect', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened));

  const state = (cluster: string) => scenario.state(cluster);

  it('lost answer: of attempt start, first and second share, demote, promote, secondary-token, update-primary and token deletion are found out by reading', async () => {
    const { startAttempt, giveShare, demote, promote, secondaryToken, updatePrimary, deleteToken } = CHANGING;
    loseAnswers(scenario, {
      west: [startAttempt, giveShare, [giveShare, 2], promote, secondaryToken],
      east: [demote, updatePrimary, deleteToken],
    });
    const run = await scenario.start();
    await run.people();
    const report = await run.report();

    expectLost(scenario);
    expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, leftToDo: [], parkings: [] });
    expect(statuses(scenario, 'west', startAttempt)).toEqual([0]);
    expect(statuses(scenario, 'west', giveShare)).toEqual([0, 0, 200]);
    expect(state('west').operationTokens).toBe(1);
    expect(statuses(scenario, 'east', demote)).toEqual([0]);
    expect(statuses(scenario, 'west', promote)).toEqual([0]);
    expect(statuses(scenario, 'east', updatePrimary)).toEqual([0]);
    // The token whose answer was lost is revoked before another one is issued.
    expect(statuses(scenario, 'west', secondaryToken)).toEqual([0, 200]);
    expect(statuses(scenario, 'west', REVOKE)).toHaveLength(1);
    expect(state('west').dr.knownSecondaries).toEqual([state('east').clusterId]);
    expectFollows(scenario, 'east', 'west');
    expect(state('east').operationTokens).toBe(0);
    const tokens = report.tokens.map(({ cluster, state: token }) => `${cluster} ${token}`);
    expect(tokens).toEqual(['west kept', 'east deleted']);
    await expectServiceOn(scenario, 'west');
  });
});
