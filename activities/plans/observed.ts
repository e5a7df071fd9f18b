import type { OnDeployment, PathsFilterFacts, Quiesce } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { RunbookName } from '../../src/contracts/names';
import type { Check } from '../../src/contracts/plan';
import type { InputOf, ReplicationKind, TokenSourceChoice } from '../../src/contracts/runbook-inputs';
import type { GateName } from '../../src/contracts/gates';
import { drSetOf, findCluster } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { gateFacts, observeDeployment, planDocument, siteFacts } from '../approvals/planning';
import type { Planning } from '../approvals/planning';
import { WAIT_PERFORMANCE_FOLLOWS } from '../../src/moves/following';
import { applicable } from '../../src/moves/move';
import type { Listed, Move, Named, PlannedOperation } from '../../src/moves/move';
import { COMPARE } from '../../src/moves/primary';
import { isByAddresses } from '../joining/repoint-authority';
import { credentialFacts, credentialLives, credentialMay, credentialWorks, mayCall } from '../checks/credentials';
import { QUOTA_RIGHTS } from '../checks/quiesce';
import { assessTokenSource } from '../ceremony/token-source';
import type { TokenAssessment } from '../ceremony/token-source';
import type { Rights } from '../checks/rights';
import { checkMarker } from '../evidence/marker';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { describeFilter, withheld } from '../filters/paths-filters';
import type { Endpoint } from '../../src/contracts/operations';

interface PlanFrom<I> {
  readonly input: I;
  /** The fingerprint of this run's own ceremony, whose attempt is ours. */
  readonly ownFingerprint?: string | undefined;
}

/** What the plan of a runbook is made from. */
export type PlanInput<R extends RunbookName> = PlanFrom<InputOf<R>>;

/** A deployment as it was read: every check uses this, and what it reads itself. */
export type Observed = ReturnType<typeof observedOf>;

/** The same, for an assessment. */
export type Observing = Awaited<ReturnType<typeof observe>>;

/** Names the source of the token for a DR operation; by default the one of the inventory. */
type Asking = PlanFrom<{ readonly tokenSource?: TokenSourceChoice | undefined }>;

/** What was read of a deployment, and the further reads that checks make. */
export function observedOf(
  { access, signal }: { readonly access: (cluster: string) => ClusterAccess; readonly signal: AbortSignal },
  deployment: Deployment,
  observations: readonly ClusterObservation[],
  { input: { tokenSource: wanted }, ownFingerprint }: Asking,
) {
  /** The observation of one cluster. */
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
  /**
   * Whether the workers' credential for a cluster that serves clients has these rights, according to that cluster, and
   * whether the cluster accepts a write beside the marker. Looks up the credential once.
   */
  const markerRights = async (cluster: string, needed: Rights, mustLast = false): Promise<Check[]> => {
    const serving = access(cluster);
    const { judged, rights } = await checkMarker(serving, deployment, signal);
    const all = { ...needed, ...rights };
    const facts = await credentialFacts(serving, () => serving.credential(), Object.keys(all), signal);
    if (!facts.usable) return [credentialWorks(serving.entry, facts)];
    const lasts = mustLast ? [credentialWorks(serving.entry, facts), credentialLives(serving.entry, facts)] : [];
    return [...lasts, ...credentialMay(serving.entry, facts, all), judged];
  };
  return {
    deployment,
    observations,
    signal,
    of,
    othersOf,
    access,
    markerRights,
    /**
     * Whether the workers' credentials have the rights that these operations need, according to each cluster.
     *
     * @param more - further rights that a run needs on a cluster
     * @param serving - the cluster that serves clients, and must accept a write beside the marker
     */
    rights: async (
      operations: Listed<PlannedOperation>,
      more: Readonly<Record<string, Rights>> = {},
      serving?: string,
    ): Promise<Check[]> => {
      const needed = [...operations.flatMap((each) => (each ? rightsOf(each) : [])), ...Object.entries(more)];
      const checks = [...new Set(needed.map(([cluster]) => cluster))].map((cluster) => {
        const own = Object.fromEntries(
          needed.flatMap(([each, rights]) => (each === cluster ? Object.entries(rights) : [])),
        );
        return cluster === serving ? markerRights(cluster, own) : mayCall(access(cluster), own, signal);
      });
      return (await Promise.all(checks)).flat();
    },
    /**
     * Where the operation token for a DR secondary comes from, with `update` on these paths, and whether that source is ready.
     *
     * @param others - clusters whose key holders the run may ask later
     */
    tokens: (
      cluster: string,
      paths: readonly string[],
      takesKept = false,
      others: readonly ClusterObservation[] = [],
    ): Promise<TokenAssessment> => {
      const primary = othersOf(cluster).find(({ dr }) => dr?.mode === 'primary');
      return assessTokenSource({
        ...{ deployment, secondary: access(cluster), observation: of(cluster), wanted, paths, ownFingerprint, signal },
        ...{ primary: primary && access(primary.cluster), takesKept, others },
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
  runbook: RunbookName,
  asking: Asking & PlanFrom<Planning['input']>,
  named: readonly (string | undefined)[] = [],
) {
  const { clusters, signal } = currentExecution();
  const { input } = asking;
  const { deployment: name } = input;
  const deployment = clusters.deployment(name);
  for (const each of named) if (each !== undefined) findCluster(deployment, each);
  const [observations, site] = await Promise.all([observeDeployment(name), siteFacts(name)]);
  return {
    ...observedOf({ access: (cluster) => clusters.of(name, cluster), signal }, deployment, observations, asking),
    plan: (parts: Omit<Planning, 'runbook' | 'input'>) => planDocument({ runbook, input, ...parts }),
    /** The first part of an assessment, with the gates that the run needs. */
    base: (...gates: Listed<GateName>) => ({
      observations,
      site,
      gates: Object.fromEntries(
        applicable(gates).map((gate) => [gate, gateFacts(deployment, gate, input.requestedBy)]),
      ),
    }),
  };
}

/** The rights that an operation needs: on its cluster, and on the primary that its cluster joins. */
function rightsOf({ kind, endpoint, on, with: other, detail }: PlannedOperation): (readonly [string, Rights])[] {
  // The plan itself adds what a hook, a token or a filter needs.
  if (kind === undefined || endpoint === 'primary/paths-filter') return [];
  if (endpoint === 'quotas/rate-limit')
    return [on, other].flatMap((each) => (each ? [[each.cluster, QUOTA_RIGHTS] as const] : []));
  const own = [on.cluster, { [`sys/replication/${kind}/${endpoint}`]: ['update'] }] as const;
  const byToken = kind === 'dr' && BY_OPERATION_TOKEN.has(endpoint);
  const id = kind === 'dr' ? undefined : on.clusterId;
  const issuing = joins(endpoint, detail) ? issuingRights(kind, id, detail !== describeFilter('none')) : {};
  return [...(byToken ? [] : [own]), ...(other ? [[other.cluster, issuing] as const] : [])];
}

/** A DR secondary accepts an operation token for these instead of a credential. A cluster that is not one yet does not. */
const BY_OPERATION_TOKEN: ReadonlySet<Endpoint> = new Set([
  'secondary/promote',
  'secondary/update-primary',
  'secondary/disable',
  'secondary/reindex',
]);

/** Whether the primary issues an activation token for it. */
function joins(endpoint: Endpoint, detail: string | undefined): boolean {
  return endpoint === 'secondary/enable' || (endpoint === 'secondary/update-primary' && !isByAddresses(detail));
}

/**
 * What the workers' credential needs on a primary that issues an activation token.
 *
 * @param id - performance only: the id under which the primary stores the secondary's filter
 * @param writes - whether the filter is written too
 */
export function issuingRights(kind: ReplicationKind, id?: string, writes = true): Rights {
  const base = `sys/replication/${kind}/primary`;
  return {
    [`${base}/secondary-token`]: ['update', 'sudo'],
    [`${base}/revoke-secondary`]: ['update'],
    ...(id !== undefined && { [`${base}/paths-filter/${id}`]: ['read', ...(writes ? ['create|update'] : [])] }),
  };
}

/** Reads the clusters of a deployment. */
export async function readDeployment({ deployment }: OnDeployment) {
  return { observations: await observeDeployment(deployment) };
}

/* What several plans share. */

/** The step of a planned change of the primary after its demotion. */
export function comparing(from: string, by: Quiesce, acceptLoss: 'none' | 'bounded'): Move {
  return {
    step: COMPARE,
    ...(by !== 'none' && { when: 'clients were not verified to be quiesced' }),
    note: `if a loss cannot be excluded, ${acceptLoss === 'none' ? `promote ${from} back` : 'continue and state the bound'}`,
  };
}

/** A re-point that is part of the change that the gate approved. */
export function repointing(
  kind: ReplicationKind,
  gate: GateName,
  on: Named,
  primary: Named,
  detail?: string,
): PlannedOperation {
  return { kind, endpoint: 'secondary/update-primary', gate, on, with: primary, detail };
}

/** The performance secondaries of a DR set, after its primary has changed. */
export function followingPerformance(secondaries: readonly Named[], primary: Named, gate: GateName): Listed<Move> {
  return [
    secondaries.length > 0 && {
      step: WAIT_PERFORMANCE_FOLLOWS,
      note: `${secondaries.map(({ cluster }) => cluster).join(', ')}; one that does not is re-pointed with its paths filter`,
      operations: secondaries.map((each) => repointing('performance', gate, each, primary)),
    },
  ];
}

/** What a secondary may receive although it must not, between update-primary and the second write of its filter. */
export function exposureText(secondary: string, filter: PathsFilterFacts): string {
  return `Between update-primary and the second write of its filter, ${secondary} may receive what its filter keeps away: ${withheld(filter)}.`;
}
