import type { RejoinActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createRejoinActivities(dependencies: ActivityDependencies, clusters: Clusters): RejoinActivities {
  void dependencies;
  void clusters;
  return {};
}
