import { z } from 'zod';
import type { DeepReadonly } from './run-facts';

/** A WAL index: uint64 in decimal digits. Never compared across a promotion or between sets. */
export type WalIndex = string;

const text = z.string().optional();

/** What one node reported about itself. */
const node = z.object({
  address: z.string(),
  reachable: z.boolean(),
  /** Redacted error if the node did not answer. */
  error: text,
  initialized: z.boolean().optional(),
  sealed: z.boolean().optional(),
  standby: z.boolean().optional(),
  version: text,
  healthStatus: z.number().optional(),
});

/** A peer as a status answer lists it. */
const peer = z.object({
  id: text,
  connected: z.boolean(),
  clusterAddress: text,
  /** Age of the last heartbeat by the clock of the node that answered, in ms; absent if it is not known. */
  heartbeatAgeMs: z.number().optional(),
  /** A heartbeat was reported, but not when by any clock that can be trusted. */
  heartbeatUnreadable: z.boolean().optional(),
  canaryAgeMs: z.number().optional(),
});

/** What the status reported about one replication kind. */
const replication = z.object({
  mode: z.string(),
  state: text,
  connectionState: text,
  /** ID of the replication set. */
  setId: text,
  secondaryId: text,
  primaryClusterAddress: text,
  knownPrimaryClusterAddresses: z.array(z.string()).optional(),
  knownSecondaries: z.array(z.string()).optional(),
  /** `last_dr_wal` or `last_performance_wal` of a primary. */
  lastWal: text,
  /** `last_remote_wal` of a secondary; `0` means nothing streamed yet. */
  lastRemoteWal: text,
  merkleRoot: text,
  corruptedMerkleTree: z.boolean().optional(),
  reindexInProgress: z.boolean().optional(),
  peers: z.array(peer),
});

/** What was read of one cluster at one time. */
export const clusterObservation = z.object({
  cluster: z.string(),
  /** Epoch milliseconds. */
  at: z.number(),
  reachable: z.boolean(),
  error: text,
  nodes: z.array(node),
  activeNode: text,
  /** `sys/health` cluster_id. */
  clusterId: text,
  /** The cluster ID that the inventory pins, if it differs. */
  pinnedId: text,
  version: text,
  /** `sys/seal-status`. With auto-unseal, threshold and shares are those of the recovery keys. */
  seal: z
    .object({
      ...{ type: text, recovery: z.boolean(), threshold: z.number().optional(), shares: z.number().optional() },
      /** Present during a seal migration. */
      migration: z.literal(true).optional(),
    })
    .optional(),
  dr: replication.optional(),
  performance: replication.optional(),
  /** The single slot for generation attempts, if it could be read. */
  attempt: z.object({ started: z.boolean(), fingerprint: text, progress: z.number(), required: z.number() }).optional(),
});

export type NodeObservation = DeepReadonly<z.infer<typeof node>>;
export type PeerObservation = DeepReadonly<z.infer<typeof peer>>;
export type ReplicationObservation = DeepReadonly<z.infer<typeof replication>>;
export type ClusterObservation = DeepReadonly<z.infer<typeof clusterObservation>>;

/*
 * What `walSampler` records. Times are epoch milliseconds of the worker, ages milliseconds by the clock of the node that
 * answered; WAL indexes are uint64 in decimal digits, never compared across a promotion or between sets.
 */

const walIndex = z.string().regex(/^\d{1,20}$/);

/** What one cluster reported about one kind of replication (interface 4.1 and 4.2: `status`). */
const sampledReplication = replication.pick({ mode: true, state: true, setId: true }).extend({
  lastWal: walIndex.optional(),
  lastRemoteWal: walIndex.optional(),
  /** Whether a peer is connected; absent if no peer is listed. */
  connected: z.boolean().optional(),
  /** The freshest heartbeat of all peers. */
  heartbeatAgeMs: z.number().optional(),
  /** The youngest canary of the primary that arrived. */
  canaryAgeMs: z.number().optional(),
});
export type SampledReplication = z.infer<typeof sampledReplication>;

/** What was read of one cluster at one time. A cluster that does not answer is a sample too. */
const sampledCluster = z.object({
  cluster: z.string(),
  answered: z.boolean(),
  /** Code of the error if it did not answer. */
  error: z.string().optional(),
  /** Absent if the kind is disabled or not supported. */
  dr: sampledReplication.optional(),
  performance: sampledReplication.optional(),
});
export type SampledCluster = z.infer<typeof sampledCluster>;

const walSample = z.object({ at: z.number(), clusters: z.array(sampledCluster) });
export type WalSample = z.infer<typeof walSample>;

/** The result of one run of `walSampler`. */
export const walSampling = z.object({
  deployment: z.string(),
  from: z.number(),
  to: z.number(),
  /** Oldest first. */
  samples: z.array(walSample),
  /** The mark of the worker that took them. Samples without one are not trusted. */
  attested: z.string().optional(),
});
export type WalSampling = z.infer<typeof walSampling>;

/** Prefix of the Workflow IDs of the runs of a deployment, under which their results are found. */
export function walSamplerIdPrefix(deployment: string): string {
  return `walSampler:${deployment}:`;
}
