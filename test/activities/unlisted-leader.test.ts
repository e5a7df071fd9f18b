/** A leader that nodes name and that the inventory does not list: waited for within the budget, and told when it ends. */
import { ActivityBench, clusters, drPromotion, holding } from '../support/activity-environment';

const electionMs = 3_600_000;
const ADVERTISED = 'https://vault.west.example:8200';

it('no cluster is promoted while only an unlisted leader is named; at the end of the budget the error names both facts', async () => {
  const bench = await ActivityBench.start({
    topology: { clusters: clusters({ east: 1, west: 3 }), timing: { electionMs } },
  });
  try {
    const authority = await bench.authority({ acceptLoss: 'bounded', requestedBy: 'olga' });
    const token = await bench.operationToken('west');
    bench.cluster('west').leaderChange();
    bench.limit({ promoteMs: 1_500 });
    const refused = await bench.failure('promoteSecondary', drPromotion(token, authority));
    expect(refused.details).toMatchObject({
      outcomeKnown: true,
      observed: holding(`names ${ADVERTISED} as leader, which is not among the addresses`),
      next: holding('add the API address of every node of west to the inventory'),
    });
    expect(refused.code).toBe('CONFIRMATION_TIMEOUT');
    expect(bench.calls('west', 'dr/secondary/promote')).toBe(0);
  } finally {
    await bench.stop();
  }
});
