import type { GeneratedTokenKind, Health, ReplicationPeer, ReplicationStatus, ServiceClient } from '../src/vault';
import type { ClusterObservation, PeerObservation, ReplicationObservation } from '../src/contracts/observations';
import type { ReplicationKind } from '../src/contracts/runbook-inputs';
import { isNever } from '../src/vault';
import { RunbookError, isRunbookError, orElse } from '../src/errors';
import { redact } from '../src/keys';
import type { Secret } from '../src/secret';
import type { ClusterAccess } from './clusters';
import { ceremonyToken, endpointsOf } from './ceremony/ceremony-access';

const NODE_TIMEOUT_MS = 3_000;
/** `server_time_utc` has whole seconds and is read a moment before or after the status. */
const CLOCK_TOLERANCE_MS = 2_000;

/** What one node reported about itself, with the worker's time before and after. Times are epoch ms. */
export interface NodeHealth {
  readonly address: string;
  readonly health: Health;
  readonly askedAt: number;
  readonly answeredAt: number;
}

/** Reads one cluster: health of every node, both replication statuses of the active one, the attempt slot of a DR secondary. */
export async function observeCluster(access: ClusterAccess, signal: AbortSignal): Promise<ClusterObservation> {
  return (await observeWithHealths(access, signal)).observation;
}

/** As {@link observeCluster}, with the health of each node. */
export async function observeWithHealths(access: ClusterAccess, signal: AbortSignal) {
  const { entry, client } = access;
  const options = { signal, timeoutMs: NODE_TIMEOUT_MS };
  const read = async (node: string) => ({ node, status: await client.sys.replicationStatus({ ...options, node }) });
  const began = performance.now();
  const asked = Promise.all(entry.addresses.map((address) => observeNode(client, address, signal)));
  const leadsAlone = async (address: string) =>
    (await asked).every(({ health: seen }) => seen && leads(seen.health) === (seen.address === address));
  const [nodes, seal, active] = await Promise.all([
    asked.then((each) => withVersions(access, each, signal)),
    observeSeal(access, signal),
    client
      .atActiveNode(read, { ...options, evidence: { of: 'every node', leads: leadsAlone } })
      .catch((error: unknown) => {
        if (signal.aborted) throw error;
        return { error: errorText(error) };
      }),
  ]);
  const healths = nodes.flatMap((node) => node.health ?? []);
  const health = healths.map((each) => each.health);
  const clusterId = health.find((each) => each.clusterId)?.clusterId;
  const isAnother = clusterId !== undefined && entry.clusterId !== undefined && clusterId !== entry.clusterId;
  const base = {
    cluster: entry.name,
    at: Date.now(),
    nodes: nodes.map((node) => node.observation),
    clusterId,
    ...(isAnother && { pinnedId: entry.clusterId }),
    version: health.find((each) => each.version)?.version,
    ...(seal && { seal }),
  };
  if ('error' in active) return { observation: { ...base, reachable: false, error: active.error }, healths };
  const { node: activeNode, status } = active;
  // If the active node had to be searched for, the clock of the first reads is older than the status.
  const isLate = performance.now() - began > CLOCK_TOLERANCE_MS / 2;
  const serverNow = isLate
    ? serverTime(await healthOf(client, activeNode, signal))
    : serverTime(health.find(({ node }) => node === activeNode));
  const dr = observeReplication(status.dr, serverNow);
  const attempt =
    dr.mode === 'secondary'
      ? await readSlot(access, base.version, 'operation-token', signal).catch(orElse(signal, () => undefined))
      : undefined;
  const observation: ClusterObservation = {
    ...base,
    reachable: true,
    activeNode,
    dr,
    performance: observeReplication(status.performance, serverNow),
    ...(attempt && { attempt }),
  };
  return { observation, healths };
}

type SeenNode = Awaited<ReturnType<typeof observeNode>>;

/**
 * Asks nodes whose listener redacts the version (`redact_version`) once more, with the credential that the cluster knows:
 * of a DR secondary that is the batch token. What that does not answer stays unknown.
 */
async function withVersions(access: ClusterAccess, seen: readonly SeenNode[], signal: AbortSignal) {
  const redacted = seen.filter(({ health }) => health !== undefined && !health.health.sealed && !health.health.version);
  if (redacted.length === 0) return seen;
  const isDrSecondary = redacted.some(({ health }) => health?.health.replicationDrMode === 'secondary');
  const token = await Promise.resolve(isDrSecondary ? access.batchToken() : access.credential()).catch(
    orElse(signal, () => undefined),
  );
  if (token === undefined) return seen;
  const ask = async (node: SeenNode): Promise<SeenNode> => {
    if (!redacted.includes(node) || node.health === undefined) return node;
    const { version } = (await healthOf(access.client, node.health.address, signal, token)) ?? {};
    if (!version) return node;
    const health = { ...node.health, health: { ...node.health.health, version } };
    return { health, observation: { ...node.observation, version } };
  };
  return Promise.all(seen.map(ask));
}

async function observeNode(client: ServiceClient, address: string, signal: AbortSignal) {
  try {
    const askedAt = Date.now();
    const health = await client.sys.health({ node: address, signal, timeoutMs: NODE_TIMEOUT_MS });
    const { initialized, sealed, standby, status } = health;
    const version = health.version || undefined;
    return {
      health: { address, health, askedAt, answeredAt: Date.now() },
      observation: { address, reachable: true, initialized, sealed, standby, version, healthStatus: status },
    };
  } catch (error) {
    if (signal.aborted) throw error;
    return { observation: { address, reachable: false, error: errorText(error) } };
  }
}

/** The seal of a cluster, as any of its nodes reports it, sealed or not; undefined if none does. */
export async function observeSeal({ client }: ClusterAccess, signal: AbortSignal): Promise<ClusterObservation['seal']> {
  const seal = await client.sys
    .sealStatus({ signal, timeoutMs: NODE_TIMEOUT_MS })
    .catch(orElse(signal, () => undefined));
  if (seal === undefined) return undefined;
  const { type, recoverySeal = false, threshold, shares, migration } = seal;
  return { type, recovery: recoverySeal, threshold, shares, ...(migration === true && { migration }) };
}

/** The single slot of generation attempts, as it is now. */
export async function readSlot(
  access: ClusterAccess,
  version: string | undefined,
  kind: GeneratedTokenKind,
  signal: AbortSignal,
): Promise<NonNullable<ClusterObservation['attempt']>> {
  const token = await ceremonyToken(access, version, kind, signal);
  const attempt = await endpointsOf(access, kind).readAttempt({ token, signal, timeoutMs: NODE_TIMEOUT_MS });
  const { started, pgpFingerprint: fingerprint, progress, required } = attempt;
  return { started, fingerprint, progress, required };
}

/** The health of one node, with its clock: `server_time_utc`, exact to a second. */
export function healthOf(
  client: ServiceClient,
  node: string,
  signal: AbortSignal,
  token?: Secret,
): Promise<Health | undefined> {
  return client.sys.health({ node, signal, token, timeoutMs: NODE_TIMEOUT_MS }).catch(orElse(signal, () => undefined));
}

/** Whether a node reports that it is the active one, as `is_self` of `sys/leader` also does. */
function leads(health: Health | undefined): boolean {
  return health !== undefined && !health.standby && (health.status === 200 || health.status === 472);
}

export function serverTime(health: Health | undefined): number | undefined {
  return health?.serverTimeUtc === undefined ? undefined : health.serverTimeUtc * 1_000;
}

/**
 * Reads one kind of replication from the node that the nodes agree is active: roles and leaders change while activities
 * run, and a standby may report an old state.
 *
 * @throws RunbookError SERVICE_UNAVAILABLE, which is retryable, if the node restarts and reports no mode
 */
export async function readKind(access: ClusterAccess, kind: ReplicationKind, signal: AbortSignal) {
  const { client } = access;
  let asked: Promise<Health | undefined> | undefined;
  const both = (node: string) =>
    Promise.all([client[kind].status({ node, signal }), (asked = healthOf(client, node, signal))]);
  const evidence = { of: 'itself', leads: async () => leads(await asked) } as const;
  const [status, health] = await client.atActiveNode(both, { signal, evidence });
  return observeReplication(demandMode(access, status), serverTime(health));
}

/** As {@link readKind}, if nothing depends on the age of a heartbeat: the clock is not read, and no age is reported. */
export async function readStatus(access: ClusterAccess, kind: ReplicationKind, signal: AbortSignal) {
  const { client } = access;
  const status = await client.atActiveNode((node) => client[kind].status({ node, signal }), { signal });
  return observeReplication(demandMode(access, status), undefined);
}

/** How the replication of a cluster is read and described while an activity waits for a state. */
export function replicationOf(access: ClusterAccess, kind: ReplicationKind, signal: AbortSignal, read = readKind) {
  return { read: () => read(access, kind, signal), describe: describeReplication, cluster: access.entry.name };
}

/** Requires an active node to report its mode; a node that restarts is retried. */
export function demandMode({ entry }: ClusterAccess, status: ReplicationStatus): ReplicationStatus {
  if (status.mode !== 'unknown') return status;
  throw new RunbookError('SERVICE_UNAVAILABLE', `${entry.name} does not report its mode: it is restarting.`, {
    cluster: entry.name,
    observed: 'mode unknown',
    needed: 'a mode',
  });
}

/**
 * A status response in the form that reports store. WAL indexes become decimal strings.
 *
 * @param serverNow - the clock of the node that answered, epoch ms: the worker's own clock cannot date heartbeats.
 *   If it is absent, ages are not known.
 */
export function observeReplication(status: ReplicationStatus, serverNow: number | undefined): ReplicationObservation {
  switch (status.mode) {
    case 'disabled':
    case 'unsupported':
    case 'unknown':
      return { mode: status.mode, peers: [] };
    case 'primary':
      return {
        ...commonOf(status, status.secondaries, serverNow),
        knownSecondaries: status.knownSecondaries ?? [],
        lastWal: status.lastReplicatedWal?.toString(),
      };
    case 'secondary':
    case 'bootstrapping':
      return {
        ...commonOf(status, status.primaries, serverNow),
        connectionState: status.connectionState,
        secondaryId: status.secondaryId,
        knownPrimaryClusterAddresses: status.knownPrimaryClusterAddrs,
        lastRemoteWal: status.lastRemoteWal?.toString(),
      };
  }
}

function commonOf(
  status: Exclude<ReplicationStatus, { readonly mode: 'disabled' | 'unsupported' | 'unknown' }>,
  peers: readonly ReplicationPeer[] | undefined,
  serverNow: number | undefined,
) {
  const { mode, state, merkleRoot, corruptedMerkleTree, reindexInProgress } = status;
  return {
    ...{ mode, state, merkleRoot, corruptedMerkleTree, reindexInProgress },
    setId: status.clusterId,
    primaryClusterAddress: status.primaryClusterAddr,
    peers: (peers ?? []).map((peer) => observePeer(peer, serverNow)),
  };
}

function observePeer(peer: ReplicationPeer, serverNow: number | undefined): PeerObservation {
  const { lastHeartbeat } = peer;
  const wasHeard = !isNever(lastHeartbeat);
  const heard = wasHeard && lastHeartbeat !== undefined ? Date.parse(lastHeartbeat) : Number.NaN;
  const age = serverNow === undefined ? Number.NaN : serverNow - heard;
  // The server's clock, in whole seconds, is a little behind; a heartbeat far in its future is not readable.
  const readable = age >= -CLOCK_TOLERANCE_MS;
  return {
    id: peer.nodeId,
    connected: peer.connectionStatus === 'connected',
    clusterAddress: peer.clusterAddress,
    heartbeatAgeMs: readable ? Math.max(0, age) : undefined,
    ...(wasHeard && !readable ? { heartbeatUnreadable: true } : {}),
    canaryAgeMs: peer.replicationPrimaryCanaryAgeMs,
  };
}

function errorText(error: unknown): string {
  return isRunbookError(error) ? `${error.code}: ${redact(error.message)}` : 'could not be read';
}

/**
 * Whether a secondary is alive: connected to a primary whose heartbeat is fresh by the secondary's own clock.
 * `stream-wals` alone proves nothing. Only if no peer reports a heartbeat, as in old versions, `connected` counts.
 */
export function isAlive(replication: ReplicationObservation | undefined, heartbeatAgeMs: number): boolean {
  const peers = replication?.peers ?? [];
  const reported = peers.some((peer) => peer.heartbeatAgeMs !== undefined || peer.heartbeatUnreadable === true);
  return peers.some(
    (peer) =>
      peer.connected && (reported ? peer.heartbeatAgeMs !== undefined && peer.heartbeatAgeMs <= heartbeatAgeMs : true),
  );
}

/** A secondary that is in step, and hears its primary: `stream-wals` is still reported with a dead one. */
export function streamsAndLives(seen: ReplicationObservation | undefined, heartbeatAgeMs: number): boolean {
  return seen?.mode === 'secondary' && seen.state === 'stream-wals' && isAlive(seen, heartbeatAgeMs);
}

/**
 * A secondary that is connected and compares or copies: with a large tree that takes minutes to hours, and is no failure.
 */
export function comparesTrees(seen: ReplicationObservation | undefined): boolean {
  const { mode, state = '', connectionState, peers = [] } = seen ?? {};
  if (mode !== 'secondary' || !['merkle-diff', 'merkle-sync'].includes(state)) return false;
  return connectionState === undefined ? peers.some((peer) => peer.connected) : connectionState === 'ready';
}

/** The freshest heartbeat of all peers, ms; undefined if none is reported. */
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

/** The name of a kind of replication in a sentence. */
export function kindName(kind: ReplicationKind): string {
  return kind === 'dr' ? 'DR' : 'performance';
}

/** Both roles of a cluster in a few words. */
export function rolesText(seen: Pick<ClusterObservation, 'dr' | 'performance'>): string {
  return `DR ${seen.dr?.mode ?? 'not read'}, performance ${seen.performance?.mode ?? 'not read'}`;
}
