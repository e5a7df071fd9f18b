import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import type { Waiting } from '../../src/contracts/run-status';
import type { Scenario, TestRun } from './scenario';

const LATER = () => new Date(Date.now() + 3_600_000).toISOString();

/** An entry of the wipe allow-list, as people write it. */
export function permission(scenario: { cluster(name: string): { readonly clusterId: string } }, cluster: string) {
  return { cluster, clusterId: scenario.cluster(cluster).clusterId, until: LATER() };
}

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

/** What a guided wait asks people to do. */
export function instructionsOf(run: TestRun): Promise<Extract<Waiting, { for: 'action' }>> {
  return run.waitsFor('action');
}

/** How many wipe permissions the site remembers as used up. */
export async function usedPermissions(scenario: Scenario): Promise<number> {
  const directory = join(scenario.environment['RUNBOOKS_LEDGER_DIR'] ?? '', 'wipe-permissions');
  return (await readdir(directory).catch(() => [])).length;
}
