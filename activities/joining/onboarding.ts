import type { OnboardingActivities } from '../../src/contracts/activities';
import { findCluster } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { execute, executeChange } from '../execution';
import { advertised, enablePrimaryOn, mayCall, primaryRules } from './onboarding-primary';
import { kindName } from './onboarding-read';
import { gateFacts, identityOf, observeDeployment, planDocument, siteFacts } from '../approvals/planning';

/** A cluster without replication becomes primary (interface 4.1, 4.2: `primary/enable`; facts 2.2, 2.7). */
export function createOnboardingActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<OnboardingActivities, 'assessPrimaryEnablement' | 'enablePrimary'> {
  return {
    assessPrimaryEnablement: execute(async ({ input }, { signal }) => {
      const { kind, cluster } = input;
      const deployment = clusters.deployment(input.deployment);
      const entry = findCluster(deployment, cluster);
      const observations = await observeDeployment(clusters, input.deployment, signal);
      const primary = observations.find((each) => each.cluster === cluster);
      // One that is primary already is left as it is: nobody is asked for that.
      const needed = primary?.[kind]?.mode !== 'primary';
      const gates = { plan: gateFacts(dependencies.inventory, deployment, 'plan', needed) };
      const base = { observations, site: await siteFacts(dependencies, input.deployment), gates };
      if (!primary) return { ...base, preconditions: [] };
      const path = `sys/replication/${kind}/primary/enable`;
      const preconditions = [
        ...primaryRules(deployment, kind, primary, observations),
        ...(primary[kind]?.mode === 'disabled' && primary.dr?.mode !== 'secondary'
          ? await mayCall(
              clusters.access(entry),
              { [path]: ['update'], [deployment.marker.path]: ['create|update'] },
              signal,
            )
          : []),
      ];
      return {
        ...base,
        preconditions,
        route: { kind, cluster },
        plan: planDocument({
          runbook: 'primaryEnablement',
          input,
          clusters: [primary],
          operations: [{ operation: `${kind}.primary.enable`, on: identityOf(primary) }],
          warnings: [
            `${cluster} restarts its subsystems: requests to it fail for some seconds. Nothing of it is wiped.`,
            `Ending this replication again (replicationTeardown) cuts every secondary off that was added meanwhile.`,
          ],
          steps: [
            `Enable ${cluster} as ${kindName(kind)} primary; its secondaries are given ${advertised(entry)}`,
            `See that ${cluster} takes a write`,
            'Read the final state',
          ],
          choices: { kind },
        }),
      };
    }),

    enablePrimary: executeChange((input, execution) => enablePrimaryOn(dependencies, clusters, execution, input)),
  };
}
