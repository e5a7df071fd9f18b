import type { DecommissionActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createDecommissionActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): DecommissionActivities {
  void dependencies;
  void clusters;
  return {};
}
