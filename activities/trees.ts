import type { TreeActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createTreeActivities(dependencies: ActivityDependencies, clusters: Clusters): TreeActivities {
  void dependencies;
  void clusters;
  return {};
}
