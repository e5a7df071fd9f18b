import type { Fields } from './fields';
import type { EpochSeconds } from './types';

/** One cluster at the other end, as its counterpart sees it by heartbeat (facts 3.1). */
export interface ReplicationPeer {
  /** The id of the activation token; on the primary's side only. */
  readonly nodeId?: string;
  readonly apiAddress?: string;
  readonly clusterAddress?: string;
  /** `connected` or `disconnected`. */
  readonly connectionStatus?: string;
  /** RFC3339. */
  readonly lastHeartbeat?: string;
  readonly lastHeartbeatDurationMs?: number;
  readonly clockSkewMs?: number;
  readonly replicationPrimaryCanaryAgeMs?: number;
}

interface CommonStatus {
  readonly state?: string;
  /** Identifier of the replication set, shared by all of its members. */
  readonly clusterId?: string;
  readonly primaryClusterAddr?: string;
  readonly lastWal?: bigint;
  readonly merkleRoot?: string;
  readonly lastReindexEpoch?: EpochSeconds;
  readonly reindexInProgress?: boolean;
  readonly reindexStage?: string;
  readonly reindexBuildingProgress?: number;
  readonly reindexBuildingTotal?: number;
  readonly corruptedMerkleTree?: boolean;
  readonly lastCorruptionCheckEpoch?: EpochSeconds;
  readonly ssctGenerationCounter?: number;
}

/** Not part of a set, or not able to tell (`unknown` while the node restarts). */
export interface InactiveStatus {
  readonly mode: 'disabled' | 'unsupported' | 'unknown';
}

interface PrimaryStatus extends CommonStatus {
  readonly mode: 'primary';
  /** Ids of all activation tokens issued and not revoked, used or not. */
  readonly knownSecondaries?: readonly string[];
  /** Clusters with a heartbeat since the primary started. */
  readonly secondaries?: readonly ReplicationPeer[];
}

export interface DrPrimaryStatus extends PrimaryStatus {
  readonly lastDrWal?: bigint;
}

export interface PerformancePrimaryStatus extends PrimaryStatus {
  readonly lastPerformanceWal?: bigint;
}

/** `state` can stay `stream-wals` with a dead primary: judge life by `primaries` and their heartbeats. */
export interface SecondaryStatus extends CommonStatus {
  readonly mode: 'secondary' | 'bootstrapping';
  /** gRPC channel: `ready`, `connecting`, `idle`, `transient_failure`, `shutdown`. */
  readonly connectionState?: string;
  /** The id given to secondary-token. */
  readonly secondaryId?: string;
  readonly knownPrimaryClusterAddrs?: readonly string[];
  readonly primaries?: readonly ReplicationPeer[];
  /** 0 right after a merkle-sync: no WAL streamed yet. */
  readonly lastRemoteWal?: bigint;
  /** RFC3339. */
  readonly lastStart?: string;
  readonly merkleSyncProgress?: { readonly totalKeys?: number; readonly progress?: number };
}

export type DrStatus = InactiveStatus | DrPrimaryStatus | SecondaryStatus;
export type PerformanceStatus = InactiveStatus | PerformancePrimaryStatus | SecondaryStatus;

/** Both kinds at once (`sys/replication/status`). */
export interface ReplicationStatus {
  readonly dr: DrStatus;
  readonly performance: PerformanceStatus;
}

export function readDrStatus(fields: Fields): DrStatus {
  const status = readStatus(fields);
  return status.mode === 'primary' ? { ...status, lastDrWal: fields.index('last_dr_wal') } : status;
}

export function readPerformanceStatus(fields: Fields): PerformanceStatus {
  const status = readStatus(fields);
  return status.mode === 'primary' ? { ...status, lastPerformanceWal: fields.index('last_performance_wal') } : status;
}

/** The combined read: a bare `mode` stands for both kinds (unsupported storage, builds without replication). */
export function readReplicationStatus(fields: Fields): ReplicationStatus {
  if (!fields.has('dr') && !fields.has('performance') && fields.has('mode')) {
    return { dr: readDrStatus(fields), performance: readPerformanceStatus(fields) };
  }
  return {
    dr: readDrStatus(fields.child('dr') ?? fields.missing('dr')),
    performance: readPerformanceStatus(fields.child('performance') ?? fields.missing('performance')),
  };
}

function readStatus(fields: Fields): InactiveStatus | PrimaryStatus | SecondaryStatus {
  const mode = fields.neededText('mode');
  switch (mode) {
    case 'primary':
      return {
        mode,
        ...readCommon(fields),
        knownSecondaries: fields.textsOrNone('known_secondaries'),
        secondaries: fields.objects('secondaries')?.map(readPeer),
      };
    case 'secondary':
    case 'bootstrapping': {
      const progress = fields.child('merkle_sync_progress');
      return {
        mode,
        ...readCommon(fields),
        connectionState: fields.filledText('connection_state'),
        secondaryId: fields.filledText('secondary_id'),
        knownPrimaryClusterAddrs: fields.textsOrNone('known_primary_cluster_addrs'),
        primaries: fields.objects('primaries')?.map(readPeer),
        lastRemoteWal: fields.index('last_remote_wal'),
        lastStart: fields.filledText('last_start'),
        merkleSyncProgress: progress && {
          totalKeys: progress.number('sync_total_keys'),
          progress: progress.number('sync_progress'),
        },
      };
    }
    case 'disabled':
    case 'unsupported':
      return { mode };
    default:
      return { mode: 'unknown' };
  }
}

function readCommon(fields: Fields): CommonStatus {
  return {
    state: fields.filledText('state'),
    clusterId: fields.filledText('cluster_id'),
    primaryClusterAddr: fields.filledText('primary_cluster_addr'),
    lastWal: fields.index('last_wal'),
    merkleRoot: fields.filledText('merkle_root'),
    lastReindexEpoch: fields.epoch('last_reindex_epoch'),
    reindexInProgress: fields.flag('reindex_in_progress'),
    reindexStage: fields.filledText('reindex_stage'),
    reindexBuildingProgress: fields.number('reindex_building_progress'),
    reindexBuildingTotal: fields.number('reindex_building_total'),
    corruptedMerkleTree: fields.flag('corrupted_merkle_tree'),
    lastCorruptionCheckEpoch: fields.epoch('last_corruption_check_epoch'),
    ssctGenerationCounter: fields.number('ssct_generation_counter'),
  };
}

function readPeer(fields: Fields): ReplicationPeer {
  return {
    nodeId: fields.filledText('node_id'),
    apiAddress: fields.filledText('api_address'),
    clusterAddress: fields.filledText('cluster_address'),
    connectionStatus: fields.filledText('connection_status'),
    lastHeartbeat: fields.filledText('last_heartbeat'),
    lastHeartbeatDurationMs: fields.number('last_heartbeat_duration_ms'),
    clockSkewMs: fields.number('clock_skew_ms'),
    replicationPrimaryCanaryAgeMs: fields.number('replication_primary_canary_age_ms'),
  };
}
