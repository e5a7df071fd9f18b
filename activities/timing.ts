/** Timeout of one changing HTTP request, ms. Shorter than the time before Temporal begins another attempt. */
export const CHANGE_TIMEOUT_MS = 8_000;

/** Fixed waiting times, ms. They are not configurable: only tests set shorter ones. */
export const TIMING = {
  /** How long a changing request can be in flight without an answer. */
  underWayMs: CHANGE_TIMEOUT_MS,
  /** Longer than a promotion without an answer can be in flight. */
  settleMs: CHANGE_TIMEOUT_MS + 1_000,
  /** How long standbys may lag behind their active node right after a role change. */
  lagMs: 5_000,
  /** If loss is accepted: how long the candidate may take to receive the last writes, so that loss can be ruled out. */
  momentMs: 1_000,
  /** How long a newly promoted cluster may refuse valid tokens. */
  refusedMs: 2_000,
  /** How long a quota may take to reach every node. */
  quotaMs: 10_000,
  /**
   * How long standbys of a cluster that joined a set may take to seal themselves: they look every 10 s, and may restart
   * first.
   */
  sealingMs: 25_000,
  /** Pause between two reads while a state is awaited. */
  pollMs: 300,
  /** Pause between two looks for a lost primary, while a failover waits for people. */
  watchMs: 20_000,
  /** How long a primary that is back must stay before the failover that waited for people ends by itself. */
  steadyMs: 60_000,
  /** How often a worker looks whether `walSampler` still records samples. */
  samplerWatchMs: 60_000,
  /** How long the last share of a token generation waits for its note in the record. */
  noteMs: 5_000,
  /** Pause between refusals of a token that count as proof together: a restarting node also refuses valid tokens. */
  refusalMs: 500,
};

export type Timing = Readonly<typeof TIMING>;
