import { parse } from 'yaml';
import { z } from 'zod';

const chance = z.number().min(0);

/**
 * Behavior of the real service that public sources leave open, and that tests examine both ways. The defaults are the
 * harsh reading: the one that a runbook has to survive. docs/simulator.md lists what is always read harshly.
 */
export const READINGS = z.strictObject({
  /** A secondary that knows it lacks writes answers promote with 503, even if its source will never send them. */
  promoteRefusedBehindDeadSource: z.boolean().default(true),
  /** Performance secondaries move by themselves to the promoted DR secondary of their primary. */
  performanceSecondariesFollow: z.boolean().default(true),
  /** Chance that a role change moves leadership to another node. */
  leaderChangeChance: chance.default(0.3),
  /** Chance, per answer and field, that an optional status field is absent. */
  optionalFieldMissingChance: chance.default(0.2),
});
export type Readings = Readonly<z.output<typeof READINGS>>;

/**
 * Durations in milliseconds. `quick` keeps tests fast. `realistic` is close to transcripts of real clusters, where a
 * role change takes about two seconds.
 */
const TIMING = {
  /** How long the cluster answers 500, 503, or not at all after a role change. */
  restartMs: { quick: 50, realistic: 2_000 },
  /** How long no node is active after the loss of a leader. */
  electionMs: { quick: 30, realistic: 1_500 },
  /** How long, after a restart, standby nodes report `unknown` or their old modes. */
  standbyModeLagMs: { quick: 30, realistic: 3_000 },
  /**
   * After `secondary/enable`, each standby seals itself within this time, at a random moment: the service looks every
   * 10 s. The active node stays. 0: at once.
   */
  standbySealMs: { quick: 100, realistic: 10_000 },
  /** How long `secondary-token` answers 412 or 500 after a promotion, counted from the end of the restart. */
  secondaryTokenRefusedMs: { quick: 40, realistic: 2_000 },
  /** Delay until a write is on the secondary. */
  streamDelayMs: { quick: 5, realistic: 25 },
  /** Interval at which a secondary learns the WAL index of its primary. */
  heartbeatMs: { quick: 100, realistic: 1_000 },
  /** Interval of the canary writes that the primary makes without clients; 0 for none. */
  canaryMs: { quick: 5_000, realistic: 5_000 },
  /** Durations of `merkle-diff` and `merkle-sync` when a secondary connects. */
  merkleDiffMs: { quick: 10, realistic: 400 },
  merkleSyncMs: { quick: 10, realistic: 600 },
  /** Time until a disconnected performance secondary tries other addresses of its set. */
  followMs: { quick: 30, realistic: 2_000 },
  /** Duration of a reindex. */
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
      /** Any type except `shamir` auto-unseals when the process starts; its key shares are recovery key shares. */
      type: z.enum(['shamir', 'awskms', 'transit']).optional(),
    })
    .optional(),
  /** Standbys are performance standbys: `sys/health` answers 473. */
  performanceStandbys: z.boolean().optional(),
  /** Fixed ports of the API listeners, one per node; 0 or absent: any free port. */
  ports: z.array(z.number().int().min(0).max(65_534)).optional(),
  /**
   * What the nodes advertise and name as the leader's address (`api_addr`): one address for all, such as a load balancer,
   * or one for each node. Absent: the address at which each listens.
   */
  apiAddr: z.union([z.string(), z.array(z.string())]).optional(),
  /** `redact_addresses` of the listeners: without a token, `sys/leader` names no address. */
  redactAddresses: z.boolean().optional(),
  /** `redact_version` of the listeners: without a token, `sys/health` and `sys/seal-status` name no version. */
  redactVersion: z.boolean().optional(),
  /** WAL index before the first write; uint64, as a string above 2^53. */
  firstWal: z.union([z.number().int().min(0), z.string().regex(/^\d+$/)]).optional(),
});

const FILTER = z.strictObject({ mode: z.enum(['allow', 'deny']), paths: z.array(z.string()) });

const TOPOLOGY = z.strictObject({
  seed: z.number().int().optional(),
  clusters: z.array(CLUSTER).min(1),
  /** DR sets; they are streaming when the service starts. */
  dr: z.array(z.strictObject({ primary: z.string(), secondaries: z.array(z.string()) })).optional(),
  performance: z
    .strictObject({
      primary: z.string(),
      secondaries: z.array(z.strictObject({ name: z.string(), filter: FILTER.optional() })),
    })
    .optional(),
  /** Delay of every HTTP answer. */
  latencyMs: milliseconds.optional(),
  /** `quick` (default) or `realistic` default values for `timing`. */
  pace: z.enum(['quick', 'realistic']).optional(),
  timing: z.partialRecord(z.enum(TIMING_NAMES), milliseconds).optional(),
  readings: READINGS.optional(),
  /** PEM files of certificate and key; without them the service uses plain HTTP. */
  tls: z.strictObject({ certificateFile: z.string(), keyFile: z.string() }).optional(),
  /**
   * Secret and auth mounts of every cluster that does not start as a secondary; default `kv/` and `secret/`. A path
   * alone is a key-value engine of version 2, or an auth method if it is below `auth/`.
   */
  mounts: z.array(z.union([z.string(), z.strictObject({ path: z.string(), version: z.literal([1, 2]) })])).optional(),
});

/** The clusters to start and the replication between them. */
export type Topology = z.input<typeof TOPOLOGY>;

/** Parses the text of a YAML topology file. @throws Error that lists every wrong field */
export function parseTopology(text: string): Topology {
  const parsed = TOPOLOGY.safeParse(parse(text));
  if (!parsed.success) {
    const mistakes = parsed.error.issues.map(({ path, message }) => `${path.join('.') || '(top)'}: ${message}`);
    throw new Error(`topology: ${mistakes.join('; ')}`);
  }
  return parsed.data;
}
