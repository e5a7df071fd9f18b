import type { ReadinessActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createReadinessActivities(dependencies: ActivityDependencies, clusters: Clusters): ReadinessActivities {
  void dependencies;
  void clusters;
  return {};
}
