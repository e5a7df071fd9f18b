import type { Assessment, OnDeployment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check, GateName } from '../../src/contracts/plan';
import type { TokenSourceChoice } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { drSetOf, findCluster } from '../../src/inventory';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import { CREDENTIAL_WORKS, mayCall } from '../checks/credentials';
import type { Rights } from '../checks/credentials';
import { assessTokenSource } from '../checks/tokens';
import type { TokenAssessment } from '../checks/tokens';
import type { ClusterAccess } from '../clusters';
import { checkMarker } from '../evidence/marker';
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
  /** The other members of its DR set. */
  readonly othersOf: (cluster: string) => readonly ClusterObservation[];
  readonly access: (cluster: string) => ClusterAccess;
  /** Whether the workers' credential for a cluster has these rights, by the cluster's own word. */
  readonly rights: (cluster: string, needed: Rights) => Promise<Check[]>;
  /** The same on a cluster that serves clients, which takes a write beside the marker too; `rights` are those beside it. */
  readonly markerRights: (cluster: string, needed: Rights) => Promise<Check[]>;
  /** Where the operation token for a DR secondary comes from, with `update` on these paths, and whether that is ready. */
  readonly tokens: (secondary: string, paths: readonly string[], takesKept?: boolean) => Promise<TokenAssessment>;
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
export async function observe(
  {
    input: { deployment: name, tokenSource: wanted },
    ownFingerprint,
  }: PlanInput<{ readonly deployment: string; readonly tokenSource?: TokenSourceChoice | undefined }>,
  named: readonly (string | undefined)[] = [],
): Promise<Observed> {
  const context = currentExecution();
  const { clusters, inventory, signal } = context;
  const deployment = clusters.deployment(name);
  for (const each of named) if (each !== undefined) findCluster(deployment, each);
  const [observations, site] = await Promise.all([observeDeployment(clusters, name, signal), siteFacts(context, name)]);
  const access = (cluster: string) => clusters.of(name, cluster);
  const of = (cluster: string) => {
    const found = observations.find((each) => each.cluster === cluster);
    if (!found) throw new TypeError(`no observation of ${cluster}`);
    return found;
  };
  const othersOf = (cluster: string) => {
    const { members } = drSetOf(deployment, cluster);
    return observations.filter((each) => each.cluster !== cluster && members.includes(each.cluster));
  };
  return {
    deployment,
    observations,
    of,
    othersOf,
    access,
    rights: (cluster, needed) => mayCall(access(cluster), needed, signal),
    markerRights: async (cluster, needed) => {
      const { judged, rights } = await checkMarker(access(cluster), deployment, signal);
      const may = await mayCall(access(cluster), { ...needed, ...rights }, signal);
      return may.some(({ name }) => name === CREDENTIAL_WORKS) ? may : [...may, judged];
    },
    tokens: (cluster, paths, takesKept) => {
      const primary = othersOf(cluster).find(({ dr }) => dr?.mode === 'primary');
      return assessTokenSource({
        ...{ deployment, secondary: access(cluster), observation: of(cluster) },
        ...{ primary: primary && access(primary.cluster), wanted, paths, ownFingerprint, signal, takesKept },
      });
    },
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
export async function readDeployment(
  input: OnDeployment,
): Promise<{ readonly observations: readonly ClusterObservation[] }> {
  const { observations } = await observe({ input });
  return { observations };
}
