import type { OnboardingActivities } from '../../src/contracts/activities';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { executeChange } from '../execution';
import { enablePrimaryOn } from './onboarding-primary';

/** A cluster without replication becomes primary (interface 4.1, 4.2: `primary/enable`; facts 2.2, 2.7). */
export function createOnboardingActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<OnboardingActivities, 'enablePrimary'> {
  return {
    enablePrimary: executeChange((input, execution) => enablePrimaryOn(dependencies, clusters, execution, input)),
  };
}
