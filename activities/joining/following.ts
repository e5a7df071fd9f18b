import type { ReplicationObservation } from '../../src/contracts/observations';
import type { ClusterAccess } from '../clusters';
import { isAlive } from '../observe';

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
