import type { ClusterObservation } from '../../src/contracts/observations';
import type { Deployment } from '../../src/inventory';
import type { ClusterAccess } from '../clusters';
import type { ActivityContext } from '../execution';
import { observeWithHealths } from '../observe';
import type { NodeHealth } from '../observe';
import type { BatchTokenProof } from '../tokens/batch-token-proof';
import { codeOf, within } from './point';

/** What reading one cluster may take, ms. */
const CLUSTER_MS = 12_000;

/** What a cluster is for switchover and failover. `gone`: it does not answer and the others of its DR set have no primary. */
export type Part = 'primary' | 'secondary' | 'gone' | 'other';

/** What was read of one cluster. */
export interface ClusterReading {
  readonly name: string;
  readonly drSet: string;
  readonly part: Part;
  readonly observation: ClusterObservation;
  /** Every node for itself: clocks, licences and versions are a node's own. */
  readonly healths: readonly NodeHealth[];
}

/** One DR set: membership from the inventory, roles as read. */
export interface DrSet {
  readonly name: string;
  readonly members: readonly ClusterReading[];
  readonly primaries: readonly ClusterReading[];
  readonly secondaries: readonly ClusterReading[];
}

/** A deployment as it was read for readiness. */
export interface Topology {
  readonly deployment: Deployment;
  readonly clusters: readonly ClusterReading[];
  /** DR sets of more than one cluster: only these have anything to switch to. */
  readonly sets: readonly DrSet[];
}

/** What the points of readiness look at, and with what they read more. */
export interface ReadinessContext extends ServiceContext {
  readonly execution: ActivityContext;
}

/** As far as the clusters themselves answer: neither a run nor a worker is needed for it. */
export interface ServiceContext extends Topology {
  readonly execution: Pick<ActivityContext, 'signal'>;
  readonly access: (cluster: string) => ClusterAccess;
  /** Of the worker, epoch ms. */
  readonly now: number;
  /**
   * Of the batch tokens that a primary looked up, by DR secondary: kept for when none answers. Undefined where it refused
   * one for certain, or its rights are gone: an earlier proof is withdrawn then.
   */
  readonly proofs: Map<string, BatchTokenProof | undefined>;
}

type Reading = Omit<ClusterReading, 'part' | 'drSet'>;

/** Reads every cluster; one that does not answer is a reading too. */
export async function readTopology(
  { clusters, signal }: Pick<ActivityContext, 'clusters' | 'signal'>,
  deployment: Deployment,
): Promise<Topology> {
  return topologyOf(
    deployment,
    await Promise.all(clusters.all(deployment.name).map((each) => readCluster(each, signal))),
  );
}

/** Who is primary is read, never configured. Pure. */
export function topologyOf(deployment: Deployment, readings: readonly Reading[]): Topology {
  const sets = [...deployment.drSets].map(([name, names]) => {
    const inSet = readings.filter((each) => names.includes(each.name));
    const hasPrimary = inSet.some((each) => each.observation.dr?.mode === 'primary');
    const members = inSet.map((each) => ({ ...each, drSet: name, part: partOf(each, inSet.length, hasPrimary) }));
    return {
      name,
      members,
      primaries: members.filter(({ observation }) => observation.dr?.mode === 'primary'),
      secondaries: members.filter(({ part }) => part === 'secondary'),
    };
  });
  return {
    deployment,
    clusters: sets.flatMap(({ members }) => members),
    sets: sets.filter(({ members }) => members.length > 1),
  };
}

function partOf({ observation }: Reading, members: number, hasPrimary: boolean): Part {
  if (members < 2) return 'other';
  if (observation.dr?.mode === 'primary') return 'primary';
  return observation.reachable || hasPrimary ? 'secondary' : 'gone';
}

async function readCluster(access: ClusterAccess, signal: AbortSignal): Promise<Reading> {
  const { client, entry } = access;
  const { name, addresses } = entry;
  client.forgetActiveNode();
  try {
    return { name, ...(await within(signal, (limited) => observeWithHealths(access, limited), CLUSTER_MS)) };
  } catch (error) {
    if (signal.aborted) throw error;
    const code = codeOf(error);
    const nodes = addresses.map((address) => ({ address, reachable: false, error: code }));
    return { name, observation: { cluster: name, at: Date.now(), reachable: false, error: code, nodes }, healths: [] };
  }
}
