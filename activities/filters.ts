import type { FilterActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createFilterActivities(dependencies: ActivityDependencies, clusters: Clusters): FilterActivities {
  void dependencies;
  void clusters;
  return {};
}
