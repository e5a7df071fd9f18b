import { parse } from 'yaml';
import { z } from 'zod';

const chance = z.number().min(0);

/**
 * What public sources leave open about the real service, and what tests look at both ways. The values are the harsh
 * reading: the one that a runbook has to survive. What is always read harshly stands in docs/simulator.md.
 */
export const READINGS = z.strictObject({
  /** Promote answers 503 for as long as it knows to lack writes, even where the source will never send them. */
  promoteRefusedBehindDeadSource: z.boolean().default(true),
  /** Performance secondaries move to the promoted DR secondary of their primary on their own. */
  performanceSecondariesFollow: z.boolean().default(true),
  /** Chance that a role change moves leadership to another node. */
  leaderChangeChance: chance.default(0.3),
  /** Chance, per answer and field, that an optional status field is missing. */
  optionalFieldMissingChance: chance.default(0.2),
});
export type Readings = Readonly<z.output<typeof READINGS>>;

/**
 * Durations in milliseconds: `quick` keeps tests fast, `realistic` is nearer to what transcripts of real clusters show,
 * where a role change costs about two seconds.
 */
const TIMING = {
  /** After a role change the cluster answers 500, 503 or not at all for this long. */
  restartMs: { quick: 50, realistic: 2_000 },
  /** Without an active node, after a leader was lost, for this long. */
  electionMs: { quick: 30, realistic: 1_500 },
  /** After a role change standby nodes report `unknown` or their old modes for this long. */
  standbyModeLagMs: { quick: 30, realistic: 3_000 },
  /** After a promotion `secondary-token` answers 412 or 500 for this long, counted from the end of the restart. */
  secondaryTokenRefusedMs: { quick: 40, realistic: 2_000 },
  /** A write is on the secondary after this long. */
  streamDelayMs: { quick: 5, realistic: 25 },
  /** Interval in which a secondary hears how far its primary is. */
  heartbeatMs: { quick: 100, realistic: 1_000 },
  /** Interval of the primary's own canary writes, which happen without any client; 0 for none. */
  canaryMs: { quick: 5_000, realistic: 5_000 },
  /** Length of `merkle-diff` and of `merkle-sync` each, when a secondary attaches. */
  merkleDiffMs: { quick: 10, realistic: 400 },
  merkleSyncMs: { quick: 10, realistic: 600 },
  /** Until a performance secondary looks for another address of its set. */
  followMs: { quick: 30, realistic: 2_000 },
  /** Length of a reindex. */
  reindexMs: { quick: 60, realistic: 5_000 },
};
type TimingName = keyof typeof TIMING;
export type Timing = Readonly<Record<TimingName, number>>;
const TIMING_NAMES = Object.keys(TIMING) as TimingName[];

export function timingOf(pace: 'quick' | 'realistic'): Timing {
  return Object.fromEntries(TIMING_NAMES.map((name) => [name, TIMING[name][pace]])) as Timing;
}

const milliseconds = z.number().min(0);

const CLUSTER = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9-]*$/),
  /** Number of nodes. */
  nodes: z.number().int().min(1).max(9).optional(),
  version: z.string().optional(),
  seal: z
    .strictObject({
      shares: z.number().int().min(2).optional(),
      threshold: z.number().int().min(2).optional(),
      /** Anything but `shamir` unseals itself when the process starts; its key shares are recovery key shares. */
      type: z.enum(['shamir', 'awskms', 'transit']).optional(),
    })
    .optional(),
  /** Fixed ports of the API listeners, one per node; 0 or absent for any. */
  ports: z.array(z.number().int().min(0).max(65_534)).optional(),
  /** Index of the write-ahead log before the first write; uint64, as text above 2^53. */
  firstWal: z.union([z.number().int().min(0), z.string().regex(/^\d+$/)]).optional(),
});

const FILTER = z.strictObject({ mode: z.enum(['allow', 'deny']), paths: z.array(z.string()) });

const TOPOLOGY = z.strictObject({
  seed: z.number().int().optional(),
  clusters: z.array(CLUSTER).min(1),
  /** DR sets, already streaming at start. */
  dr: z.array(z.strictObject({ primary: z.string(), secondaries: z.array(z.string()) })).optional(),
  performance: z
    .strictObject({
      primary: z.string(),
      secondaries: z.array(z.strictObject({ name: z.string(), filter: FILTER.optional() })),
    })
    .optional(),
  /** Added to every HTTP answer. */
  latencyMs: milliseconds.optional(),
  /** `quick` (default) or `realistic` values to start from. */
  pace: z.enum(['quick', 'realistic']).optional(),
  timing: z.partialRecord(z.enum(TIMING_NAMES), milliseconds).optional(),
  readings: READINGS.optional(),
  /** PEM files of certificate and key; without them plain HTTP. */
  tls: z.strictObject({ certificateFile: z.string(), keyFile: z.string() }).optional(),
  /**
   * Secret and auth mounts of every cluster that starts on its own; default `kv/` and `secret/`. A path alone is a
   * key-value engine of version 2, or below `auth/` an auth method.
   */
  mounts: z.array(z.union([z.string(), z.strictObject({ path: z.string(), version: z.literal([1, 2]) })])).optional(),
});

/** Clusters to start and how they replicate among themselves. */
export type Topology = z.input<typeof TOPOLOGY>;

/** A topology from the text of a YAML file. @throws Error naming every wrong field */
export function parseTopology(text: string): Topology {
  const parsed = TOPOLOGY.safeParse(parse(text));
  if (!parsed.success) {
    const mistakes = parsed.error.issues.map(({ path, message }) => `${path.join('.') || '(top)'}: ${message}`);
    throw new Error(`topology: ${mistakes.join('; ')}`);
  }
  return parsed.data;
}
