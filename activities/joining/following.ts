import type { BetweenClusters, OfKind, OnCluster } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Limits } from '../../src/inventory';
import { isRunbookError, RunbookError } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { betweenClusters, onCluster } from '../execution';
import {
  describeReplication,
  heartbeatAge,
  isAlive,
  kindName,
  readKind,
  readStatus,
  replicationOf,
  streamsAndLives,
} from '../observe';
import { awaitState, seenInTime } from '../read-act-confirm';
import { readSealsOf } from './onboarding-read';

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
  return replication.mode === 'secondary' && toldPrimaries(replication).some((address) => addresses.has(address));
}

/** Cluster addresses of its primary, as it tells them. */
export function toldPrimaries({
  knownPrimaryClusterAddresses = [],
  primaryClusterAddress = '',
}: ReplicationObservation): readonly string[] {
  return [...knownPrimaryClusterAddresses, primaryClusterAddress].filter((each) => each !== '');
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
export async function awaitDrStreaming(input: BetweenClusters) {
  const { primary, secondary } = input;
  const { execution, signal, limits, source, target } = betweenClusters(input);
  let needed: bigint | undefined;
  const { dr } = await awaitState(execution, {
    read: async () => {
      const [dr, from] = await Promise.all([readKind(target, 'dr', signal), readStatus(source, 'dr', signal)]);
      needed ??= from.lastWal === undefined ? undefined : BigInt(from.lastWal);
      return { dr, from };
    },
    until: ({ dr, from }) => {
      // 0 means that nothing was streamed yet, which equal roots can prove to be enough.
      const caughtUp =
        (needed !== undefined && BigInt(dr.lastRemoteWal ?? '0') >= needed) ||
        (dr.merkleRoot !== undefined && dr.merkleRoot === from.merkleRoot);
      return caughtUp && streamsAndLives(dr, limits.heartbeatAgeMs);
    },
    budgetMs: limits.streamingMs,
    describe: ({ dr }) => describeReplication(dr),
    needed: `${secondary} streams from ${primary}, connected and caught up`,
    cluster: secondary,
  });
  const age = heartbeatAge(dr);
  const heartbeat = age === undefined ? 'age not told' : `${Math.round(age / 1000)} s old`;
  return {
    state: dr.state ?? '',
    connectedTo: dr.peers.find((peer) => peer.connected)?.clusterAddress,
    at: Date.now(),
    observed: `${describeReplication(dr)}, heartbeat ${heartbeat}`,
  };
}

/** Whether performance secondaries follow the new primary: one answer for each. */
export async function awaitPerformanceSecondaries(input: {
  readonly deployment: string;
  readonly primary: string;
  readonly secondaries: readonly string[];
}) {
  const { deployment, primary, secondaries } = input;
  const { execution, clusters, signal, limits, access } = onCluster({ deployment, cluster: primary });
  const addresses = await primaryAddresses(access, signal);
  const following = secondaries.map(async (cluster) => {
    const { read, ...told } = replicationOf(clusters.of(deployment, cluster), 'performance', signal);
    let id: string | undefined;
    const polling = {
      ...told,
      read: async () => {
        const state = await read();
        id = state.secondaryId ?? id;
        return state;
      },
      until: (state: ReplicationObservation) =>
        follows(state, addresses) && streamsAndLives(state, limits.heartbeatAgeMs),
      budgetMs: Math.min(FOLLOW_BUDGET_MS, limits.streamingMs),
      needed: `${cluster} follows ${primary}`,
    };
    const seen = await seenInTime(execution, polling);
    return 'late' in seen
      ? { cluster, follows: false, observed: seen.late, id }
      : { cluster, follows: true, observed: describeReplication(seen), id };
  });
  return { following: await Promise.all(following) };
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
  const { primary, secondary, kind, filtered } = input;
  const { execution, signal, source, target, limits } = betweenClusters(input);
  if (filtered) {
    const observed = `${secondary} has a paths filter: its root differs from that of ${primary} by design`;
    return { verdict: 'not-comparable' as const, observed };
  }
  let last: readonly (string | undefined)[] = [];
  const polling = {
    read: async () => {
      const seen = await Promise.all([source, target].map((each) => readStatus(each, kind, signal)));
      last = seen.map(({ merkleRoot }) => merkleRoot);
      return last;
    },
    until: ([above, below]: typeof last) => above !== undefined && above === below,
    budgetMs: Math.min(ROOTS_BUDGET_MS, limits.streamingMs),
    describe: ([above, below]: typeof last) => `roots ${above ?? 'not told'} and ${below ?? 'not told'}`,
    needed: `equal Merkle roots of ${primary} and ${secondary}`,
  };
  const seen = await seenInTime(execution, polling);
  if (!('late' in seen))
    return { verdict: 'equal' as const, observed: `the Merkle roots of ${primary} and ${secondary} are equal` };
  const bothTold = last.length === 2 && !last.includes(undefined);
  return { verdict: bothTold ? ('not-seen-equal' as const) : ('not-readable' as const), observed: seen.late };
}

/* After a cluster was enabled as secondary: seals, the first copy, and whether it takes a credential (facts 2.8, 3.2). */

/** Reads in a row that must say the same before it counts: a node that restarts is sealed or disabled for a moment. */
const STABLE_READS = 3;
/** Between two looks at what takes minutes to days, ms. */
const WATCH_MS = 500;

/** Watches the first copy until the secondary streams, and people have unsealed the nodes that sealed themselves. */
export async function followBootstrap(input: BetweenClusters & OfKind) {
  const { secondary, kind } = input;
  const { execution, signal, limits, target } = betweenClusters(input);
  const watch = new BootstrapWatch(secondary, kind, limits);
  const seen = await awaitState(execution, {
    read: async () => {
      const seals = await readSealsOf(target, signal);
      const replication = await readKind(target, kind, signal).catch((error: unknown) => {
        if (signal.aborted || !isRunbookError(error) || !error.retryable) throw error;
        return undefined;
      });
      // A node that does not answer may be sealed.
      const sealed = seals.nodes.filter((node) => node.sealed !== false).map(({ address }) => address);
      return { sealed, replication };
    },
    until: ({ sealed, replication }) => watch.streams(sealed, replication),
    // Silence is no failure: a first copy takes as long as a complete reindex may.
    budgetMs: limits.reindexMs,
    describe: ({ replication }) => describeReplication(replication),
    needed: `${secondary} streams`,
    cluster: secondary,
    pollMs: WATCH_MS,
  });
  const { phases } = watch;
  const observed = `${describeReplication(seen.replication)}; phases ${phases.join(', ')}`;
  return { phases, at: Date.now(), observed };
}

/** Whether the cluster takes the workers' credential for it, which a wipe made void. */
export async function checkCredential(input: OnCluster): Promise<{ readonly observed: string }> {
  const { cluster } = input;
  const { signal, access } = onCluster(input);
  try {
    const { type } = await access.client.sys.lookupSelf({ token: await access.credential(), signal });
    return { observed: `${cluster} takes the workers' credential (${type ?? 'type not told'})` };
  } catch (error) {
    if (signal.aborted || !isRunbookError(error) || !NOT_VALID.has(error.code)) throw error;
    throw new RunbookError('CREDENTIAL_UNAVAILABLE', `${cluster} does not take the workers' credential for it.`, {
      cluster,
      retryable: false,
      observed: error.code,
      needed: `a token of ${cluster}: the one from before its wipe is void`,
      next: `Make a token on ${cluster} (rootTokenCeremony with the primary's key shares, or a replicated login method), put it where the inventory's credential of ${cluster} is read from, then decide retry; or skip.`,
    });
  }
}

const NOT_VALID: ReadonlySet<string> = new Set(['PERMISSION_DENIED', 'CREDENTIAL_UNAVAILABLE', 'BAD_REQUEST']);

/** Judges one look after the other. */
class BootstrapWatch {
  readonly phases: string[] = [];
  readonly #disabled = inARow();
  readonly #sealed = inARow();
  readonly #stuck = inARow();
  readonly #there = inARow();

  /** @param limits - how long nodes may be sealed, and how long it may stand without a connection, before people are asked */
  constructor(
    private readonly cluster: string,
    private readonly kind: ReplicationKind,
    private readonly limits: Pick<Limits, 'heartbeatAgeMs' | 'streamingMs' | 'unsealMs'>,
  ) {}

  /**
   * Whether it streams with every node unsealed, in several looks; throws where it is no secondary, or was sealed, silent
   * or stuck for too long.
   *
   * @param sealed - nodes that do not say that they are unsealed
   */
  streams(sealed: readonly string[], replication: ReplicationObservation | undefined): boolean {
    const { heartbeatAgeMs, streamingMs, unsealMs } = this.limits;
    const { cluster, kind } = this;
    const phase = phaseOf(replication);
    if (this.phases.at(-1) !== phase) this.phases.push(phase);
    if (this.#disabled(replication?.mode === 'disabled').looks >= STABLE_READS * 2)
      throw new RunbookError(
        'STATE_DIVERGED',
        `${cluster} is no ${kindName(kind)} secondary: the join did not take effect.`,
        {
          cluster,
          observed: describeReplication(replication),
          needed: 'secondary',
          next: `Look at the log of ${cluster}. If it was not wiped, abort and start again.`,
        },
      );
    if (this.#sealed(sealed.length > 0).forMs > unsealMs)
      throw this.#tooLong(unsealMs, `Nodes of ${cluster} were sealed or silent`, {
        observed: `sealed or silent: ${sealed.join(', ')}`,
        needed: `every node of ${cluster} answers and is unsealed`,
        next: 'Start those that do not answer. Unseal them with key shares of its primary, or restart those that unseal themselves, then retry.',
      });
    const streams = streamsAndLives(replication, heartbeatAgeMs);
    const { looks } = this.#there(streams && sealed.length === 0);
    if (streams) return looks >= STABLE_READS;
    // A cluster that copies may be silent for hours; one that is told to be idle or cut off does not copy.
    const stuck = this.#stuck(phase === 'stream-wals' || phase === 'idle');
    if (stuck.looks > STABLE_READS && stuck.forMs > streamingMs)
      throw this.#tooLong(streamingMs, `${cluster} has no live connection to its primary`, {
        observed: describeReplication(replication),
        needed: 'a first copy that goes on, or streaming with a fresh heartbeat',
        next: `Find out why ${cluster} does not reach the cluster port of its primary, then retry.`,
      });
    return false;
  }

  #tooLong(ms: number, what: string, told: { observed: string; needed: string; next: string }): RunbookError {
    const { cluster } = this;
    const message = `${what} for ${ms / 1000} s.`;
    return new RunbookError('CONFIRMATION_TIMEOUT', message, { cluster, retryable: false, ...told });
  }
}

/** Counts the looks in a row that say so, and the time since the first of them, ms. */
function inARow(): (says: boolean) => { readonly looks: number; readonly forMs: number } {
  let looks = 0;
  let since = 0;
  return (says) => {
    looks = says ? looks + 1 : 0;
    if (looks <= 1) since = performance.now();
    return { looks, forMs: performance.now() - since };
  };
}

function phaseOf(replication: ReplicationObservation | undefined): string {
  if (!replication) return 'not readable';
  if (replication.mode !== 'secondary') return replication.mode;
  return replication.state === undefined || replication.state === '' ? 'secondary' : replication.state;
}
