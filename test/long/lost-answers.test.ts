import { CHANGING, expectServiceOn, loseAnswer, statuses } from '../support/faults';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

const REVOKE = 'POST /v1/sys/replication/dr/primary/revoke-secondary';

/** An answer that is lost after its effect says nothing: the state decides, and nothing is done twice. */
describe('answers that get lost after their effect', () => {
  let scenario: Scenario;
  openScenario((opened) => (scenario = opened));

  const state = (cluster: string) => scenario.state(cluster);

  it('lost answer: of attempt start, first and second share, demote, promote, secondary-token, update-primary and token deletion are found out by reading', async () => {
    const lost = [
      loseAnswer(scenario, 'west', CHANGING.startAttempt),
      loseAnswer(scenario, 'west', CHANGING.giveShare, 1),
      loseAnswer(scenario, 'west', CHANGING.giveShare, 2),
      loseAnswer(scenario, 'east', CHANGING.demote),
      loseAnswer(scenario, 'west', CHANGING.promote),
      loseAnswer(scenario, 'west', CHANGING.secondaryToken),
      loseAnswer(scenario, 'east', CHANGING.updatePrimary),
      loseAnswer(scenario, 'east', CHANGING.deleteToken),
    ];
    const run = await scenario.start();
    await run.people();
    const report = await run.report();

    expect(lost.map(({ hits }) => hits)).toEqual(lost.map(() => 1));
    expect(report).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, leftToDo: [], parkings: [] });
    expect(statuses(scenario, 'west', CHANGING.startAttempt)).toEqual([0]);
    expect(statuses(scenario, 'west', CHANGING.giveShare)).toEqual([0, 0, 200]);
    expect(state('west').operationTokens).toBe(1);
    expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([0]);
    expect(statuses(scenario, 'west', CHANGING.promote)).toEqual([0]);
    expect(statuses(scenario, 'east', CHANGING.updatePrimary)).toEqual([0]);
    // The token whose answer was lost is revoked before another one is issued.
    expect(statuses(scenario, 'west', CHANGING.secondaryToken)).toEqual([0, 200]);
    expect(statuses(scenario, 'west', REVOKE)).toHaveLength(1);
    expect(state('west').dr.knownSecondaries).toEqual([state('east').clusterId]);
    expect(state('east').dr).toMatchObject({ mode: 'secondary', connectedTo: 'west', state: 'stream-wals' });
    expect(state('east').operationTokens).toBe(0);
    expect(report.tokens.map(({ cluster, state: token }) => [cluster, token])).toEqual([
      ['west', 'kept'],
      ['east', 'deleted'],
    ]);
    await expectServiceOn(scenario, 'west');
  });
});
