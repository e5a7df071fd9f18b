import { z } from 'zod';
import type { Readings, Timing } from './readings';

const CLUSTER = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9-]*$/),
  /** Number of nodes. */
  nodes: z.number().int().min(1).max(9).optional(),
  version: z.string().optional(),
  seal: z.strictObject({ shares: z.number().int().min(1), threshold: z.number().int().min(1) }).optional(),
  /** Fixed ports of the API listeners, one per node; 0 or absent for any. */
  ports: z.array(z.number().int().min(0).max(65_534)).optional(),
  /** Index of the write-ahead log before the first write; uint64, as text above 2^53. */
  firstWal: z.union([z.number().int().min(0), z.string().regex(/^\d+$/)]).optional(),
});

const FILTER = z.strictObject({ mode: z.enum(['allow', 'deny']), paths: z.array(z.string()) });

/** Topology file of the simulated service. Names of readings and timing values are checked against the constants. */
export const TOPOLOGY = z.strictObject({
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
  latencyMs: z.number().min(0).optional(),
  /** `quick` (default) or `realistic` values to start from. */
  pace: z.enum(['quick', 'realistic']).optional(),
  timing: z.record(z.string(), z.number().min(0)).optional(),
  readings: z.record(z.string(), z.union([z.boolean(), z.number()])).optional(),
  /** PEM files of certificate and key; without them plain HTTP. */
  tls: z.strictObject({ certificateFile: z.string(), keyFile: z.string() }).optional(),
  /** Secret and auth mounts of every cluster that starts on its own; default `kv/` and `secret/`. */
  mounts: z.array(z.string()).optional(),
});

export type TopologyCluster = z.infer<typeof CLUSTER>;

/** Clusters to start and how they replicate among themselves. */
export type Topology = Omit<z.infer<typeof TOPOLOGY>, 'timing' | 'readings'> & {
  timing?: Partial<Timing>;
  readings?: Partial<Readings>;
};

/** Throws with the names that are missing or used twice. */
export function checkTopology(topology: Topology): void {
  const names = topology.clusters.map(({ name }) => name);
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  const used = [
    ...(topology.dr ?? []).flatMap(({ primary, secondaries }) => [primary, ...secondaries]),
    ...(topology.performance === undefined
      ? []
      : [topology.performance.primary, ...topology.performance.secondaries.map(({ name }) => name)]),
  ];
  const unknown = used.filter((name) => !names.includes(name));
  if (twice.length > 0 || unknown.length > 0)
    throw new Error(
      `topology: ${twice
        .map((name) => `cluster ${name} twice`)
        .concat(unknown.map((name) => `unknown cluster ${name}`))
        .join(', ')}`,
    );
}
