import type { OnCluster, Authority, ChangeResult } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import { findCluster } from '../../src/inventory';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import { reindexDetail } from '../plans/merkle';
import type { ReindexOptions } from '../plans/merkle';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { readKind } from '../joining/onboarding-read';
import { CHANGE_TIMEOUT_MS, awaitState, beforeSending, readActConfirm, resultOf } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitClusterId, openOperationToken } from '../tokens/operation-token';
import { judgeMerkleReport, merkleNotAvailable } from './merkle-verdict';
import type { MerkleCheckResult } from './merkle-verdict';
import { ReindexProgress, describeReindex, readReindex, showsReindexSince } from './reindex-state';
import type { ReindexState } from './reindex-state';

/** A reindex that came to its end. */
export interface ReindexResult {
  /** `last_reindex_epoch` after, seconds; absent where this version does not tell it. */
  readonly epoch?: number;
  /** The stages that were seen, in the words of the service, and for how long each, ms. */
  readonly stages: readonly { readonly stage: string; readonly seenForMs: number }[];
  readonly followedForMs: number;
  readonly observed: string;
  readonly endedAt: number;
}

/** The check answers when it is done, which takes long on a large store. */
const CHECK_TIMEOUT_MS = 3_600_000;
/** From the call until the reindex shows in the status. */
const START_BUDGET_MS = 30_000;
const FOLLOW_POLL_MS = 1_000;

/* Merkle checks and reindexing of a DR secondary (interface 4.1: `merkle-check`, `reindex`; facts 7). */

/** Reads only, and may take long on a large store: waits for the answer. */
export async function probeMerkleTree(
  input: OnCluster & { readonly token: OperationTokenReference },
): Promise<MerkleCheckResult> {
  const { deployment, cluster, token: reference } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const access = clusters.of(deployment, cluster);
  const clusterId = await awaitClusterId(access, execution, ANSWER_BUDGET_MS);
  const use = 'dr.merkle-check';
  const drOperationToken = await openOperationToken(access, clusterId, reference, use);
  const began = Date.now();
  const { limits } = clusters.deployment(deployment);
  const options = { signal, timeoutMs: Math.min(CHECK_TIMEOUT_MS, limits.reindexMs) };
  const judged = await awaitState(execution, {
    read: async () => {
      try {
        const report = await access.client.dr.secondary.merkleCheck({ drOperationToken }, options);
        const { corrupted } = await readReindex(access, signal);
        return judgeMerkleReport(cluster, report, corrupted);
      } catch (error) {
        if (!isRunbookError(error, 'NOT_FOUND') && !isRunbookError(error, 'METHOD_NOT_ALLOWED')) throw error;
        const { version } = await access.client.sys.health({ signal });
        return merkleNotAvailable(cluster, version, error.code);
      }
    },
    until: () => true,
    budgetMs: ANSWER_BUDGET_MS,
    describe: ({ text }) => text,
    needed: `the Merkle check of ${cluster}`,
    cluster,
  });
  const checkedAt = Date.now();
  return { cluster, clusterId, ...judged, checkedAt, tookMs: checkedAt - began };
}

/** Starts the reindex; `already` where one is under way or was done since the plan. */
export async function startDrReindex(
  input: OnCluster & {
    readonly token: OperationTokenReference;
    readonly authority: Authority;
    readonly options: ReindexOptions;
    readonly epochBefore?: number | undefined;
  },
): Promise<ChangeResult> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { deployment, cluster, token: reference, options, epochBefore } = input;
  const access = clusters.of(deployment, cluster);
  const clusterId = await awaitClusterId(access, execution, ANSWER_BUDGET_MS);
  const doing = {
    operation: 'dr.secondary.reindex',
    on: { cluster, clusterId },
    detail: reindexDetail(options),
  } as const;
  await verifyOperation(input, doing);
  const use = 'dr.reindex';
  const drOperationToken = await openOperationToken(access, clusterId, reference, use);
  const others = (clusters.deployment(deployment).drSets.get(access.entry.drSet) ?? [])
    .filter((name) => name !== cluster)
    .map((name) => clusters.access(findCluster(clusters.deployment(deployment), name)));
  const changed = await readActConfirm(execution, {
    read: () => readReindex(access, signal),
    until: (state) => state.mode === 'secondary' && showsReindexSince(state, epochBefore),
    budgetMs: START_BUDGET_MS,
    describe: describeReindex,
    needed: `a reindex of ${cluster} in its status`,
    cluster,
    allow: (state) => refuseUnlessSecondary(state, cluster),
    act: async () => {
      // The last look: the secondary must not be needed for a failover now.
      await beforeSending(async () => {
        await demandOnePrimary(others, cluster, signal);
        await verifyBeginning(input, doing);
      });
      execution.throwIfCancelled();
      const parameters = { drOperationToken, ...options };
      return access.client.dr.secondary.reindex(parameters, { signal, timeoutMs: CHANGE_TIMEOUT_MS });
    },
  });
  const observed = `${cluster}: ${describeReindex(changed.state)}`;
  const text = `${observed}: this attempt did not start it, so its options are not known to be the approved ones.`;
  const ofOthers = { severity: 'warning', code: 'reindex-of-others', text } as const;
  return { ...resultOf(changed, observed), ...(changed.outcome === 'already' && { findings: [ofOthers] }) };
}

/** Waits until no reindex is under way; stage, rate and estimate are in the heartbeats. */
export async function followDrReindex(
  input: OnCluster & { readonly epochBefore?: number | undefined },
): Promise<ReindexResult> {
  const { deployment, cluster, epochBefore } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const access = clusters.of(deployment, cluster);
  const began = Date.now();
  const progress = new ReindexProgress();
  const state = await awaitState(execution, {
    // A node that is busy with its tree may be silent for long: only the budget ends the wait.
    read: () => readReindex(access, signal),
    until: ({ inProgress }) => !inProgress,
    budgetMs: clusters.deployment(deployment).limits.reindexMs,
    describe: (seen) => progress.note(seen, Date.now()),
    needed: `the end of the reindex of ${cluster}`,
    cluster,
    pollMs: FOLLOW_POLL_MS,
  });
  if (state.epoch !== undefined && epochBefore !== undefined && state.epoch === epochBefore) {
    throw new RunbookError('STATE_DIVERGED', `The reindex of ${cluster} is gone and was not completed.`, {
      cluster,
      observed: describeReindex(state),
      needed: 'a new last_reindex_epoch',
      next: `A node that is killed or loses leadership loses its reindex. Look at the nodes of ${cluster}; retry starts it again.`,
    });
  }
  const endedAt = Date.now();
  const { stages } = progress;
  return {
    epoch: state.epoch,
    stages,
    followedForMs: endedAt - began,
    observed: `${describeReindex(state)}; stages seen: ${stages.map(({ stage, seenForMs }) => `${stage} ${Math.round(seenForMs / 1_000)} s`).join(', ') || 'none'}`,
    endedAt,
  };
}

function refuseUnlessSecondary({ mode }: ReindexState, cluster: string): void {
  if (mode === 'secondary') return;
  throw new RunbookError('PRECONDITION_FAILED', `${cluster} is no DR secondary: it is not reindexed.`, {
    cluster,
    observed: mode,
    needed: 'secondary',
    next: `Secondaries are reindexed first, and a primary never by a runbook. Find out why ${cluster} changed its role.`,
  });
}

/** Whoever answers as primary is one, and only one: else a failover may be under way, and needs this secondary. */
async function demandOnePrimary(others: readonly ClusterAccess[], cluster: string, signal: AbortSignal): Promise<void> {
  const modeOf = (access: ClusterAccess) =>
    readKind(access, 'dr', signal).then(
      ({ mode }) => mode,
      orElse(signal, ({ code }) => `not read (${code})`),
    );
  const modes = await Promise.all(others.map(modeOf));
  if (modes.filter((mode) => mode === 'primary').length === 1) return;
  throw new RunbookError('PRECONDITION_FAILED', `No single DR primary answers; ${cluster} was not reindexed.`, {
    cluster,
    retryable: false,
    observed:
      others.map(({ entry }, index) => `${entry.name} ${modes[index]}`).join(', ') || 'no other cluster in the DR set',
    needed: 'exactly one DR primary answers in the DR set',
    next: `A failover may need ${cluster}: bring the primary back or finish the failover, then retry.`,
  });
}
