/** A standby that is down or sealed: a warning that approvers see, wherever the rest is a quorum. */
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

const reason = 'a test';
let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    clusters: ['east', 'europe', 'asia'].map((name) => ({ name, nodes: 3 })),
    performance: { primary: 'east', secondaries: [{ name: 'europe' }, { name: 'asia' }] },
    dr: [],
  },
  drSets: { main: ['east'], eu: ['europe'], asia: ['asia'] },
});

const promotion = () =>
  bench.call('assessPerformancePromotion', {
    input: RUNBOOK_INPUTS.performancePromotion.parse({ deployment: DEPLOYMENT, to: 'europe', reason }),
  });
const repointing = () =>
  bench.call('assessSecondaryRepointing', {
    input: RUNBOOK_INPUTS.secondaryRepointing.parse({
      ...{ deployment: DEPLOYMENT, kind: 'performance', primary: 'east', secondary: 'europe', reason },
    }),
  });

it.each([
  ['performancePromotion', promotion],
  ['secondaryRepointing', repointing],
] as const)('%s goes on with a dead and a sealed standby, and names both to the approvers', async (runbook, assess) => {
  await bench
    .cluster('east')
    .startNode(2)
    .catch(() => undefined);
  const { plan: whole } = await assess();
  await bench.cluster('east').killNode(2);
  bench.cluster('europe').sealNode(2);
  const { plan, preconditions } = await assess();
  const missing = preconditions.filter(({ name }) => name.startsWith('every node'));
  expect(missing.map(({ cluster, name, verdict }) => [cluster, name, verdict])).toEqual([
    ['east', 'every node answers', 'warn'],
    ['east', 'every node is unsealed', 'ok'],
    ['europe', 'every node answers', 'ok'],
    ['europe', 'every node is unsealed', 'warn'],
  ]);
  // Europe follows already: there is nothing to plan for it.
  if (!whole || !plan) return expect(runbook).toBe('secondaryRepointing');
  const { warnings } = JSON.parse(plan.text) as { readonly warnings: readonly string[] };
  for (const cluster of ['east', 'europe'])
    expect(warnings).toContainEqual(expect.stringContaining(`Nodes of ${cluster} that are down or sealed`));
  expect(plan.digest).not.toBe(whole.digest);
  return undefined;
});

it('without a quorum it is refused', async () => {
  bench.cluster('europe').sealNode(1);
  expect(
    (await promotion()).preconditions.find(({ name, verdict }) => name === 'quorum' && verdict === 'fail'),
  ).toBeDefined();
});
