import type { SimulatedCluster } from './cluster';
import type { JsonObject } from './json';
import type { PrimaryRole, SecondaryRole } from './roles';
import type { ReplicationKind } from './storage';
import type { ReplicationStream } from './stream';
import { checksMerkleTrees } from './versions';

/** Go's zero time in seconds since the epoch: "never". */
const NEVER = '-62135596800';

/** Fields that older or busy nodes leave out. */
const OPTIONAL_FIELDS = [
  'last_reindex_epoch',
  'last_corruption_check_epoch',
  'ssct_generation_counter',
  'clock_skew_ms',
  'last_heartbeat_duration_ms',
  'replication_primary_canary_age_ms',
  'last_start',
];

/** `data` of a replication status. */
export function replicationStatus(cluster: SimulatedCluster, kind: ReplicationKind): JsonObject {
  const role = cluster.effectiveRole(kind);
  switch (role.mode) {
    case 'disabled':
      return { mode: 'disabled' };
    case 'primary':
      return thinned(cluster, primaryStatus(cluster, kind, role));
    case 'secondary':
      return thinned(cluster, secondaryStatus(cluster, kind, role));
  }
}

function thinned(cluster: SimulatedCluster, fields: JsonObject): JsonObject {
  const kept = Object.entries(fields).filter(
    ([name]) => !OPTIONAL_FIELDS.includes(name) || !cluster.random.chance(cluster.readings.optionalFieldMissingChance),
  );
  return Object.fromEntries(kept);
}

function treeFields(cluster: SimulatedCluster, kind: ReplicationKind): JsonObject {
  const now = cluster.surroundings.now();
  const reindex = cluster.reindex;
  const running = reindex !== undefined && now < reindex.endsAt;
  return {
    merkle_root: cluster.storage.rootOf(kind),
    last_reindex_epoch: reindex === undefined || running ? '0' : String(Math.floor(reindex.endsAt / 1_000)),
    ...(checksMerkleTrees(cluster.version)
      ? { corrupted_merkle_tree: cluster.corruptedPages !== undefined, last_corruption_check_epoch: NEVER }
      : {}),
    ssct_generation_counter: 0,
    ...(running ? reindexFields(reindex, now) : {}),
  };
}

function reindexFields(reindex: { startedAt: number; endsAt: number }, now: number): JsonObject {
  const share = (now - reindex.startedAt) / Math.max(1, reindex.endsAt - reindex.startedAt);
  return share < 0.5
    ? { reindex_in_progress: true, reindex_stage: 'scanning' }
    : {
        reindex_in_progress: true,
        reindex_stage: 'building',
        reindex_building_progress: Math.floor(share * 1_000),
        reindex_building_total: 1_000,
      };
}

function primaryStatus(cluster: SimulatedCluster, kind: ReplicationKind, role: PrimaryRole): JsonObject {
  return {
    mode: 'primary',
    state: 'running',
    cluster_id: role.setId,
    primary_cluster_addr: role.advertisedAddress,
    known_secondaries: role.knownSecondaries.map(({ id }) => id),
    last_wal: cluster.storage.lastWal,
    [kind === 'dr' ? 'last_dr_wal' : 'last_performance_wal']: cluster.storage.lastWalOf(kind),
    ...treeFields(cluster, kind),
    secondaries: [...cluster.connectedSecondaries(kind)].map((secondary) => {
      const secondaryRole = secondary.effectiveRole(kind);
      return thinned(cluster, {
        node_id: secondaryRole.mode === 'secondary' ? secondaryRole.secondaryId : '',
        api_address: secondary.apiAddress,
        cluster_address: secondary.clusterAddress,
        ...heartbeatFields(secondary, secondary.streams[kind]),
      });
    }),
  };
}

function secondaryStatus(cluster: SimulatedCluster, kind: ReplicationKind, role: SecondaryRole): JsonObject {
  const stream = cluster.streams[kind];
  const detached = role.certificate === null;
  return {
    mode: 'secondary',
    state: stream.state,
    connection_state: detached ? 'idle' : stream.connected ? 'ready' : 'transient_failure',
    cluster_id: role.setId,
    secondary_id: role.secondaryId,
    primary_cluster_addr: role.primaryClusterAddress,
    known_primary_cluster_addrs: [...role.knownPrimaryAddresses],
    last_remote_wal: stream.lastRemoteWal,
    last_start: stream.lastStartAt === undefined ? undefined : timestamp(stream.lastStartAt),
    ...treeFields(cluster, kind),
    ...(stream.state === 'merkle-sync' ? { merkle_sync_progress: { sync_total_keys: 1_000, sync_progress: 500 } } : {}),
    primaries: detached || stream.source === undefined ? [] : primaryPeers(cluster, stream, stream.source),
  };
}

function primaryPeers(cluster: SimulatedCluster, stream: ReplicationStream, source: SimulatedCluster): JsonObject[] {
  const peer = { api_address: source.apiAddress, cluster_address: source.clusterAddress };
  return [thinned(cluster, { ...peer, ...heartbeatFields(cluster, stream) })];
}

function heartbeatFields(secondary: SimulatedCluster, stream: ReplicationStream): JsonObject {
  const now = secondary.surroundings.now();
  const canary =
    secondary.storage.get(stream.kind === 'dr' ? 'cluster/canary' : 'canary') ?? secondary.storage.get('canary');
  return {
    connection_status: stream.connected ? 'connected' : 'disconnected',
    last_heartbeat: timestamp(stream.lastHeartbeatAt ?? now),
    last_heartbeat_duration_ms: '1',
    clock_skew_ms: '0',
    replication_primary_canary_age_ms:
      canary?.type === 'canary' ? String(Math.max(0, Math.round(now - canary.at))) : undefined,
  };
}

function timestamp(at: number): string {
  return new Date(at).toISOString();
}
