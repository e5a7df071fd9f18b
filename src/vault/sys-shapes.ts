import { Secret } from '../secret';
import { dataOf } from './answers';
import type { Fields } from './fields';

/** `sys/health` (facts 1.5). Every status of it is data. */
export interface Health {
  /** 200 active, 429 standby, 472 DR secondary, 473 performance standby, 474 HA unhealthy, 501, 503, 530. */
  readonly status: number;
  /** The address that answered. */
  readonly node: string;
  readonly initialized: boolean;
  readonly sealed: boolean;
  readonly standby: boolean;
  readonly performanceStandby?: boolean;
  /** Not to be trusted on a DR secondary. */
  readonly replicationPerformanceMode?: string;
  readonly replicationDrMode?: string;
  readonly serverTimeUtc?: number;
  readonly version?: string;
  readonly enterprise?: boolean;
  readonly clusterName?: string;
  /** Identifier of the cluster itself, not of a replication set. */
  readonly clusterId?: string;
  readonly lastWal?: bigint;
  readonly licence?: { readonly state?: string; readonly expiryTime?: string; readonly terminated?: boolean };
  readonly echoDurationMs?: number;
  readonly clockSkewMs?: number;
  readonly replicationPrimaryCanaryAgeMs?: number;
  readonly haConnectionHealthy?: boolean;
  readonly lastRequestForwardingHeartbeatMs?: number;
  readonly removedFromCluster?: boolean;
}

export function readHealth(body: Fields, node: string, status: number): Health {
  const licence = body.child('license');
  return {
    status,
    node,
    initialized: body.neededFlag('initialized'),
    sealed: body.neededFlag('sealed'),
    standby: body.flag('standby') ?? false,
    performanceStandby: body.flag('performance_standby'),
    replicationPerformanceMode: body.filledText('replication_performance_mode'),
    replicationDrMode: body.filledText('replication_dr_mode'),
    serverTimeUtc: body.number('server_time_utc'),
    version: body.filledText('version'),
    enterprise: body.flag('enterprise'),
    clusterName: body.filledText('cluster_name'),
    clusterId: body.filledText('cluster_id'),
    lastWal: body.index('last_wal'),
    licence: licence && {
      state: licence.filledText('state'),
      expiryTime: licence.filledText('expiry_time'),
      terminated: licence.flag('terminated'),
    },
    echoDurationMs: body.number('echo_duration_ms'),
    clockSkewMs: body.number('clock_skew_ms'),
    replicationPrimaryCanaryAgeMs: body.number('replication_primary_canary_age_ms'),
    haConnectionHealthy: body.flag('ha_connection_healthy'),
    lastRequestForwardingHeartbeatMs: body.number('last_request_forwarding_heartbeat_ms'),
    removedFromCluster: body.flag('removed_from_cluster'),
  };
}

/** `sys/leader` (facts 1.6). */
export interface Leader {
  readonly haEnabled: boolean;
  readonly isSelf: boolean;
  readonly activeTime?: string;
  readonly leaderAddress?: string;
  readonly leaderClusterAddress?: string;
  readonly performanceStandby?: boolean;
  readonly performanceStandbyLastRemoteWal?: bigint;
  readonly lastWal?: bigint;
  readonly raftCommittedIndex?: bigint;
  readonly raftAppliedIndex?: bigint;
}

export function readLeader(body: Fields): Leader {
  return {
    haEnabled: body.flag('ha_enabled') ?? false,
    isSelf: body.neededFlag('is_self'),
    activeTime: body.filledText('active_time'),
    leaderAddress: body.filledText('leader_address'),
    leaderClusterAddress: body.filledText('leader_cluster_address'),
    performanceStandby: body.flag('performance_standby'),
    performanceStandbyLastRemoteWal: body.index('performance_standby_last_remote_wal'),
    lastWal: body.index('last_wal'),
    raftCommittedIndex: body.index('raft_committed_index'),
    raftAppliedIndex: body.index('raft_applied_index'),
  };
}

/** `sys/seal-status` (facts 1.6). `threshold` on a secondary is the primary's. */
export interface SealStatus {
  readonly type?: string;
  readonly initialized: boolean;
  readonly sealed: boolean;
  readonly threshold?: number;
  readonly shares?: number;
  readonly progress?: number;
  readonly version?: string;
  readonly clusterName?: string;
  readonly clusterId?: string;
  /** Key shares are recovery keys (auto-unseal). */
  readonly recoverySeal?: boolean;
  readonly storageType?: string;
}

export function readSealStatus(body: Fields): SealStatus {
  return {
    type: body.filledText('type'),
    initialized: body.neededFlag('initialized'),
    sealed: body.neededFlag('sealed'),
    threshold: body.number('t'),
    shares: body.number('n'),
    progress: body.number('progress'),
    version: body.filledText('version'),
    clusterName: body.filledText('cluster_name'),
    clusterId: body.filledText('cluster_id'),
    recoverySeal: body.flag('recovery_seal'),
    storageType: body.filledText('storage_type'),
  };
}

/** One node of `sys/ha-status`. */
export interface HaNode {
  readonly hostname?: string;
  readonly activeNode: boolean;
  readonly apiAddress?: string;
  readonly clusterAddress?: string;
  readonly lastEcho?: string;
  readonly version?: string;
  readonly upgradeVersion?: string;
  readonly redundancyZone?: string;
  readonly echoDurationMs?: number;
  readonly clockSkewMs?: number;
  readonly replicationPrimaryCanaryAgeMs?: number;
}

export function readHaNodes(body: Fields): readonly HaNode[] {
  const nodes = body.objects('nodes') ?? dataOf(body).objects('nodes') ?? body.missing('nodes');
  return nodes.map((node) => ({
    hostname: node.filledText('hostname'),
    activeNode: node.flag('active_node') ?? false,
    apiAddress: node.filledText('api_address'),
    clusterAddress: node.filledText('cluster_address'),
    lastEcho: node.filledText('last_echo'),
    version: node.filledText('version'),
    upgradeVersion: node.filledText('upgrade_version'),
    redundancyZone: node.filledText('redundancy_zone'),
    echoDurationMs: node.number('echo_duration_ms'),
    clockSkewMs: node.number('clock_skew_ms'),
    replicationPrimaryCanaryAgeMs: node.number('replication_primary_canary_age_ms'),
  }));
}

/** What a token may do, per path asked for. */
export type Capabilities = Readonly<Record<string, readonly string[]>>;

export function readCapabilities(body: Fields, paths: readonly string[]): Capabilities {
  const data = dataOf(body);
  return Object.fromEntries(paths.map((path) => [path, data.texts(path) ?? []]));
}

/** `auth/token/lookup-self`, without the token itself. */
export interface TokenFacts {
  readonly accessor?: string;
  readonly displayName?: string;
  readonly policies: readonly string[];
  readonly path?: string;
  /** `service`, `batch` or `recovery`. */
  readonly type?: string;
  readonly orphan?: boolean;
  readonly renewable?: boolean;
  /** Seconds left; 0 = no end. */
  readonly ttlSeconds?: number;
  readonly creationTtlSeconds?: number;
  /** RFC3339; absent where the token has no end. */
  readonly expireTime?: string;
}

export function readTokenFacts(body: Fields): TokenFacts {
  const data = dataOf(body);
  return {
    accessor: data.filledText('accessor'),
    displayName: data.filledText('display_name'),
    policies: data.textsOrNone('policies') ?? [],
    path: data.filledText('path'),
    type: data.filledText('type'),
    orphan: data.flag('orphan'),
    renewable: data.flag('renewable'),
    ttlSeconds: data.number('ttl'),
    creationTtlSeconds: data.number('creation_ttl'),
    expireTime: data.filledText('expire_time'),
  };
}

/** A token that a role made. */
export interface CreatedToken {
  readonly token: Secret<'batch-token'>;
  /** Absent for batch tokens. */
  readonly accessor?: string;
  /** `batch` or `service`: a role may not make what was asked for. */
  readonly tokenType?: string;
  readonly leaseDurationSeconds: number;
  readonly orphan?: boolean;
  readonly renewable?: boolean;
  readonly policies: readonly string[];
}

export function readCreatedToken(body: Fields): CreatedToken {
  const auth = body.child('auth') ?? body.missing('auth');
  return {
    token: new Secret('batch-token', auth.neededText('client_token')),
    accessor: auth.filledText('accessor'),
    tokenType: auth.filledText('token_type'),
    leaseDurationSeconds: auth.neededNumber('lease_duration'),
    orphan: auth.flag('orphan'),
    renewable: auth.flag('renewable'),
    policies: auth.textsOrNone('policies') ?? [],
  };
}

/** `auth/token/roles/:role`: what tokens of this role are like. */
export interface TokenRole {
  readonly allowedPolicies: readonly string[];
  /** Patterns of further policies that it allows. */
  readonly allowedPoliciesGlob: readonly string[];
  readonly orphan?: boolean;
  readonly renewable?: boolean;
  /** `batch`, `service`, `default-batch` or `default-service`. */
  readonly tokenType?: string;
}

export function readTokenRole(body: Fields): TokenRole {
  const data = dataOf(body);
  return {
    allowedPolicies: data.textsOrNone('allowed_policies') ?? [],
    allowedPoliciesGlob: data.textsOrNone('allowed_policies_glob') ?? [],
    orphan: data.flag('orphan'),
    renewable: data.flag('renewable'),
    tokenType: data.filledText('token_type'),
  };
}
