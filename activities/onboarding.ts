import type { OnboardingActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createOnboardingActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): OnboardingActivities {
  void dependencies;
  void clusters;
  return {};
}
