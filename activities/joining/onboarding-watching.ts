import type { BetweenClusters, OfKind, OnCluster } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { RunbookError, isRunbookError } from '../../src/errors';
import { currentExecution } from '../execution';
import { describeReplication, isAlive } from '../observe';
import { awaitState } from '../read-act-confirm';
import type { Seals } from './onboarding-read';
import { allUnsealed, kindName, readKind, readSealsOf, sealedNodes } from './onboarding-read';

/* After a cluster was enabled as secondary: seals, the first copy, and whether it takes a credential (facts 2.8, 3.2). */

/** Reads in a row that must say the same before it counts: a node that restarts is sealed or disabled for a moment. */
const STABLE_READS = 3;
/** `sealed`: nodes sealed themselves and wait for people. */
type Verdict = 'streaming' | 'sealed';
/** Between two looks at what takes minutes to days, ms. */
const WATCH_MS = 500;

/** The seal of every node of a cluster, and what people need to unseal them. */
export async function readSeals({ deployment, cluster }: OnCluster): Promise<Seals> {
  const { clusters, signal } = currentExecution();
  return readSealsOf(clusters.of(deployment, cluster), signal);
}

/** Polls until every node is unsealed; people unseal them meanwhile. */
export async function awaitUnsealed({ deployment, cluster }: OnCluster): Promise<Seals> {
  const execution = currentExecution();
  const { clusters } = execution;
  let inARow = 0;
  return awaitState(execution, {
    read: () => readSealsOf(clusters.of(deployment, cluster), execution.signal),
    until: (seals) => {
      inARow = allUnsealed(seals) ? inARow + 1 : 0;
      return inARow >= STABLE_READS;
    },
    budgetMs: clusters.deployment(deployment).limits.unsealMs,
    describe: ({ observed }) => observed,
    needed: `every node of ${cluster} unsealed by people`,
    cluster,
    pollMs: WATCH_MS,
  });
}

/** Watches the first copy until the secondary streams. Ends early where nodes seal themselves. */
export async function followBootstrap(
  input: BetweenClusters &
    OfKind & {
      /** People chose to leave nodes sealed. */
      readonly sealedIsKnown?: boolean;
    },
) {
  const execution = currentExecution();
  const { clusters } = execution;
  const { deployment, secondary, kind, sealedIsKnown } = input;
  const { signal } = execution;
  const target = clusters.of(deployment, secondary);
  const { limits } = clusters.deployment(deployment);
  const watch = new BootstrapWatch(limits.heartbeatAgeMs, limits.streamingMs);
  const seen = await awaitState(execution, {
    read: async () => {
      const seals = await readSealsOf(target, signal);
      const replication = await readKind(target, kind, signal).catch((error: unknown) => {
        if (signal.aborted || !isRunbookError(error) || !error.retryable) throw error;
        return undefined;
      });
      return { sealed: sealedIsKnown ? [] : sealedNodes(seals), replication };
    },
    until: ({ sealed, replication }) => watch.note(sealed, replication, secondary, kind) !== undefined,
    // Silence is no failure: a first copy takes as long as a complete reindex may.
    budgetMs: limits.reindexMs,
    describe: ({ replication }) => describeReplication(replication),
    needed: `${secondary} streams`,
    cluster: secondary,
    pollMs: WATCH_MS,
  });
  const { phases, verdict = 'streaming' } = watch;
  const observed =
    verdict === 'sealed'
      ? `nodes sealed themselves: ${seen.sealed.join(', ')}`
      : `${describeReplication(seen.replication)}; phases ${phases.join(', ')}`;
  return { verdict, phases, at: Date.now(), observed };
}

/** Whether the cluster takes the workers' credential for it, which a wipe made void. */
export async function checkCredential({ deployment, cluster }: OnCluster): Promise<{ readonly observed: string }> {
  const { clusters, signal } = currentExecution();
  const access = clusters.of(deployment, cluster);
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
  verdict: Verdict | undefined;
  #sealedInARow = 0;
  #disabledInARow = 0;
  #stuckSince: number | undefined;
  #stuckInARow = 0;

  constructor(
    private readonly heartbeatAgeMs: number,
    /** How long it may stand without a connection before people are asked, ms. */
    private readonly stuckMs: number,
  ) {}

  /** @returns the verdict, once there is one; throws where it is no secondary, or was stuck for too long */
  note(
    sealed: readonly string[],
    replication: ReplicationObservation | undefined,
    cluster: string,
    kind: 'dr' | 'performance',
  ): Verdict | undefined {
    const phase = phaseOf(replication);
    if (this.phases.at(-1) !== phase) this.phases.push(phase);
    this.#sealedInARow = sealed.length > 0 ? this.#sealedInARow + 1 : 0;
    if (this.#sealedInARow >= STABLE_READS) return (this.verdict = 'sealed');
    this.#disabledInARow = replication?.mode === 'disabled' ? this.#disabledInARow + 1 : 0;
    if (this.#disabledInARow >= STABLE_READS * 2) throw notJoined(cluster, kind, replication);
    const streams =
      replication?.mode === 'secondary' &&
      replication.state === 'stream-wals' &&
      isAlive(replication, this.heartbeatAgeMs);
    if (streams && sealed.length === 0) return (this.verdict = 'streaming');
    // A cluster that copies may be silent for hours; one that is told to be idle or cut off does not copy.
    const stuck = !streams && (phase === 'stream-wals' || phase === 'idle');
    this.#stuckInARow = stuck ? this.#stuckInARow + 1 : 0;
    this.#stuckSince = stuck ? (this.#stuckSince ?? performance.now()) : undefined;
    const forMs = performance.now() - (this.#stuckSince ?? Infinity);
    if (this.#stuckInARow > STABLE_READS && forMs > this.stuckMs) throw stuckFor(this.stuckMs, cluster, replication);
    return undefined;
  }
}

function phaseOf(replication: ReplicationObservation | undefined): string {
  if (!replication) return 'not readable';
  if (replication.mode !== 'secondary') return replication.mode;
  return replication.state === undefined || replication.state === '' ? 'secondary' : replication.state;
}

function notJoined(
  cluster: string,
  kind: 'dr' | 'performance',
  replication: ReplicationObservation | undefined,
): RunbookError {
  return new RunbookError(
    'STATE_DIVERGED',
    `${cluster} is no ${kindName(kind)} secondary: the join did not take effect.`,
    {
      cluster,
      observed: describeReplication(replication),
      needed: 'secondary',
      next: `Look at the log of ${cluster}. If it was not wiped, abort and start again.`,
    },
  );
}

function stuckFor(ms: number, cluster: string, replication: ReplicationObservation | undefined): RunbookError {
  return new RunbookError(
    'CONFIRMATION_TIMEOUT',
    `${cluster} has no live connection to its primary for ${ms / 1000} s.`,
    {
      cluster,
      retryable: false,
      observed: describeReplication(replication),
      needed: 'a first copy that goes on, or streaming with a fresh heartbeat',
      next: `Find out why ${cluster} does not reach the cluster port of its primary, then retry.`,
    },
  );
}
