import type { DrStatus, Health, PerformanceStatus, ReplicationPeer, ServiceClient } from '../../src/client';
import type {
  ClusterObservation,
  NodeObservation,
  PeerObservation,
  ReplicationObservation,
} from '../../src/contracts/observations';
import { isRunbookError } from '../../src/errors';
import { redact } from '../../src/secrets';
import type { ClusterAccess } from './clusters';
import { ceremonyToken } from './clusters';

const NODE_TIMEOUT_MS = 3_000;

/** Reads one cluster: health of every node, the active node, both replication statuses, the attempt slot of a DR secondary. */
export async function observeCluster(access: ClusterAccess, signal: AbortSignal): Promise<ClusterObservation> {
  const { entry, client } = access;
  const nodes = await Promise.all(entry.addresses.map((address) => observeNode(client, address, signal)));
  const health = nodes.flatMap((node) => (node.health ? [node.health] : []));
  const base = {
    cluster: entry.name,
    at: Date.now(),
    nodes: nodes.map((node) => node.observation),
    clusterId: health.find((each) => each.clusterId)?.clusterId,
    version: health.find((each) => each.version)?.version,
  };
  try {
    client.forgetActiveNode();
    const activeNode = await client.activeNode({ signal, timeoutMs: NODE_TIMEOUT_MS });
    const status = await client.sys.replicationStatus({ signal, timeoutMs: NODE_TIMEOUT_MS, node: activeNode });
    const dr = observeReplication(status.dr);
    return {
      ...base,
      reachable: true,
      activeNode,
      dr,
      performance: observeReplication(status.performance),
      ...(dr.mode === 'secondary' ? await observeAttempt(access, base.version, signal) : {}),
    };
  } catch (error) {
    if (signal.aborted) throw error;
    return { ...base, reachable: false, error: errorText(error) };
  }
}

async function observeNode(
  client: ServiceClient,
  address: string,
  signal: AbortSignal,
): Promise<{ readonly observation: NodeObservation; readonly health?: Health }> {
  try {
    const health = await client.sys.health({ node: address, signal, timeoutMs: NODE_TIMEOUT_MS });
    const { initialized, sealed, standby, version, status } = health;
    return {
      health,
      observation: { address, reachable: true, initialized, sealed, standby, version, healthStatus: status },
    };
  } catch (error) {
    if (signal.aborted) throw error;
    return { observation: { address, reachable: false, error: errorText(error) } };
  }
}

async function observeAttempt(
  access: ClusterAccess,
  version: string | undefined,
  signal: AbortSignal,
): Promise<Pick<ClusterObservation, 'attempt'>> {
  try {
    const token = await ceremonyToken(access, version);
    const attempt = await access.client.dr.secondary.generateOperationToken.readAttempt({
      token,
      signal,
      timeoutMs: NODE_TIMEOUT_MS,
    });
    return {
      attempt: {
        started: attempt.started,
        fingerprint: attempt.pgpFingerprint,
        progress: attempt.progress,
        required: attempt.required,
      },
    };
  } catch (error) {
    if (signal.aborted) throw error;
    return {};
  }
}

/** What a status answer says, in the form that reports keep. WAL indexes become decimal strings. */
export function observeReplication(status: DrStatus | PerformanceStatus, now = Date.now()): ReplicationObservation {
  switch (status.mode) {
    case 'primary':
      return {
        mode: status.mode,
        state: status.state,
        setId: status.clusterId,
        primaryClusterAddress: status.primaryClusterAddr,
        knownSecondaries: status.knownSecondaries ?? [],
        lastWal: ('lastDrWal' in status
          ? status.lastDrWal
          : 'lastPerformanceWal' in status
            ? status.lastPerformanceWal
            : undefined
        )?.toString(),
        merkleRoot: status.merkleRoot,
        corruptedMerkleTree: status.corruptedMerkleTree,
        reindexInProgress: status.reindexInProgress,
        peers: (status.secondaries ?? []).map((peer) => observePeer(peer, now)),
      };
    case 'secondary':
    case 'bootstrapping':
      return {
        mode: status.mode,
        state: status.state,
        connectionState: status.connectionState,
        setId: status.clusterId,
        secondaryId: status.secondaryId,
        primaryClusterAddress: status.primaryClusterAddr,
        knownPrimaryClusterAddresses: status.knownPrimaryClusterAddrs,
        lastRemoteWal: status.lastRemoteWal?.toString(),
        merkleRoot: status.merkleRoot,
        corruptedMerkleTree: status.corruptedMerkleTree,
        reindexInProgress: status.reindexInProgress,
        peers: (status.primaries ?? []).map((peer) => observePeer(peer, now)),
      };
    case 'disabled':
    case 'unsupported':
    case 'unknown':
      return { mode: status.mode, peers: [] };
  }
}

function observePeer(peer: ReplicationPeer, now: number): PeerObservation {
  const heard = peer.lastHeartbeat === undefined ? Number.NaN : Date.parse(peer.lastHeartbeat);
  return {
    id: peer.nodeId,
    connected: peer.connectionStatus === 'connected',
    clusterAddress: peer.clusterAddress,
    heartbeatAgeMs: Number.isFinite(heard) ? Math.max(0, now - heard) : undefined,
    canaryAgeMs: peer.replicationPrimaryCanaryAgeMs,
  };
}

function errorText(error: unknown): string {
  return isRunbookError(error) ? `${error.code}: ${redact(error.message)}` : 'could not be read';
}

/** Whether a secondary is alive: connected to a primary whose heartbeat is fresh. `stream-wals` alone proves nothing. */
export function isAlive(replication: ReplicationObservation | undefined, heartbeatAgeMs: number): boolean {
  return (replication?.peers ?? []).some(
    (peer) => peer.connected && (peer.heartbeatAgeMs === undefined || peer.heartbeatAgeMs <= heartbeatAgeMs),
  );
}

/** The freshest heartbeat of all peers, ms; undefined where none is told. */
export function heartbeatAge(replication: ReplicationObservation | undefined): number | undefined {
  const ages = (replication?.peers ?? []).flatMap((peer) => peer.heartbeatAgeMs ?? []);
  return ages.length === 0 ? undefined : Math.min(...ages);
}

export function describeReplication(replication: ReplicationObservation | undefined): string {
  if (!replication) return 'not readable';
  const { mode, state, connectionState, lastWal, lastRemoteWal } = replication;
  const parts = [
    mode,
    state,
    connectionState && `connection ${connectionState}`,
    lastWal && `last WAL ${lastWal}`,
    lastRemoteWal && `last remote WAL ${lastRemoteWal}`,
  ];
  return parts.filter((part) => part !== undefined && part !== '').join(', ');
}
