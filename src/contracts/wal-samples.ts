import { z } from 'zod';

/*
 * What `walSampler` records. Times are epoch milliseconds of the worker, ages milliseconds by the clock of the node that
 * answered; WAL indexes are uint64 in decimal digits, never compared across a promotion or between sets.
 */

const walIndex = z.string().regex(/^\d{1,20}$/);

/** What one cluster said of one kind of replication (interface 4.1 and 4.2: `status`). */
export const sampledReplication = z.object({
  mode: z.string(),
  state: z.string().optional(),
  /** ID of the replication set. */
  setId: z.string().optional(),
  /** `last_dr_wal` or `last_performance_wal` of a primary. */
  lastWal: walIndex.optional(),
  /** `last_remote_wal` of a secondary; `0` means that nothing was streamed yet, which is no lag. */
  lastRemoteWal: walIndex.optional(),
  /** Whether a peer is connected; absent where no peer is told. */
  connected: z.boolean().optional(),
  /** The freshest heartbeat of all peers. */
  heartbeatAgeMs: z.number().optional(),
  /** The youngest canary of the primary that arrived. */
  canaryAgeMs: z.number().optional(),
});
export type SampledReplication = z.infer<typeof sampledReplication>;

/** What was read of one cluster at one time. A cluster that does not answer is a sample too. */
export const sampledCluster = z.object({
  cluster: z.string(),
  answered: z.boolean(),
  /** Code of the error where it did not answer. */
  error: z.string().optional(),
  /** The cluster's clock minus the worker's, exact to a second; absent where the cluster does not tell its time. */
  clockSkewMs: z.number().optional(),
  /** Absent where the kind is disabled or not supported. */
  dr: sampledReplication.optional(),
  performance: sampledReplication.optional(),
});
export type SampledCluster = z.infer<typeof sampledCluster>;

export const walSample = z.object({ at: z.number(), clusters: z.array(sampledCluster) });
export type WalSample = z.infer<typeof walSample>;

/** The result of one run of `walSampler`. */
export const walSampling = z.object({
  deployment: z.string(),
  from: z.number(),
  to: z.number(),
  /** Oldest first. */
  samples: z.array(walSample),
  /** The mark of the worker that took them: what has none is not believed. */
  attested: z.string().optional(),
});
export type WalSampling = z.infer<typeof walSampling>;

/** What the Workflow IDs of the runs of a deployment begin with: its results are looked for under them. */
export function walSamplerIdPrefix(deployment: string): string {
  return `walSampler:${deployment}:`;
}
