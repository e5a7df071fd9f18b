import type { OnDeployment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check, GateName } from '../../src/contracts/plan';
import type { TokenSourceChoice } from '../../src/contracts/runbook-inputs';
import { drSetOf, findCluster } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import { credentialFacts, credentialLives, credentialMay, credentialWorks, mayCall } from '../checks/credentials';
import type { Rights } from '../checks/credentials';
import { assessTokenSource } from '../checks/tokens';
import { checkMarker } from '../evidence/marker';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';

/** What every plan is made of. */
export interface PlanInput<I> {
  readonly input: I;
  /** The fingerprint of this run's own ceremony, whose attempt is not foreign. */
  readonly ownFingerprint?: string | undefined;
}

/** A deployment as it was read: every check looks at this, and at what it reads itself. */
export type Observed = ReturnType<typeof observedOf>;

/** Names where the token of a DR operation comes from; the inventory does where nothing is named. */
type Asking = PlanInput<{ readonly tokenSource?: TokenSourceChoice | undefined }>;

/** What was read of a deployment, and what checks read beside. */
export function observedOf(
  { access, signal }: { readonly access: (cluster: string) => ClusterAccess; readonly signal: AbortSignal },
  deployment: Deployment,
  observations: readonly ClusterObservation[],
  { input: { tokenSource: wanted }, ownFingerprint }: Asking,
) {
  /** One of them. */
  const of = (cluster: string): ClusterObservation => {
    const found = observations.find((each) => each.cluster === cluster);
    if (!found) throw new TypeError(`no observation of ${cluster}`);
    return found;
  };
  /** The other members of its DR set. */
  const othersOf = (cluster: string): readonly ClusterObservation[] => {
    const { members } = drSetOf(deployment, cluster);
    return observations.filter((each) => each.cluster !== cluster && members.includes(each.cluster));
  };
  return {
    deployment,
    observations,
    signal,
    of,
    othersOf,
    access,
    /** Whether the workers' credential for a cluster has these rights, by the cluster's own word. */
    rights: (cluster: string, needed: Rights) => mayCall(access(cluster), needed, signal),
    /**
     * The same on a cluster that serves clients, which takes a write beside the marker too; `needed` is what is needed
     * beside. All of it by one look at the credential.
     */
    markerRights: async (cluster: string, needed: Rights, mustLast = false): Promise<Check[]> => {
      const serving = access(cluster);
      const { judged, rights } = await checkMarker(serving, deployment, signal);
      const all = { ...needed, ...rights };
      const facts = await credentialFacts(serving, () => serving.credential(), Object.keys(all), signal);
      if (!facts.usable) return [credentialWorks(serving.entry, facts)];
      const lasts = mustLast ? [credentialWorks(serving.entry, facts), credentialLives(serving.entry, facts)] : [];
      return [...lasts, ...credentialMay(serving.entry, facts, all), judged];
    },
    /** Where the operation token for a DR secondary comes from, with `update` on these paths, and whether that is ready. */
    tokens: (cluster: string, paths: readonly string[], takesKept = false) => {
      const primary = othersOf(cluster).find(({ dr }) => dr?.mode === 'primary');
      return assessTokenSource({
        ...{ deployment, secondary: access(cluster), observation: of(cluster) },
        ...{ primary: primary && access(primary.cluster), wanted, paths, ownFingerprint, signal, takesKept },
      });
    },
  };
}

/**
 * Reads every cluster of a deployment at once; one that does not answer is an observation too.
 *
 * @param named - the clusters that the input names
 * @throws RunbookError UNKNOWN_DEPLOYMENT, UNKNOWN_CLUSTER
 */
export async function observe(
  asking: Asking & PlanInput<{ readonly deployment: string }>,
  named: readonly (string | undefined)[] = [],
) {
  const context = currentExecution();
  const { clusters, inventory, signal } = context;
  const { deployment: name } = asking.input;
  const deployment = clusters.deployment(name);
  for (const each of named) if (each !== undefined) findCluster(deployment, each);
  const [observations, site] = await Promise.all([observeDeployment(clusters, name, signal), siteFacts(context, name)]);
  return {
    ...observedOf({ access: (cluster) => clusters.of(name, cluster), signal }, deployment, observations, asking),
    /** The first part of an assessment. Each gate with whether it is needed. */
    base: (gates: Partial<Record<GateName, boolean>>) => ({
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
  const { clusters, signal } = currentExecution();
  return { observations: await observeDeployment(clusters, input.deployment, signal) };
}
