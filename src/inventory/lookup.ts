import { RunbookError } from '../errors';
import type { ClusterEntry, Deployment, Inventory, Person } from './types';

const listed = (names: Iterable<string>): string => [...names].sort().join(', ') || 'none';

/** @throws RunbookError `UNKNOWN_DEPLOYMENT`, listing the known ones. */
export function findDeployment(inventory: Inventory, name: string): Deployment {
  const deployment = inventory.deployments.get(name);
  if (deployment !== undefined) return deployment;
  throw new RunbookError('UNKNOWN_DEPLOYMENT', `The inventory has no deployment "${name}".`, {
    observed: name,
    needed: `one of: ${listed(inventory.deployments.keys())}`,
  });
}

/** @throws RunbookError `UNKNOWN_CLUSTER`, listing the clusters of the deployment. */
export function findCluster(deployment: Deployment, name: string): ClusterEntry {
  const cluster = deployment.clusters.get(name);
  if (cluster !== undefined) return cluster;
  throw new RunbookError('UNKNOWN_CLUSTER', `Deployment "${deployment.name}" has no cluster "${name}".`, {
    observed: name,
    needed: `one of: ${listed(deployment.clusters.keys())}`,
  });
}

/**
 * The DR set of a cluster: its name and all members, the cluster itself among them.
 *
 * @throws RunbookError `UNKNOWN_CLUSTER`.
 */
export function drSetOf(
  deployment: Deployment,
  cluster: string,
): { readonly name: string; readonly members: readonly string[] } {
  const { drSet } = findCluster(deployment, cluster);
  return { name: drSet, members: deployment.drSets.get(drSet) ?? [cluster] };
}

/** The holders of a deployment's ceremonies in the order of the inventory, who stands by last; in office or not. */
export function holdersOf(inventory: Inventory, deployment: Deployment): readonly Person[] {
  const { holders, standBy } = deployment.ceremony;
  return [...holders, ...standBy].flatMap((name) => inventory.people.get(name) ?? []);
}
