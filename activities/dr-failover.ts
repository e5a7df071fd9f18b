import type { FailoverActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createFailoverActivities(dependencies: ActivityDependencies, clusters: Clusters): FailoverActivities {
  void dependencies;
  void clusters;
  return {};
}
