/**
 * What public sources leave open about the real service, and what tests look at both ways. The defaults are the harsh
 * reading: the one that a runbook has to survive. What is always read harshly stands in docs/simulator.md.
 */
export interface Readings {
  /** A demoted primary still sends what its secondaries lack. */
  shipsAfterDemote: boolean;
  /** Promote answers 503 for as long as it knows to lack writes, even where the source will never send them. */
  promoteRefusedBehindDeadSource: boolean;
  /** Performance secondaries move to the promoted DR secondary of their primary on their own. */
  performanceSecondariesFollow: boolean;
  /** Chance that a role change moves leadership to another node. */
  leaderChangeChance: number;
  /** Chance, per answer and field, that an optional status field is missing. */
  optionalFieldMissingChance: number;
}

export const HARSH_READINGS: Readings = {
  shipsAfterDemote: false,
  promoteRefusedBehindDeadSource: true,
  performanceSecondariesFollow: true,
  leaderChangeChance: 0.3,
  optionalFieldMissingChance: 0.2,
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
