import type { Assessment, OnDeployment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { GateName } from '../../src/contracts/plan';
import type { Deployment } from '../../src/inventory';
import { findCluster } from '../../src/inventory';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';

/** What every plan is made of. */
export interface PlanInput<I> {
  readonly input: I;
  /** The fingerprint of this run's own ceremony, whose attempt is not foreign. */
  readonly ownFingerprint?: string | undefined;
}

/** A deployment as it was read for a plan: every check looks at this, and at what it reads itself. */
export interface Observed {
  readonly deployment: Deployment;
  readonly observations: readonly ClusterObservation[];
  /** One of them. */
  readonly of: (cluster: string) => ClusterObservation;
  readonly access: (cluster: string) => ClusterAccess;
  /** The first part of an assessment. Each gate with whether it is needed. */
  readonly base: (
    gates: Partial<Record<GateName, boolean>>,
  ) => Pick<Assessment<never>, 'observations' | 'site' | 'gates'>;
}

/**
 * Reads every cluster of a deployment at once; one that does not answer is an observation too.
 *
 * @param named - the clusters that the input names
 * @throws RunbookError UNKNOWN_DEPLOYMENT, UNKNOWN_CLUSTER
 */
export async function observe(name: string, named: readonly (string | undefined)[] = []): Promise<Observed> {
  const context = currentExecution();
  const { clusters, inventory, signal } = context;
  const deployment = clusters.deployment(name);
  for (const each of named) if (each !== undefined) findCluster(deployment, each);
  const [observations, site] = await Promise.all([observeDeployment(clusters, name, signal), siteFacts(context, name)]);
  return {
    deployment,
    observations,
    of: (cluster) => {
      const found = observations.find((each) => each.cluster === cluster);
      if (!found) throw new TypeError(`no observation of ${cluster}`);
      return found;
    },
    access: (cluster) => clusters.of(name, cluster),
    base: (gates) => ({
      observations,
      site,
      gates: Object.fromEntries(
        Object.entries(gates).map(([gate, needed]) => [
          gate,
          gateFacts(inventory, deployment, gate as GateName, needed),
        ]),
      ),
    }),
  };
}

/** The clusters of a deployment as they are now. */
export async function readDeployment({
  deployment,
}: OnDeployment): Promise<{ readonly observations: readonly ClusterObservation[] }> {
  const { observations } = await observe(deployment);
  return { observations };
}
