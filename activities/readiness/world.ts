import { setTimeout as delay } from 'node:timers/promises';
import type { Health } from '../../src/vault';
import type { ClusterObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { Deployment } from '../../src/inventory';
import type { ClusterAccess } from '../clusters';
import { observeCluster, observeReplication } from '../observe';
import type { Look } from './look';
import { TooSlow, within } from './look';
import { codeOf } from './point';

/** Readings of the active node and of the status, beside the first one. */
const MORE_READS = 2;
const BETWEEN_READS_MS = 250;
const NODE_TIMEOUT_MS = 3_000;
/** What reading one cluster several times may take, ms. */
const CLUSTER_MS = 12_000;

/** What one node said of itself, with the worker's clock around it. Times are epoch ms. */
export interface NodeHealth {
  readonly address: string;
  readonly health: Health;
  readonly askedAt: number;
  readonly answeredAt: number;
}

/** What a cluster is for the two questions. `gone`: it does not answer and the others of its DR set have no primary. */
export type Part = 'primary' | 'secondary' | 'gone' | 'other';

/** What was read of one cluster. */
export interface ClusterView {
  readonly name: string;
  readonly drSet: string;
  readonly part: Part;
  readonly observation: ClusterObservation;
  readonly healths: readonly NodeHealth[];
  /** The active node of each reading; undefined where the nodes did not agree. */
  readonly activeNodes: readonly (string | undefined)[];
  /** Merkle roots of the DR tree over all readings. */
  readonly drRoots: readonly string[];
}

/** One DR set: membership from the inventory, roles as read. */
export interface SetView {
  readonly name: string;
  readonly members: readonly ClusterView[];
  readonly primaries: readonly ClusterView[];
  readonly secondaries: readonly ClusterView[];
}

/** Everything that is looked at. */
export interface World {
  readonly deployment: Deployment;
  readonly clusters: readonly ClusterView[];
  /** DR sets of more than one cluster: only these have anything to switch to. */
  readonly sets: readonly SetView[];
}

type Raw = Omit<ClusterView, 'part' | 'drSet'>;

/** Reads every cluster several times; one that does not answer is a view too. */
export async function readWorld(look: Look, deployment: Deployment): Promise<World> {
  const raw = await Promise.all(look.clusters.all(deployment.name).map((access) => readCluster(look, access)));
  return worldOf(deployment, raw);
}

/** Who is primary is read, never configured. Pure. */
export function worldOf(deployment: Deployment, raw: readonly Raw[]): World {
  const sets = [...deployment.drSets].map(([name, members]) => {
    const inSet = raw.filter((each) => members.includes(each.name));
    const hasPrimary = inSet.some((each) => each.observation.dr?.mode === 'primary');
    const views = inSet.map((each) => ({ ...each, drSet: name, part: partOf(each, inSet.length, hasPrimary) }));
    return {
      name,
      members: views,
      primaries: views.filter(({ observation }) => observation.dr?.mode === 'primary'),
      secondaries: views.filter(({ part }) => part === 'secondary'),
    };
  });
  return {
    deployment,
    clusters: sets.flatMap(({ members }) => members),
    sets: sets.filter(({ members }) => members.length > 1),
  };
}

function partOf({ observation }: Raw, members: number, hasPrimary: boolean): Part {
  if (members < 2) return 'other';
  if (observation.dr?.mode === 'primary') return 'primary';
  return observation.reachable || hasPrimary ? 'secondary' : 'gone';
}

async function readCluster(look: Look, access: ClusterAccess): Promise<Raw> {
  const { entry } = access;
  const [observed, healths] = await Promise.all([readSeveralTimes(look, access), readHealths(look, access)]);
  return { name: entry.name, healths, ...observed };
}

type Observed = Pick<ClusterView, 'observation' | 'activeNodes' | 'drRoots'>;

async function readSeveralTimes(look: Look, access: ClusterAccess): Promise<Observed> {
  try {
    return await within(look, (signal) => observeSeveralTimes(access, signal), CLUSTER_MS);
  } catch (error) {
    if (look.signal.aborted) throw error;
    const { name, addresses } = access.entry;
    const code = error instanceof TooSlow ? error.message : codeOf(error);
    const nodes = addresses.map((address) => ({ address, reachable: false, error: code }));
    const observation = { cluster: name, at: look.now, reachable: false, error: code, nodes };
    return { observation, activeNodes: [undefined], drRoots: [] };
  }
}

/** Optional members are missing now and then: what one reading lacks another may tell. The first one counts. */
async function observeSeveralTimes(access: ClusterAccess, signal: AbortSignal): Promise<Observed> {
  const { client } = access;
  let observation = await observeCluster(access, signal);
  const activeNodes: (string | undefined)[] = [observation.activeNode];
  const drRoots = observation.dr?.merkleRoot === undefined ? [] : [observation.dr.merkleRoot];
  for (let read = 0; read < MORE_READS && observation.reachable; read += 1) {
    await delay(BETWEEN_READS_MS, undefined, { signal });
    try {
      const options = { signal, timeoutMs: NODE_TIMEOUT_MS };
      const { node, status } = await client.atActiveNode(
        async (each) => ({ node: each, status: await client.sys.replicationStatus({ ...options, node: each }) }),
        options,
      );
      activeNodes.push(node);
      const [dr, performance] = [status.dr, status.performance].map((each) => observeReplication(each, undefined));
      if (dr?.merkleRoot !== undefined) drRoots.push(dr.merkleRoot);
      observation = {
        ...observation,
        dr: completed(observation.dr, dr),
        performance: completed(observation.performance, performance),
      };
    } catch (error) {
      if (signal.aborted) throw error;
      activeNodes.push(undefined);
    }
  }
  return { observation, activeNodes, drRoots };
}

/** The canary is the one member that readings of the same state may lack. */
function completed(
  first: ReplicationObservation | undefined,
  later: ReplicationObservation | undefined,
): ReplicationObservation | undefined {
  if (!first || !later || first.mode !== later.mode) return first;
  const canaries = later.peers.flatMap(({ canaryAgeMs }) => canaryAgeMs ?? []);
  return {
    ...first,
    peers: first.peers.map((peer) => {
      const canaryAgeMs = peer.canaryAgeMs ?? canaries[0];
      return canaryAgeMs === undefined ? peer : { ...peer, canaryAgeMs };
    }),
  };
}

/** Every node for itself: clocks, licences and versions are a node's own. */
async function readHealths(look: Look, { entry, client }: ClusterAccess): Promise<NodeHealth[]> {
  const answers = await Promise.all(
    entry.addresses.map(async (address): Promise<NodeHealth[]> => {
      try {
        return await within(look, async (signal) => {
          const askedAt = Date.now();
          const health = await client.sys.health({ node: address, signal, timeoutMs: NODE_TIMEOUT_MS });
          return [{ address, health, askedAt, answeredAt: Date.now() }];
        });
      } catch (error) {
        if (look.signal.aborted) throw error;
        // That the node does not answer is told by the observation.
        return [];
      }
    }),
  );
  return answers.flat();
}
