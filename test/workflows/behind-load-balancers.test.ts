/** The nodes of most sites advertise a load balancer or a service name, which standbys name as the leader while nobody leads. */
import { Lane, runLanes } from '../support/lane';
import { expectFollows } from '../support/faults';
import { replicating, Scenario } from '../support/scenario';

const readings = { leaderChangeChance: 1 };
/** Long enough for every step to ask in between who leads. */
const timing = { electionMs: 1_500 };

function site(drSets: Parameters<typeof replicating>[0], more = {}): Promise<Scenario> {
  const { topology, ...sets } = replicating(drSets, {}, { readings, timing });
  const three = topology.clusters?.map((each) => ({ ...each, nodes: 3, ...more }));
  return Scenario.start({ ...sets, topology: { ...topology, ...(three && { clusters: three }) } });
}

const dr = new Lane(() => site({ main: ['east', 'west'] }));
const redacted = new Lane(() => site({ main: ['east', 'west'] }, { redactAddresses: true }));
const performance = new Lane(() => site({ main: ['east'], eu: ['europe'] }));

describe('behind a load balancer that nodes name as the leader during an election', () => {
  runLanes(dr, redacted, performance);

  dr.it('a switchover completes and parks nowhere', async (scenario) => {
    const run = await scenario.start();
    await run.people();
    expect(await run.report()).toMatchObject({ outcome: 'completed', loss: { loss: 'none' }, parkings: [] });
    expectFollows(scenario, 'east', 'west');
  });

  redacted.it('a switchover completes if listeners show no address without a token', async (scenario) => {
    const run = await scenario.start();
    await run.people();
    expect(await run.report()).toMatchObject({ outcome: 'completed', parkings: [], leftToDo: [] });
    expectFollows(scenario, 'east', 'west');
  });

  performance.it('a planned change of the performance primary completes and parks nowhere', async (scenario) => {
    const run = await scenario.begin(
      'performancePromotion',
      { to: 'europe', acceptLoss: 'bounded' },
      'approve promote',
    );
    expect(await run.report()).toMatchObject({ outcome: 'completed', parkings: [] });
    expectFollows(scenario, 'east', 'europe', 'performance');
  });
});
