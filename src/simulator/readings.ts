/**
 * What the public sources leave open about the real service, one named constant per guess. The defaults are the harsh
 * reading: the one that a runbook has to survive. A topology may override them one by one.
 */
export interface Readings {
  /** A demoted primary still sends what its secondaries lack. */
  shipsAfterDemote: boolean;
  /** A demoted primary still reports `last_dr_wal` and `last_wal` in its replication status. */
  lastWalAfterDemote: boolean;
  /** Demoting writes to the replicated tree, so that the roots of both sides differ although nothing was lost. */
  demoteChangesMerkleRoot: boolean;
  /** Promote answers 503 for as long as it knows to lack writes, even where the source will never send them. */
  promoteRefusedBehindDeadSource: boolean;
  /** A DR secondary refuses ordinary tokens on the paths it does serve (before 2.0). */
  drSecondaryRefusesOrdinaryTokens: boolean;
  /** A generated operation token can be deleted while its cluster is primary; otherwise it lives again after a demotion. */
  operationTokenDeletableOnPrimary: boolean;
  /** A new operation token makes the one before it void. */
  newOperationTokenReplacesOld: boolean;
  /** `merkle-check` wants a credential in the header too. */
  merkleCheckNeedsHeader: boolean;
  /** The private half of `generate-public-key` is gone once its node is no longer active. */
  publicKeyLostOnLeaderChange: boolean;
  /** The lifetime of an activation token also holds for the encrypted form. */
  encryptedTokenExpires: boolean;
  /** `secondary/enable` seals the standby nodes, which then need the primary's key shares. */
  standbysSealOnEnable: boolean;
  /** `secondary/enable` wipes the `cluster_id` of `sys/health` too, and the cluster makes itself another one. */
  enableChangesClusterId: boolean;
  /** A sealed node does not count towards the quorum of its cluster. */
  sealedNodesBreakQuorum: boolean;
  /** `state` stays `stream-wals` although the primary is gone. */
  streamWalsWithDeadPrimary: boolean;
  /** `last_remote_wal` is 0 after the first comparison, until a write streams. */
  zeroRemoteWalAfterSync: boolean;
  /** Performance secondaries move to the promoted DR secondary of their primary on their own. */
  performanceSecondariesFollow: boolean;
  /** `update-primary` with a token removes the paths filter of the secondary's id, which must be written again. */
  updatePrimaryDropsFilter: boolean;
  /** A primary that comes back active after a promotion elsewhere revokes leases it holds for expired. */
  returningPrimaryRevokesLeases: boolean;
  /** A cluster that runs an older version than its source never gets to stream. */
  olderSecondaryNeverStreams: boolean;
  /** Chance that a role change moves leadership to another node. */
  leaderChangeChance: number;
  /** Chance, per answer and field, that an optional status field is missing. */
  optionalFieldMissingChance: number;
  /** Answer to revoking an id that is not known. */
  revokeUnknownStatus: 204 | 400;
  /** Answer to a DR operation token that is wrong, deleted or expired. */
  badOperationTokenStatus: 400 | 403;
  /** Answer to `reindex` while one runs. */
  reindexRunningStatus: number;
}

export const HARSH_READINGS: Readings = {
  shipsAfterDemote: false,
  lastWalAfterDemote: false,
  // The exception: with the harsh reading no switchover could ever prove that nothing was lost.
  demoteChangesMerkleRoot: false,
  promoteRefusedBehindDeadSource: true,
  drSecondaryRefusesOrdinaryTokens: true,
  operationTokenDeletableOnPrimary: false,
  newOperationTokenReplacesOld: false,
  merkleCheckNeedsHeader: true,
  publicKeyLostOnLeaderChange: true,
  encryptedTokenExpires: true,
  standbysSealOnEnable: true,
  enableChangesClusterId: true,
  sealedNodesBreakQuorum: true,
  streamWalsWithDeadPrimary: true,
  zeroRemoteWalAfterSync: true,
  performanceSecondariesFollow: true,
  updatePrimaryDropsFilter: true,
  returningPrimaryRevokesLeases: true,
  olderSecondaryNeverStreams: true,
  leaderChangeChance: 0.3,
  optionalFieldMissingChance: 0.2,
  revokeUnknownStatus: 400,
  badOperationTokenStatus: 403,
  reindexRunningStatus: 400,
};

/** Durations in milliseconds. The defaults keep tests fast; `REALISTIC_TIMING` is for demonstrations. */
export interface Timing {
  /** After a role change the cluster answers 500, 503 or not at all for this long. */
  restartMs: number;
  /** Without an active node, after a leader was lost, for this long. */
  electionMs: number;
  /** After a role change standby nodes report `unknown` or their old modes for this long. */
  standbyModeLagMs: number;
  /** After a promotion `secondary-token` answers 412 or 500 for this long, counted from the end of the restart. */
  secondaryTokenRefusedMs: number;
  /** A write is on the secondary after this long. */
  streamDelayMs: number;
  /** Interval in which a secondary hears how far its primary is. */
  heartbeatMs: number;
  /** Interval of the primary's own canary writes, which happen without any client; 0 for none. */
  canaryMs: number;
  /** Length of `merkle-diff` and of `merkle-sync` each, when a secondary attaches. */
  merkleDiffMs: number;
  merkleSyncMs: number;
  /** Until a performance secondary looks for another address of its set. */
  followMs: number;
  /** Length of a reindex. */
  reindexMs: number;
}

export const QUICK_TIMING: Timing = {
  restartMs: 50,
  electionMs: 30,
  standbyModeLagMs: 30,
  secondaryTokenRefusedMs: 40,
  streamDelayMs: 5,
  heartbeatMs: 100,
  canaryMs: 5_000,
  merkleDiffMs: 10,
  merkleSyncMs: 10,
  followMs: 30,
  reindexMs: 60,
};

/** Nearer to what transcripts of real clusters show: a role change costs about two seconds. */
export const REALISTIC_TIMING: Timing = {
  restartMs: 2_000,
  electionMs: 1_500,
  standbyModeLagMs: 3_000,
  secondaryTokenRefusedMs: 2_000,
  streamDelayMs: 25,
  heartbeatMs: 1_000,
  canaryMs: 5_000,
  merkleDiffMs: 400,
  merkleSyncMs: 600,
  followMs: 2_000,
  reindexMs: 5_000,
};
