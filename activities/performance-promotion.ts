import type { PerformancePromotionActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import { createSecondaryRepointingActivities } from './secondary-repointing';
import type { Clusters } from './support/clusters';

/** Secondaries follow another primary, and a performance secondary becomes primary. */
export function createPerformancePromotionActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Omit<PerformancePromotionActivities, 'awaitPerformanceServiceReady'> {
  return { ...createSecondaryRepointingActivities(dependencies, clusters) };
}
