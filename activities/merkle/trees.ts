import type { OnCluster, Authority, ChangeResult } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { RunbookError, orElse } from '../../src/errors';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { demand } from '../checks/check';
import { hasRole, primaryStable } from '../checks/replication';
import type { ObservedRoles } from '../checks/replication';
import { currentExecution, onCluster } from '../execution';
import { othersOfSet } from '../joining/enable-secondary';
import { demandMode, readKind } from '../observe';
import { awaitAnswer, awaitState, readActConfirm, resultOf } from '../read-act-confirm';
import { CHANGE_TIMEOUT_MS } from '../timing';
import {
  ANSWER_BUDGET_MS,
  awaitIdentity,
  awaitIdentityOf,
  openOperationToken,
  sendWithToken,
} from '../tokens/operation-token';
import type { Finding } from '../../src/contracts/run-facts';
import type { MerkleReport, MerkleSubtree } from '../../src/vault';

/** The verdict of a Merkle check (interface section 2: Merkle check result). */
export type MerkleCheckResult = Awaited<ReturnType<typeof probeMerkleTree>>;

/**
 * Turns the report of a check into a verdict. Damage in any tree, page or subpage is corruption.
 *
 * @param statusSaysCorrupted - `corrupted_merkle_tree` of the status, read after the check; undefined if not reported
 */
export function judgeMerkleReport(cluster: string, report: MerkleReport, statusSaysCorrupted: boolean | undefined) {
  const damage = report.subtrees.map(damageOf).filter(({ rootCorrupted, pages }) => rootCorrupted || pages > 0);
  if (report.healthy) {
    const text = `The Merkle tree of ${cluster} is sound: no root, page or subpage is corrupted.`;
    const contradiction: Finding = {
      severity: 'warning',
      code: 'merkle-status-differs',
      text: `The check of ${cluster} found no damage, but its status still reports corrupted_merkle_tree.`,
      next: 'Check again later; if the status stays the same, ask the vendor.',
    };
    const findings = statusSaysCorrupted === true ? [contradiction] : [];
    return { verdict: 'sound' as const, text, rootCorrupted: false, damage, findings };
  }
  const where = [
    ...(report.corruptedRoot ? ['the root of the tree'] : []),
    ...damage.map(
      ({ subtree, treeType, rootCorrupted, pages, subpages }) =>
        `subtree ${subtree}${treeType === undefined ? '' : ` (${treeType})`}: ${rootCorrupted ? 'its root, ' : ''}${pages} pages with ${subpages} corrupted subpages`,
    ),
  ];
  const text = `The Merkle tree of ${cluster} is corrupted: ${where.join('; ')}.`;
  const next = `Reindex ${cluster}: \`runbook start drReindex\`. Until then do not rely on it for a failover.`;
  const findings: Finding[] = [{ severity: 'critical', code: 'merkle-tree-corrupted', text, next }];
  return { verdict: 'corrupted' as const, text, rootCorrupted: report.corruptedRoot, damage, findings };
}

function damageOf({ id, treeType, corruptedSubtreeRoot, corruptedPages }: MerkleSubtree) {
  return {
    subtree: id,
    /** `replicated` or `local`. */
    treeType,
    rootCorrupted: corruptedSubtreeRoot,
    /** The number of damaged pages, and of damaged subpages in them. */
    pages: corruptedPages.length,
    subpages: corruptedPages.reduce((sum, { subpages }) => sum + subpages.length, 0),
  };
}

/** Some versions omit the epoch in single answers: this many are read before it counts as not reported. */
const EPOCH_READS = 4;

/** The state of a reindex, as the status reports it (facts 3.1, 7). */
export interface ReindexState {
  readonly mode: string;
  readonly inProgress: boolean;
  readonly stage?: string | undefined;
  readonly progress?: number | undefined;
  readonly total?: number | undefined;
  /** `last_reindex_epoch`, seconds; 0: never, or a reindex is under way. Absent if not reported. */
  readonly epoch?: number | undefined;
  readonly corrupted?: boolean | undefined;
}

/**
 * Reads the state from the active node, which is looked up again.
 *
 * @throws RunbookError SERVICE_UNAVAILABLE (retryable) if the node restarts and reports no mode
 */
export async function readReindex(access: ClusterAccess, signal: AbortSignal): Promise<ReindexState> {
  const { client } = access;
  client.forgetActiveNode();
  const node = await client.activeNode({ signal });
  for (let reads = 1; ; reads += 1) {
    const status = await client.dr.status({ node, signal });
    const { mode } = demandMode(access, status);
    if (status.mode !== 'primary' && status.mode !== 'secondary') return { mode, inProgress: false };
    const { lastReindexEpoch: epoch, reindexInProgress: inProgress = false } = status;
    if (epoch === undefined && !inProgress && reads < EPOCH_READS) continue;
    return {
      ...{ mode, inProgress, stage: status.reindexStage, corrupted: status.corruptedMerkleTree },
      progress: status.reindexBuildingProgress,
      total: status.reindexBuildingTotal,
      epoch: epoch === 'never' ? 0 : epoch,
    };
  }
}

export function describeReindex({ mode, inProgress, stage, progress, total, epoch }: ReindexState): string {
  if (inProgress) {
    const share = progress === undefined || total === undefined ? '' : `, ${progress} of ${total}`;
    return `${mode}, reindex in progress: ${stage ?? 'stage not reported'}${share}`;
  }
  return `${mode}, no reindex in progress, last_reindex_epoch ${epoch ?? 'not reported'}`;
}

/** The options of a reindex (interface 4.1: `reindex`). */
type ReindexOptions = Pick<InputOf<'drReindex'>, 'diff' | 'force' | 'skipFlush'>;

/** The options exactly as the plan states them: another choice needs another approval. */
export function reindexDetail({ diff, force, skipFlush }: ReindexOptions): string {
  return `diff=${diff}, force=${force}, skip_flush=${skipFlush}`;
}

/** The check answers when it is done, which takes long with a large storage. */
const CHECK_TIMEOUT_MS = 3_600_000;
/** Time from the call until the reindex shows in the status. */
const START_BUDGET_MS = 30_000;

/* Merkle checks and reindexing of a DR secondary (interface 4.1: `merkle-check`, `reindex`; facts 7). */

/** Reads only. May take long with a large storage: waits for the answer. */
export async function probeMerkleTree(input: OnCluster & { readonly token: OperationTokenReference }) {
  const { cluster, token } = input;
  const { execution, signal, limits, access } = onCluster(input);
  const { clusterId } = await awaitIdentity(access, ANSWER_BUDGET_MS);
  const drOperationToken = await openOperationToken(access, clusterId, token, 'dr.merkle-check');
  const options = { signal, timeoutMs: Math.min(CHECK_TIMEOUT_MS, limits.reindexMs) };
  const judged = await awaitAnswer(execution, {
    read: async () => {
      const checked = access.client.dr.secondary.merkleCheck({ drOperationToken }, options);
      const report = await sendWithToken(access, token, checked);
      const { corrupted } = await readReindex(access, signal);
      return judgeMerkleReport(cluster, report, corrupted);
    },
    budgetMs: ANSWER_BUDGET_MS,
    needed: `the Merkle check of ${cluster}`,
    cluster,
  });
  return { cluster, clusterId, ...judged, checkedAt: Date.now() };
}

/** Starts the reindex; `already` if one is under way or was completed since the plan. */
export async function startDrReindex(
  input: OnCluster & {
    readonly token: OperationTokenReference;
    readonly authority: Authority;
    readonly options: ReindexOptions;
    readonly epochBefore?: number | undefined;
  },
): Promise<ChangeResult> {
  const { cluster, token, options, epochBefore } = input;
  const { execution, signal, access } = onCluster(input);
  const on = await awaitIdentityOf(access, ANSWER_BUDGET_MS);
  const intended = {
    ...({ kind: 'dr', endpoint: 'secondary/reindex', gate: 'reindex' } as const),
    ...{ on, detail: reindexDetail(options) },
  };
  await verifyOperation(input, intended);
  const drOperationToken = await openOperationToken(access, on.clusterId, token, 'dr.reindex');
  const changed = await readActConfirm(execution, {
    read: () => readReindex(access, signal),
    // One that is under way, or began after `epochBefore` was read.
    until: ({ mode, inProgress, epoch }) =>
      mode === 'secondary' &&
      (inProgress || (epoch !== undefined && epochBefore !== undefined && epoch !== epochBefore)),
    budgetMs: START_BUDGET_MS,
    describe: describeReindex,
    needed: `a reindex of ${cluster} in its status`,
    cluster,
    allow: ({ mode }) => {
      const next = `Reindex secondaries first; no runbook reindexes a primary. Find out why ${cluster} changed its role.`;
      demand([hasRole({ cluster, dr: { mode, peers: [] } }, 'dr', 'secondary', next)], `${cluster} was not reindexed`);
    },
    prepare: async () => {
      // The last check: the secondary must not be needed for a failover now.
      await demandOnePrimary(input);
      await verifyBeginning(input, intended);
      const parameters = { drOperationToken, ...options };
      const { secondary } = access.client.dr;
      const within = { signal, timeoutMs: CHANGE_TIMEOUT_MS };
      return () => sendWithToken(access, token, secondary.reindex(parameters, within));
    },
  });
  const observed = `${cluster}: ${describeReindex(changed.state)}`;
  const text = `${observed}: this attempt did not start it, so its options may differ from the approved ones.`;
  const ofOthers = { severity: 'warning', code: 'reindex-of-others', text } as const;
  return { ...resultOf(changed, observed), ...(changed.outcome === 'already' && { findings: [ofOthers] }) };
}

/** Waits until no reindex is under way. The heartbeats show the stage and the count of the service. */
export async function followDrReindex(input: OnCluster & { readonly epochBefore?: number | undefined }) {
  const { cluster, epochBefore } = input;
  const { execution, signal, limits, access } = onCluster(input);
  const state = await awaitState(execution, {
    // A node that is busy with its tree may be silent for a long time: only the budget ends the wait.
    read: () => readReindex(access, signal),
    until: ({ inProgress }) => !inProgress,
    budgetMs: limits.reindexMs,
    describe: describeReindex,
    needed: `the end of the reindex of ${cluster}`,
    cluster,
    pollMs: execution.timing.pollMs * 3,
  });
  if (state.epoch !== undefined && epochBefore !== undefined && state.epoch === epochBefore) {
    throw new RunbookError('STATE_DIVERGED', `The reindex of ${cluster} ended before it was complete.`, {
      cluster,
      observed: describeReindex(state),
      needed: 'a new last_reindex_epoch',
      next: `A node that is killed or loses leadership loses its reindex. Check the nodes of ${cluster}; retry starts it again.`,
    });
  }
  // The new `last_reindex_epoch`, seconds; absent if this version does not report it.
  return { epoch: state.epoch, observed: describeReindex(state), endedAt: Date.now() };
}

/** Exactly one other cluster must answer as primary: otherwise a failover may be under way and need this secondary. */
async function demandOnePrimary({ deployment, cluster }: OnCluster): Promise<void> {
  const { clusters, signal } = currentExecution();
  const answers = othersOfSet(clusters.deployment(deployment), 'dr', cluster).map((name) =>
    readKind(clusters.of(deployment, name), 'dr', signal).then(
      (dr): ObservedRoles => ({ cluster: name, dr }),
      orElse(signal, ({ code }): ObservedRoles => ({ cluster: name, error: code })),
    ),
  );
  demand([primaryStable(await Promise.all(answers), cluster)], `${cluster} was not reindexed`);
}
