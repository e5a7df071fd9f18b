import type { SimulatedCluster } from './cluster';
import type { ReplicationKind } from './storage';
import type { StreamState } from './stream';

export interface ReplicationSnapshot {
  readonly mode: 'disabled' | 'primary' | 'secondary';
  readonly setId: string | undefined;
  readonly knownSecondaries: readonly string[];
  readonly secondaryId: string | undefined;
  readonly state: StreamState;
  readonly connectedTo: string | undefined;
  readonly lastWal: bigint;
  readonly lastRemoteWal: bigint;
  readonly merkleRoot: string;
  readonly discardedEntries: number;
}

/** The state of a cluster for assertions, past the HTTP interface; holds no secrets. */
export interface ClusterSnapshot {
  readonly name: string;
  readonly clusterId: string;
  readonly activeNode: number | undefined;
  readonly nodes: readonly { readonly up: boolean; readonly sealed: boolean }[];
  readonly dr: ReplicationSnapshot;
  readonly performance: ReplicationSnapshot;
  /** Operation tokens that exist, whether or not they are usable in the present role. */
  readonly operationTokens: number;
  readonly filters: readonly string[];
}

export function takeSnapshot(cluster: SimulatedCluster): ClusterSnapshot {
  return {
    name: cluster.name,
    clusterId: cluster.clusterId,
    activeNode: cluster.leadership.active?.index,
    nodes: cluster.nodes.map(({ up, sealed }) => ({ up, sealed })),
    dr: replicationSnapshot(cluster, 'dr'),
    performance: replicationSnapshot(cluster, 'performance'),
    operationTokens: cluster.tokens.operationTokenCount,
    filters: cluster.storage.keys('cluster/filter/').map((key) => key.slice('cluster/filter/'.length)),
  };
}

function replicationSnapshot(cluster: SimulatedCluster, kind: ReplicationKind): ReplicationSnapshot {
  const role = cluster.effectiveRole(kind);
  const stream = cluster.streams[kind];
  return {
    mode: role.mode,
    setId: role.mode === 'disabled' ? undefined : role.setId,
    knownSecondaries: role.mode === 'primary' ? role.knownSecondaries.map(({ id }) => id) : [],
    secondaryId: role.mode === 'secondary' ? role.secondaryId : undefined,
    state: stream.state,
    connectedTo: stream.connected ? stream.source?.name : undefined,
    lastWal: cluster.storage.lastWalOf(kind),
    lastRemoteWal: stream.lastRemoteWal,
    merkleRoot: cluster.storage.rootOf(kind),
    discardedEntries: stream.discardedEntries,
  };
}
