import { z } from 'zod';
import type { DeepReadonly } from './run-facts';

/** A WAL index: uint64 in decimal digits. Never compared across a promotion or between sets. */
export type WalIndex = string;

const text = z.string().optional();

/** What one node said of itself. */
const node = z.object({
  address: z.string(),
  reachable: z.boolean(),
  /** Redacted error where the node did not answer. */
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
  /** Age of the last heartbeat by the clock of the node that answered, ms; absent where it is not known. */
  heartbeatAgeMs: z.number().optional(),
  /** A heartbeat was told, but not when by any clock that can be trusted. */
  heartbeatUnreadable: z.boolean().optional(),
  canaryAgeMs: z.number().optional(),
});

/** What status said of one replication kind. */
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
  version: text,
  /** `sys/seal-status`; with auto-unseal threshold and shares are those of the recovery keys. */
  seal: z
    .object({ type: text, recovery: z.boolean(), threshold: z.number().optional(), shares: z.number().optional() })
    .optional(),
  dr: replication.optional(),
  performance: replication.optional(),
  /** The single slot for generation attempts, where it could be read. */
  attempt: z.object({ started: z.boolean(), fingerprint: text, progress: z.number(), required: z.number() }).optional(),
});

export type NodeObservation = DeepReadonly<z.infer<typeof node>>;
export type PeerObservation = DeepReadonly<z.infer<typeof peer>>;
export type ReplicationObservation = DeepReadonly<z.infer<typeof replication>>;
export type ClusterObservation = DeepReadonly<z.infer<typeof clusterObservation>>;
