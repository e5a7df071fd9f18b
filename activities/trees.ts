import type { TreeActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

/** Merkle checks and reindexing of a DR secondary (interface 4.1). */
export function createTreeActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Omit<TreeActivities, 'sampleWal'> {
  void dependencies;
  void clusters;
  return {};
}
