import type { BetweenClusters, OfKind } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { isRunbookError } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { readPerformance } from '../filters/paths-filters';
import { describeReplication, heartbeatAge, isAlive, readStatus } from '../observe';
import { awaitState } from '../read-act-confirm';
import { readKind } from './onboarding-read';

/** A performance secondary finds the new primary through addresses that it learned before; minutes are not needed. */
const FOLLOW_BUDGET_MS = 60_000;

/** Addresses by which a secondary may know this primary: what the inventory advertises, and the active node's own. */
export async function primaryAddresses(source: ClusterAccess, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const { leaderClusterAddress } = await source.client.sys.leader({
    signal,
    node: await source.client.activeNode({ signal }),
  });
  const { advertisedClusterAddress } = source.entry;
  return new Set(
    [leaderClusterAddress, advertisedClusterAddress === 'node-address' ? undefined : advertisedClusterAddress].filter(
      (address) => address !== undefined,
    ),
  );
}

/** Done-criterion of update-primary (facts 2.11): the new primary is among the known ones. */
export function follows(replication: ReplicationObservation, addresses: ReadonlySet<string>): boolean {
  const known = [
    ...(replication.knownPrimaryClusterAddresses ?? []),
    ...(replication.primaryClusterAddress ? [replication.primaryClusterAddress] : []),
  ];
  return replication.mode === 'secondary' && known.some((address) => addresses.has(address));
}

/** Knows the primary and is connected to it: a primary that was demoted in between has forgotten its secondaries. */
export function isAttached(
  replication: ReplicationObservation,
  addresses: ReadonlySet<string>,
  heartbeatAgeMs: number,
): boolean {
  return follows(replication, addresses) && isAlive(replication, heartbeatAgeMs);
}

/** Waits until a DR secondary streams from its primary, and has what that had written when this began. */
export async function awaitDrStreaming({ deployment, primary, secondary }: BetweenClusters) {
  const execution = currentExecution();
  const { clusters } = execution;
  const { signal } = execution;
  const source = clusters.of(deployment, primary);
  const target = clusters.of(deployment, secondary);
  const { limits } = clusters.deployment(deployment);
  let needed: bigint | undefined;
  const state = await awaitState(execution, {
    read: async () => {
      const [dr, from] = await Promise.all([readKind(target, 'dr', signal), readStatus(source, 'dr', signal)]);
      needed ??= from.lastWal === undefined ? undefined : BigInt(from.lastWal);
      return { dr, from };
    },
    until: ({ dr, from }) => {
      const streams = dr.mode === 'secondary' && dr.state === 'stream-wals' && isAlive(dr, limits.heartbeatAgeMs);
      // 0 means that nothing was streamed yet, which equal roots can prove to be enough.
      const caughtUp =
        (needed !== undefined && BigInt(dr.lastRemoteWal ?? '0') >= needed) ||
        (dr.merkleRoot !== undefined && dr.merkleRoot === from.merkleRoot);
      return streams && caughtUp;
    },
    budgetMs: limits.streamingMs,
    describe: ({ dr }) => describeReplication(dr),
    needed: `${secondary} streams from ${primary}, connected and caught up`,
    cluster: secondary,
  });
  const age = heartbeatAge(state.dr);
  return {
    state: state.dr.state ?? '',
    connectedTo: state.dr.peers.find((peer) => peer.connected)?.clusterAddress,
    at: Date.now(),
    observed: `${describeReplication(state.dr)}, heartbeat ${age === undefined ? 'age not told' : `${Math.round(age / 1000)} s old`}`,
  };
}

/** Whether performance secondaries follow the new primary: one answer for each. */
export async function awaitPerformanceSecondaries(input: {
  readonly deployment: string;
  readonly primary: string;
  readonly secondaries: readonly string[];
}) {
  const { deployment, primary, secondaries } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const { signal } = execution;
  const { limits } = clusters.deployment(deployment);
  const addresses = await primaryAddresses(clusters.of(deployment, primary), signal);
  const following = await Promise.all(
    secondaries.map(async (cluster) => {
      const access = clusters.of(deployment, cluster);
      let id: string | undefined;
      try {
        const seen = await awaitState(execution, {
          read: async () => {
            const state = await readPerformance(access, signal);
            id = state.secondaryId ?? id;
            return state;
          },
          until: (state) =>
            follows(state, addresses) && state.state === 'stream-wals' && isAlive(state, limits.heartbeatAgeMs),
          budgetMs: Math.min(FOLLOW_BUDGET_MS, limits.streamingMs),
          describe: describeReplication,
          needed: `${cluster} follows ${primary}`,
          cluster,
          pollMs: 1_000,
        });
        return { cluster, follows: true, observed: describeReplication(seen), id };
      } catch (error) {
        if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
        return { cluster, follows: false, observed: error.observed ?? 'not readable', id };
      }
    }),
  );
  return { following };
}

/** Roots are read for this long at most: the activity must end within its time. */
const ROOTS_BUDGET_MS = 30_000;

/**
 * Compares the Merkle roots of both sides. `equal` proves that both hold the same; anything else proves nothing while the
 * primary takes writes.
 *
 * @param input.filtered - the secondary has a paths filter: its root differs by design
 */
export async function compareMerkleRoots(input: BetweenClusters & OfKind & { readonly filtered: boolean }) {
  const { deployment, primary, secondary, kind, filtered } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  if (filtered) {
    return {
      verdict: 'not-comparable' as const,
      observed: `${secondary} has a paths filter: its root differs from that of ${primary} by design`,
    };
  }
  const root = async (cluster: string) => (await readStatus(clusters.of(deployment, cluster), kind, signal)).merkleRoot;
  let last: readonly (string | undefined)[] = [];
  try {
    await awaitState(execution, {
      read: async () => {
        last = await Promise.all([root(primary), root(secondary)]);
        return last;
      },
      until: ([above, below]) => above !== undefined && above === below,
      budgetMs: ROOTS_BUDGET_MS,
      describe: ([above, below]) => `roots ${above ?? 'not told'} and ${below ?? 'not told'}`,
      needed: `equal Merkle roots of ${primary} and ${secondary}`,
    });
    return { verdict: 'equal' as const, observed: `the Merkle roots of ${primary} and ${secondary} are equal` };
  } catch (error) {
    if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
    return {
      verdict: last.length === 2 && !last.includes(undefined) ? ('not-seen-equal' as const) : ('not-readable' as const),
      observed: error.observed ?? 'not readable',
    };
  }
}
