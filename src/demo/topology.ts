import type { Topology } from '../simulator';

/** Mounts of the clusters; `us-customers` must not leave its region. */
const MOUNTS = ['kv/', 'secret/', 'us-customers/'];

/** Key shares of the main set, and how many of them the service requires. */
const SEAL = { shares: 5, threshold: 3 } as const;

/**
 * The simulated deployment `payments`: `east` primary with the DR secondaries `west` and `north`; `europe`, a
 * performance secondary of `east` with a paths filter, and `europe-dr`, its DR secondary; `spare` and `asia` without replication.
 */
export function paymentsTopology(
  options: { readonly seed?: number; readonly pace?: 'quick' | 'realistic' } = {},
): Topology {
  return {
    seed: options.seed ?? 7,
    pace: options.pace ?? 'realistic',
    mounts: MOUNTS,
    clusters: [
      { name: 'east', nodes: 3, seal: SEAL },
      { name: 'west', nodes: 3, seal: SEAL },
      { name: 'north', nodes: 1, seal: SEAL },
      { name: 'europe', nodes: 1, seal: SEAL },
      { name: 'europe-dr', nodes: 1, seal: SEAL },
      { name: 'spare', nodes: 3, seal: SEAL },
      { name: 'asia', nodes: 1, seal: SEAL },
    ],
    performance: {
      primary: 'east',
      secondaries: [{ name: 'europe', filter: { mode: 'deny', paths: ['us-customers/'] } }],
    },
    dr: [
      { primary: 'east', secondaries: ['west', 'north'] },
      { primary: 'europe', secondaries: ['europe-dr'] },
    ],
  };
}
