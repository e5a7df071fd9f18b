/** A standby that is down or sealed: a warning that approvers see, wherever the rest is a quorum. */
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  topology: {
    readings: { leaderChangeChance: 0 },
    clusters: ['east', 'europe'].map((name) => ({ name, nodes: 3 })),
    performance: { primary: 'east', secondaries: [{ name: 'europe' }] },
    dr: [],
  },
  drSets: { main: ['east'], eu: ['europe'] },
});

const assess = async () => {
  const input = RUNBOOK_INPUTS.performancePromotion.parse({ deployment: DEPLOYMENT, to: 'europe', reason: 'a test' });
  return bench.call('assessPerformancePromotion', { input });
};

it('a promotion goes on with a dead and a sealed standby, and names both to the approvers', async () => {
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
  for (const cluster of ['east', 'europe']) expect(plan?.text).toContain(`Nodes of ${cluster} that are down or sealed`);
  expect(plan?.digest).not.toBe(whole?.digest);

  // Without a quorum it is refused.
  bench.cluster('europe').sealNode(1);
  const refused = (await assess()).preconditions.filter(({ verdict }) => verdict === 'fail');
  expect(refused.map(({ name }) => name)).toContain('quorum');
});
