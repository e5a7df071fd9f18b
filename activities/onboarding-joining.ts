import type { OnboardingActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';
import { executeChange } from './support/execution';
import { changing, enableSecondaryOn, issueEnableToken } from './support/onboarding/onboarding-join';

/** A cluster becomes a secondary, which wipes it (interface 4.1, 4.2: `secondary-token`, `secondary/enable`; facts 2.7, 2.8, 4). */
export function createOnboardingJoiningActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<
  OnboardingActivities,
  'issueDrEnableToken' | 'issuePerformanceEnableToken' | 'enableDrSecondary' | 'enablePerformanceSecondary'
> {
  return {
    issueDrEnableToken: executeChange(async (input, execution) => {
      const source = clusters.of(input.deployment, input.primary);
      const target = clusters.of(input.deployment, input.secondary);
      return issueEnableToken({ dependencies, clusters, execution, kind: 'dr' }, input, {
        publicKey: async () =>
          target.client.dr.secondary.generatePublicKey(changing(await target.credential(), execution)),
        secondaryToken: (...call) => source.client.dr.primary.secondaryToken(...call),
        revokeSecondary: (...call) => source.client.dr.primary.revokeSecondary(...call),
      });
    }),

    issuePerformanceEnableToken: executeChange(async (input, execution) => {
      const source = clusters.of(input.deployment, input.primary);
      const target = clusters.of(input.deployment, input.secondary);
      return issueEnableToken({ dependencies, clusters, execution, kind: 'performance' }, input, {
        publicKey: async () =>
          target.client.performance.secondary.generatePublicKey(changing(await target.credential(), execution)),
        secondaryToken: (...call) => source.client.performance.primary.secondaryToken(...call),
        revokeSecondary: (...call) => source.client.performance.primary.revokeSecondary(...call),
      });
    }),

    enableDrSecondary: executeChange(async (input, execution) => {
      const target = clusters.of(input.deployment, input.secondary);
      return enableSecondaryOn({ dependencies, clusters, execution, kind: 'dr' }, input, async (parameters) =>
        target.client.dr.secondary.enable(parameters, changing(await target.credential(), execution)),
      );
    }),

    enablePerformanceSecondary: executeChange(async (input, execution) => {
      const target = clusters.of(input.deployment, input.secondary);
      const source = clusters.of(input.deployment, input.primary);
      const readFilter = async (id: string) =>
        source.client.performance.primary.pathsFilter.read(id, changing(await source.credential(), execution));
      const onboarding = { dependencies, clusters, execution, kind: 'performance' } as const;
      return enableSecondaryOn(onboarding, { ...input, readFilter }, async (parameters) =>
        target.client.performance.secondary.enable(parameters, changing(await target.credential(), execution)),
      );
    }),
  };
}
