import type { PerformancePromotionActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createPerformancePromotionActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): PerformancePromotionActivities {
  void dependencies;
  void clusters;
  return {};
}
