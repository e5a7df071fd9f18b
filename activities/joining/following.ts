import type { BetweenClusters, OfKind, OnCluster } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { Finding } from '../../src/contracts/run-facts';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Limits } from '../../src/inventory';
import { isRunbookError, RunbookError, orElse } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { betweenClusters, onCluster } from '../execution';
import {
  comparesTrees,
  describeReplication,
  heartbeatAge,
  kindName,
  readKind,
  readStatus,
  replicationOf,
  streamsAndLives,
  demandMode,
  observeReplication,
} from '../observe';
import { LATE_MS, LATE_POLLS, awaitState, seenInTime } from '../read-act-confirm';
import { demand } from '../checks/check';
import { hostOf } from '../checks/failover-sides';
import { CANNOT_FORWARD, followPrimary } from '../checks/credentials';
import { hasRole } from '../checks/replication';

/** The roles of a cluster for both kinds of replication, as its active node reports them. */
export interface BothKinds {
  readonly dr: ReplicationObservation;
  readonly performance: ReplicationObservation;
}

/**
 * Reads both kinds from the node that all nodes agree is active, which is looked up again.
 *
 * @throws RunbookError SERVICE_UNAVAILABLE (retryable) if the node restarts and reports no mode
 */
export async function readBothKinds(access: ClusterAccess, signal: AbortSignal): Promise<BothKinds> {
  const { client } = access;
  const status = await client.atActiveNode((node) => client.sys.replicationStatus({ node, signal }), { signal });
  // Heartbeat ages are not needed here.
  const observed = (kind: ReplicationKind) => observeReplication(demandMode(access, status[kind]), undefined);
  return { dr: observed('dr'), performance: observed('performance') };
}

/** @throws RunbookError PRECONDITION_FAILED; retryable if the cluster reports no mode */
export function demandRole(
  cluster: string,
  kind: ReplicationKind,
  needed: 'primary' | 'secondary',
  state: ReplicationObservation,
): void {
  demand([hasRole({ cluster, [kind]: state }, kind, needed)], 'Not sent', state.mode === 'unknown');
}

const NODE_TIMEOUT_MS = 3_000;

/** The seal status of every node of a cluster. */
interface Seals {
  /** `sealed` is absent if the node does not answer. */
  readonly nodes: readonly { readonly address: string; readonly sealed?: boolean }[];
  readonly observed: string;
}

/** Asks every node for its seal status. Unauthenticated; sealed nodes answer too (facts 1.6). */
export async function readSealsOf({ entry, client }: ClusterAccess, signal: AbortSignal): Promise<Seals> {
  const nodes = await Promise.all(
    entry.addresses.map(async (address) => {
      const asking = client.sys.sealStatus({ node: address, signal, timeoutMs: NODE_TIMEOUT_MS });
      const status = await asking.catch(orElse(signal, () => undefined));
      return { address, sealed: status?.sealed };
    }),
  );
  const sealText = (sealed?: boolean) => (sealed === undefined ? 'does not answer' : sealed ? 'sealed' : 'unsealed');
  return { nodes, observed: nodes.map(({ address, sealed }) => `${address} ${sealText(sealed)}`).join('; ') };
}

/** A performance secondary finds the new primary through addresses that it already knows: it does not need minutes. */
const FOLLOW_BUDGET_MS = 60_000;

/**
 * The state of a primary by its active node, and the addresses by which a secondary may know it: the address that the
 * inventory advertises, and that of the node.
 */
export async function readSource(source: ClusterAccess, kind: ReplicationKind, signal: AbortSignal) {
  const { client, entry } = source;
  let asked: ReturnType<typeof client.sys.leader> | undefined;
  const both = (node: string) =>
    Promise.all([client[kind].status({ node, signal }), (asked = client.sys.leader({ node, signal }))]);
  const leads = async () => (await asked?.catch(orElse(signal, () => undefined)))?.isSelf === true;
  const evidence = { of: 'itself', leads } as const;
  const [status, named] = await client.atActiveNode(both, { signal, evidence });
  const leaderClusterAddress = named.leaderClusterAddress ?? (await redactedAddress(source, signal));
  const advertised = entry.advertisedClusterAddress === 'node-address' ? undefined : entry.advertisedClusterAddress;
  return {
    state: observeReplication(demandMode(source, status), undefined),
    addresses: new Set([leaderClusterAddress, advertised].filter((address) => address !== undefined)),
  };
}

/** Listeners with `redact_addresses` name no address without a token (facts 13.4). */
async function redactedAddress(source: ClusterAccess, signal: AbortSignal): Promise<string | undefined> {
  const { client } = source;
  const read = async (node: string) => client.sys.leader({ node, signal, token: await source.credential() });
  const named = await client.atActiveNode(read, { signal }).catch(orElse(signal, () => undefined));
  return named?.leaderClusterAddress;
}

/** Done-criterion of update-primary (facts 2.11): the new primary is among the known ones. */
export function follows(replication: ReplicationObservation, addresses: ReadonlySet<string>): boolean {
  return replication.mode === 'secondary' && knowsPrimary(replication, addresses);
}

/** Whether a secondary reports one of these cluster addresses as its primary's, with or without a scheme. */
export function knowsPrimary(replication: ReplicationObservation, addresses: ReadonlySet<string>): boolean {
  const hosts = new Set([...addresses].map(hostOf));
  return reportedPrimaries(replication).some((each) => hosts.has(hostOf(each)));
}

/** The cluster addresses of its primary that a secondary reports. */
export function reportedPrimaries({
  knownPrimaryClusterAddresses = [],
  primaryClusterAddress = '',
}: ReplicationObservation): readonly string[] {
  return [...knownPrimaryClusterAddresses, primaryClusterAddress].filter((each) => each !== '');
}

/**
 * Waits until a DR secondary streams from its primary and has everything that was written before the wait. One that is
 * connected and compares trees is not late, however long it takes.
 */
export async function awaitDrStreaming(input: BetweenClusters & { readonly late?: boolean | undefined }) {
  const { primary, secondary, late = false } = input;
  const { execution, signal, limits, source, target } = betweenClusters(input);
  let needed: bigint | undefined;
  const { dr } = await awaitState(execution, {
    read: async () => {
      const [dr, from] = await Promise.all([readKind(target, 'dr', signal), readStatus(source, 'dr', signal)]);
      needed ??= from.lastWal === undefined ? undefined : BigInt(from.lastWal);
      return { dr, from };
    },
    until: ({ dr, from }) => {
      // 0 means that nothing was streamed yet. Equal roots can prove that this is enough.
      const caughtUp =
        (needed !== undefined && BigInt(dr.lastRemoteWal ?? '0') >= needed) ||
        (dr.merkleRoot !== undefined && dr.merkleRoot === from.merkleRoot);
      return caughtUp && streamsAndLives(dr, limits.heartbeatAgeMs);
    },
    underWay: ({ dr }) => comparesTrees(dr),
    budgetMs: late ? LATE_MS : limits.streamingMs,
    pollMs: late ? execution.timing.pollMs * LATE_POLLS : execution.timing.pollMs,
    describe: ({ dr }) => describeReplication(dr),
    needed: `${secondary} streams from ${primary}, connected and caught up`,
    cluster: secondary,
  });
  const age = heartbeatAge(dr);
  const heartbeat = age === undefined ? 'age not reported' : `${Math.round(age / 1000)} s old`;
  return { at: Date.now(), observed: `${describeReplication(dr)}, heartbeat ${heartbeat}` };
}

/** Whether each performance secondary follows the new primary. */
export async function awaitPerformanceSecondaries(input: {
  readonly deployment: string;
  readonly primary: string;
  readonly secondaries: readonly string[];
}) {
  const { deployment, primary, secondaries } = input;
  const { execution, clusters, signal, limits, access } = onCluster({ deployment, cluster: primary });
  const { addresses } = await readSource(access, 'performance', signal);
  const following = secondaries.map(async (cluster) => {
    const seen = await seenInTime(execution, {
      ...replicationOf(clusters.of(deployment, cluster), 'performance', signal),
      // One that compares a large tree follows: to point it there again would not help it.
      until: (state) =>
        follows(state, addresses) && (streamsAndLives(state, limits.heartbeatAgeMs) || comparesTrees(state)),
      budgetMs: Math.min(FOLLOW_BUDGET_MS, limits.streamingMs),
      needed: `${cluster} follows ${primary}`,
    });
    return 'late' in seen
      ? { cluster, follows: false, observed: seen.late }
      : { cluster, follows: true, observed: describeReplication(seen) };
  });
  return { following: await Promise.all(following) };
}

/**
 * Whether a promoted DR secondary of a performance secondary follows the performance primary. It finds that primary by
 * itself (facts 13.11). Until then it serves reads, and refuses the writes that belong to the primary.
 */
export async function awaitPerformancePrimary(input: OnCluster) {
  const { execution, signal, limits, access } = onCluster(input);
  const { cluster } = input;
  const seen = await seenInTime(execution, {
    ...replicationOf(access, 'performance', signal),
    until: (state) => streamsAndLives(state, limits.heartbeatAgeMs),
    budgetMs: Math.min(FOLLOW_BUDGET_MS, limits.streamingMs),
    needed: `${cluster} follows its performance primary`,
  });
  if (!('late' in seen)) return { followsAt: Date.now(), observed: describeReplication(seen) };
  const finding: Finding = {
    severity: 'critical',
    code: 'cannot-forward',
    text: `${cluster} was promoted, but does not follow its performance primary (${seen.late}). ${CANNOT_FORWARD}`,
    next: followPrimary(cluster),
  };
  return { observed: seen.late, findings: [finding] };
}

/** Maximum time for reading the roots: the activity must end within its time. */
const ROOTS_BUDGET_MS = 30_000;

/**
 * Compares the Merkle roots of both clusters. `equal` proves that both have the same data. Anything else proves nothing
 * while the primary accepts writes.
 */
export async function compareMerkleRoots(input: BetweenClusters & OfKind) {
  const { primary, secondary, kind } = input;
  const { execution, signal, source, target, limits } = betweenClusters(input);
  let last: readonly (string | undefined)[] = [];
  const polling = {
    read: async () => {
      const seen = await Promise.all([source, target].map((each) => readStatus(each, kind, signal)));
      last = seen.map(({ merkleRoot }) => merkleRoot);
      return last;
    },
    until: ([above, below]: typeof last) => above !== undefined && above === below,
    budgetMs: Math.min(ROOTS_BUDGET_MS, limits.streamingMs),
    describe: ([above, below]: typeof last) => `roots ${above ?? 'not reported'} and ${below ?? 'not reported'}`,
    needed: `equal Merkle roots of ${primary} and ${secondary}`,
  };
  const seen = await seenInTime(execution, polling);
  if (!('late' in seen))
    return { verdict: 'equal' as const, observed: `the Merkle roots of ${primary} and ${secondary} are equal` };
  const bothTold = last.length === 2 && !last.includes(undefined);
  return {
    verdict: bothTold ? ('not-seen-equal' as const) : ('not-readable' as const),
    observed: `${seen.late}; this is no proof while ${primary} accepts writes`,
  };
}

/* After a cluster was enabled as secondary: seals, initial copy, whether it accepts a credential (facts 2.8, 3.2). */

/** Consecutive reads that must agree: a node that restarts is sealed or disabled for a moment. */
const STABLE_READS = 3;

/**
 * Follows the initial copy until the secondary streams, and people have unsealed the nodes that sealed themselves. A
 * standby seals itself seconds after the join: until each was seen sealed once, or had the time for it, unsealed nodes
 * prove nothing.
 */
export async function followBootstrap(input: BetweenClusters & OfKind) {
  const { secondary, kind } = input;
  const { execution, signal, limits, target } = betweenClusters(input);
  const { phases, streams } = watchBootstrap(secondary, kind, limits);
  const seenSealed = new Set<string>();
  // The active node stays unsealed.
  const standbys = target.entry.addresses.length - 1;
  const began = performance.now();
  const seen = await awaitState(execution, {
    read: async () => {
      const seals = await readSealsOf(target, signal);
      const replication = await readKind(target, kind, signal).catch((error: unknown) => {
        if (signal.aborted || !isRunbookError(error) || !error.retryable) throw error;
        return undefined;
      });
      for (const node of seals.nodes) if (node.sealed === true) seenSealed.add(node.address);
      // A node that does not answer may be sealed.
      const sealed = seals.nodes.filter((node) => node.sealed !== false).map(({ address }) => address);
      return { sealed, replication };
    },
    until: ({ sealed, replication }) => {
      const hadTime = seenSealed.size >= standbys || performance.now() - began >= execution.timing.sealingMs;
      return streams(sealed, replication) && hadTime;
    },
    // Silence is not a failure: an initial copy may take as long as a complete reindex.
    budgetMs: limits.reindexMs,
    describe: ({ replication }) => describeReplication(replication),
    needed: `${secondary} streams`,
    cluster: secondary,
    // It takes minutes to days.
    pollMs: execution.timing.pollMs * 2,
  });
  const sealsSeen = seenSealed.size >= standbys;
  const seals = `${seenSealed.size} of ${standbys} standbys have been confirmed sealed`;
  return { observed: `${describeReplication(seen.replication)}; phases ${phases.join(', ')}; ${seals}`, sealsSeen };
}

/** Whether the cluster accepts the workers' credential for it, which the wipe invalidated. */
export async function checkCredential(input: OnCluster): Promise<{ readonly observed: string }> {
  const { cluster } = input;
  const { signal, access } = onCluster(input);
  try {
    const { type } = await access.client.sys.lookupSelf({ token: await access.credential(), signal });
    return { observed: `${cluster} accepts the workers' credential (${type ?? 'type not reported'})` };
  } catch (error) {
    if (signal.aborted || !isRunbookError(error) || !NOT_VALID.has(error.code)) throw error;
    throw new RunbookError('CREDENTIAL_UNAVAILABLE', `${cluster} does not accept the workers' credential for it.`, {
      cluster,
      retryable: false,
      observed: error.code,
      needed: `a token of ${cluster}: the token from before the wipe is void`,
      next: `Create a token on ${cluster} (rootTokenCeremony with the primary's key shares, or a replicated login method), store it where the inventory reads the credential of ${cluster}, then decide retry; or skip.`,
    });
  }
}

const NOT_VALID: ReadonlySet<string> = new Set(['PERMISSION_DENIED', 'CREDENTIAL_UNAVAILABLE', 'BAD_REQUEST']);

/**
 * Judges one read after the other.
 *
 * @param limits - how long nodes may be sealed, and how long the connection may be missing, before people are asked
 */
function watchBootstrap(
  cluster: string,
  kind: ReplicationKind,
  { heartbeatAgeMs, streamingMs, unsealMs }: Pick<Limits, 'heartbeatAgeMs' | 'streamingMs' | 'unsealMs'>,
) {
  const [isDisabled, isSealed, isStuck, isThere] = [inARow(), inARow(), inARow(), inARow()];
  const phases: string[] = [];
  const tooLong = (ms: number, what: string, details: { observed: string; needed: string; next: string }) =>
    new RunbookError('CONFIRMATION_TIMEOUT', `${what} for ${ms / 1000} s.`, { cluster, retryable: false, ...details });
  /**
   * Whether the cluster streams with every node unsealed, in several reads. Throws if it is not a secondary, or was
   * sealed, silent or stuck for too long.
   *
   * @param sealed - nodes that do not report that they are unsealed
   */
  const streams = (sealed: readonly string[], replication: ReplicationObservation | undefined): boolean => {
    const phase = phaseOf(replication);
    if (phases.at(-1) !== phase) phases.push(phase);
    const observed = describeReplication(replication);
    if (isDisabled(replication?.mode === 'disabled').reads >= STABLE_READS * 2)
      throw new RunbookError(
        'STATE_DIVERGED',
        `${cluster} is not a ${kindName(kind)} secondary: the join did not take effect.`,
        {
          ...{ cluster, observed, needed: 'secondary' },
          next: `Check the log of ${cluster}. If it was not wiped, abort and start again.`,
        },
      );
    if (isSealed(sealed.length > 0).forMs > unsealMs)
      throw tooLong(unsealMs, `Nodes of ${cluster} were sealed or did not respond`, {
        observed: `sealed or not responding: ${sealed.join(', ')}`,
        needed: `every node of ${cluster} answers and is unsealed`,
        next: 'Start the nodes that do not answer. Unseal nodes with the key shares of the primary, restart nodes that unseal themselves, then retry.',
      });
    const inStep = streamsAndLives(replication, heartbeatAgeMs);
    const { reads } = isThere(inStep && sealed.length === 0);
    if (inStep) return reads >= STABLE_READS;
    // A cluster that copies may be silent for hours. One that reports idle, or no connection, does not copy.
    const stuck = isStuck(phase === 'stream-wals' || phase === 'idle');
    if (stuck.reads > STABLE_READS && stuck.forMs > streamingMs)
      throw tooLong(streamingMs, `${cluster} has had no working connection to its primary`, {
        observed,
        needed: 'an initial copy in progress, or streaming with a fresh heartbeat',
        next: `Find out why ${cluster} cannot reach the cluster port of its primary, then retry.`,
      });
    return false;
  };
  return { phases, streams };
}

/** Counts the consecutive reads that say so, and the time since the first of them, ms. */
function inARow(): (holds: boolean) => { readonly reads: number; readonly forMs: number } {
  let reads = 0;
  let since = 0;
  return (holds) => {
    reads = holds ? reads + 1 : 0;
    if (reads <= 1) since = performance.now();
    return { reads, forMs: performance.now() - since };
  };
}

function phaseOf(replication: ReplicationObservation | undefined): string {
  if (!replication) return 'not readable';
  if (replication.mode !== 'secondary') return replication.mode;
  return replication.state === undefined || replication.state === '' ? 'secondary' : replication.state;
}
