import type { ClusterObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { heartbeatAge, isAlive } from '../observe';
import { kindName } from '../joining/onboarding-read';
import { check } from './check';
import { roleText } from './roles';

export function streams(observation: ClusterObservation, kind: ReplicationKind): Check {
  const { cluster, [kind]: seen } = observation;
  return check(
    `${kindName(kind)} secondary, streaming`,
    cluster,
    seen?.mode === 'secondary' && seen.state === 'stream-wals',
    roleText(observation, kind),
    'secondary, stream-wals',
    `Wait until ${cluster} streams; run merkleCheck where it never gets there.`,
  );
}

/** `stream-wals` is still told with a dead primary: only heartbeats prove life. */
export function aliveByHeartbeat(observation: ClusterObservation, kind: ReplicationKind, limitMs: number): Check {
  const { cluster, [kind]: seen } = observation;
  return check(
    'connection alive by heartbeat',
    cluster,
    isAlive(seen, limitMs),
    heartbeatText(seen),
    `connected, heartbeat at most ${limitMs / 1000} s old`,
    `Find out why ${cluster} hears nothing from its primary (cluster port, certificates, load balancer).`,
  );
}

export function heartbeatText(seen: ReplicationObservation | undefined): string {
  if (seen === undefined) return 'not readable';
  if (seen.peers.length === 0) return 'no peer told';
  const age = heartbeatAge(seen);
  const unreadable = seen.peers.some((peer) => peer.heartbeatUnreadable);
  const told =
    age === undefined ? (unreadable ? 'of no readable time' : 'not told') : `${(age / 1000).toFixed(1)} s old`;
  return `${isConnected(seen) ? 'connected' : 'disconnected'}, heartbeat ${told}`;
}

export function isConnected(seen: ReplicationObservation | undefined): boolean {
  return seen?.peers.some((peer) => peer.connected) === true;
}

/**
 * How far a secondary is behind. An index of 0 is no lag: nothing was streamed since the trees were compared, so that
 * the trees decide.
 *
 * @param sameRoot - both were seen with the same Merkle root
 */
export function lag(
  kind: ReplicationKind,
  primary: ClusterObservation,
  secondary: ClusterObservation,
  limit: number,
  sameRoot = primary[kind]?.merkleRoot !== undefined && primary[kind].merkleRoot === secondary[kind]?.merkleRoot,
): Check {
  const { cluster } = secondary;
  const [sent, received] = [primary[kind]?.lastWal, secondary[kind]?.lastRemoteWal];
  const needed = `at most ${limit} WAL entries, or equal Merkle roots`;
  if (sent === undefined || received === undefined || received === '0') {
    const indexes = `last WAL ${sent ?? 'not told'}, last remote WAL ${received ?? 'not told'}`;
    const roots = sameRoot ? 'equal Merkle roots: nothing is missing' : 'no equal Merkle roots';
    const next = `Write something on ${primary.cluster}, then try again.`;
    return check('replication lag', cluster, sameRoot, `${indexes}; ${roots}`, needed, next);
  }
  const entries = BigInt(sent) - BigInt(received);
  return check(
    'replication lag',
    cluster,
    entries <= BigInt(limit),
    `${entries < 0n ? 0n : entries} WAL entries`,
    needed,
    `Wait until ${cluster} has caught up; where it never does, look at the write load and the link.`,
  );
}

export function noReindex(observation: ClusterObservation, kind: ReplicationKind): Check {
  const { cluster, [kind]: seen } = observation;
  return check(
    'no reindex under way',
    cluster,
    seen?.reindexInProgress !== true,
    seen?.reindexInProgress ? 'in progress' : 'none',
    'none',
    `Wait until the reindex of ${cluster} has ended; never stop a node meanwhile.`,
  );
}

export function soundTree(observation: ClusterObservation, kind: ReplicationKind): Check {
  const { cluster, [kind]: seen } = observation;
  return check(
    'Merkle tree not corrupted',
    cluster,
    seen?.corruptedMerkleTree !== true,
    seen?.corruptedMerkleTree ? 'corrupted' : 'not told to be corrupted',
    'not corrupted',
    'Run merkleCheck on a DR secondary, then drReindex, never the primary first; or choose another secondary.',
  );
}

export function healthyTree(observation: ClusterObservation, kind: ReplicationKind): Check[] {
  return [noReindex(observation, kind), soundTree(observation, kind)];
}
