/** A WAL index: uint64 in decimal digits. Never compared across a promotion or between sets. */
export type WalIndex = string;

/** What one node said of itself. */
export interface NodeObservation {
  readonly address: string;
  readonly reachable: boolean;
  /** Redacted error where the node did not answer. */
  readonly error?: string;
  readonly initialized?: boolean;
  readonly sealed?: boolean;
  readonly standby?: boolean;
  readonly version?: string;
  readonly healthStatus?: number;
}

/** A peer as a status answer lists it. */
export interface PeerObservation {
  readonly id?: string;
  readonly connected: boolean;
  readonly clusterAddress?: string;
  /** Age of the last heartbeat by the clock of the node that answered, ms; absent where it is not known. */
  readonly heartbeatAgeMs?: number;
  /** A heartbeat was told, but not when by any clock that can be trusted. */
  readonly heartbeatUnreadable?: boolean;
  readonly canaryAgeMs?: number;
}

/** What status said of one replication kind. */
export interface ReplicationObservation {
  readonly mode: string;
  readonly state?: string;
  readonly connectionState?: string;
  /** ID of the replication set. */
  readonly setId?: string;
  readonly secondaryId?: string;
  readonly primaryClusterAddress?: string;
  readonly knownPrimaryClusterAddresses?: readonly string[];
  readonly knownSecondaries?: readonly string[];
  /** `last_dr_wal` or `last_performance_wal` of a primary. */
  readonly lastWal?: WalIndex;
  /** `last_remote_wal` of a secondary; `0` means nothing streamed yet. */
  readonly lastRemoteWal?: WalIndex;
  readonly merkleRoot?: string;
  readonly corruptedMerkleTree?: boolean;
  readonly reindexInProgress?: boolean;
  readonly peers: readonly PeerObservation[];
}

/** What was read of one cluster at one time. */
export interface ClusterObservation {
  readonly cluster: string;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly reachable: boolean;
  readonly error?: string;
  readonly nodes: readonly NodeObservation[];
  readonly activeNode?: string;
  /** `sys/health` cluster_id. */
  readonly clusterId?: string;
  readonly version?: string;
  readonly dr?: ReplicationObservation;
  readonly performance?: ReplicationObservation;
  /** The single slot for generation attempts, where it could be read. */
  readonly attempt?: {
    readonly started: boolean;
    readonly fingerprint?: string;
    readonly progress: number;
    readonly required: number;
  };
}
