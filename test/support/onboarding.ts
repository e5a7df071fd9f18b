import { Agent, request } from 'undici';
import type { Scenario } from './scenario';

/** What people do at the sealed nodes of a cluster: they give key shares of another one, each by hand. */
export async function unsealAll(scenario: Scenario, cluster: string, sharesOf: string): Promise<number[]> {
  const agent = new Agent();
  const shares = scenario.service.cluster(sharesOf).keyShares.slice(0, 3);
  const statuses: number[] = [];
  for (const node of scenario.service.cluster(cluster).nodes.filter(({ sealed }) => sealed)) {
    for (const key of shares) {
      const { statusCode, body } = await request(`${node.address}/v1/sys/unseal`, {
        dispatcher: agent,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ key }),
      });
      await body.dump();
      statuses.push(statusCode);
    }
  }
  await agent.close();
  return statuses;
}
