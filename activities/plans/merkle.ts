import { readingAfterWait, secondReading } from '../../src/moves/every-run';
import { checkTree, checkTreeAfter, checkTreeBefore, reindexing } from '../../src/moves/records';
import { asking, disposing, obtaining } from '../../src/moves/tokens';
import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { InputOf, TokenSource } from '../../src/contracts/runbook-inputs';
import { orElse } from '../../src/errors';
import { asWarning, check } from '../checks/check';
import { aliveByHeartbeat, hasRole, primaryStable } from '../checks/replication';
import { describeReindex, readReindex, reindexDetail } from '../merkle/trees';
import type { ReindexState } from '../merkle/trees';
import { observe } from './observed';
import type { PlanInput } from './observed';

export interface ReindexRoute {
  readonly tokenSource: TokenSource;
  /** `last_reindex_epoch` before, seconds; 0: never. Absent if this version does not report it. */
  readonly epochBefore?: number;
  /** Whether the status reports the tree as corrupted, whatever the check finds. */
  readonly corruptedByStatus: boolean;
}

const MERKLE_CHECK = 'sys/replication/dr/secondary/merkle-check';
const REINDEX = 'sys/replication/dr/secondary/reindex';

/** A Merkle check needs a token of the DR secondary, and no approval. */
export async function assessMerkleCheck(
  request: PlanInput<'merkleCheck'>,
): Promise<Assessment<Pick<ReindexRoute, 'tokenSource'>>> {
  const { cluster } = request.input;
  const { observed, target, role, reindex } = await observeTree('merkleCheck', request);
  const base = observed.base();
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const { source: tokenSource, checks, warnings } = await observed.tokens(cluster, [MERKLE_CHECK]);
  const needs = { source: tokenSource, recovery: target.seal?.recovery, clusters: [cluster] };
  return {
    ...base,
    preconditions: [role, noReindexUnderWay(reindex, cluster), ...checks],
    plan: observed.plan({
      clusters: [target],
      moves: [
        ...asking(needs),
        readingAfterWait,
        ...obtaining(needs, cluster),
        { step: checkTree(cluster) },
        ...disposing(needs),
      ],
      warnings,
      choices: { tokenSource },
    }),
    route: { tokenSource },
  };
}

/** What speaks against a reindex, what it costs, and what people approve. */
export async function assessDrReindex(request: PlanInput<'drReindex'>): Promise<Assessment<ReindexRoute>> {
  const { input } = request;
  const { cluster, diff, force, skipFlush } = input;
  const { observed, target, others, role, reindex: state } = await observeTree('drReindex', request);
  const base = observed.base('reindex');
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const alive = aliveByHeartbeat(target, 'dr', observed.deployment.limits.heartbeatAgeMs);
  const { source: tokenSource, checks, warnings } = await observed.tokens(cluster, [MERKLE_CHECK, REINDEX]);
  const needs = { source: tokenSource, recovery: target.seal?.recovery, clusters: [cluster] };
  const operation = {
    ...({ kind: 'dr', endpoint: 'secondary/reindex', gate: 'reindex', on: target } as const),
    detail: reindexDetail({ diff, force, skipFlush }),
  };
  return {
    ...base,
    preconditions: [
      role,
      primaryStable(others, cluster),
      asWarning(alive, 'A reindex does not repair a connection.'),
      noReindexUnderWay(state, cluster),
      ...checks,
    ],
    plan: observed.plan({
      clusters: [target, ...others.filter((each) => each.dr?.mode === 'primary')],
      moves: [
        ...asking(needs),
        secondReading,
        ...obtaining(needs, cluster),
        { step: checkTreeBefore(cluster), note: force ? undefined : 'if the tree is sound, the run ends here' },
        { ...reindexing(cluster), operations: [operation] },
        { step: checkTreeAfter(cluster) },
        ...disposing(needs),
      ],
      warnings: [...reindexWarnings(input, others), ...warnings],
      choices: { diff, force, skipFlush, tokenSource },
    }),
    route: { tokenSource, epochBefore: state?.epoch, corruptedByStatus: state?.corrupted === true },
  };
}

/** Reads all clusters, and whether a reindex of the named one is in progress. */
async function observeTree(runbook: 'merkleCheck' | 'drReindex', request: PlanInput<'merkleCheck' | 'drReindex'>) {
  const { cluster } = request.input;
  const observed = await observe(runbook, request, [cluster]);
  const { access, signal } = observed;
  const reindex = await readReindex(access(cluster), signal).catch(orElse(signal, () => undefined));
  const target = observed.of(cluster);
  // A primary has no such endpoints, and is never reindexed first.
  const next =
    target.dr?.mode === 'primary'
      ? `${cluster} is the DR primary: name one of its secondaries. Secondaries are reindexed first; reindexing a primary makes it unusable for part of the time, and no runbook does it.`
      : `Bring ${cluster} back, or make it a DR secondary.`;
  const role = hasRole(target, 'dr', 'secondary', next);
  return { observed, target, others: observed.othersOf(cluster), reindex, role };
}

/** Judged by the stage that the service reports, not by one flag: a state that cannot be read does not count as none. */
function noReindexUnderWay(state: ReindexState | undefined, cluster: string): Check {
  return check('no reindex under way', cluster, state !== undefined && !state.inProgress, {
    observed: state ? describeReindex(state) : 'not read',
    needed: 'reindex_in_progress absent or false',
    next: `Wait until the reindex of ${cluster} has ended; its end shows in the status and in the server log.`,
  });
}

/** What each option costs, and what a reindex costs in any case. */
function reindexWarnings(
  { cluster, diff, force, skipFlush }: InputOf<'drReindex'>,
  others: readonly ClusterObservation[],
): (string | false)[] {
  const otherSecondaries = others.filter((each) => each.dr?.mode === 'secondary').map((each) => each.cluster);
  return [
    `Reindexing ${cluster} can take very long. For part of that time the tree is locked, and ${cluster} accepts no writes from the primary and cannot be promoted.`,
    otherSecondaries.length === 0
      ? `${cluster} is the only DR secondary: until the reindex ends there is no other cluster to fail over to.`
      : `Until the reindex ends, fail over to ${otherSecondaries.join(' or ')} instead.`,
    'A reindex cannot be cancelled once it is started; a node that is killed or loses leadership may lose it.',
    diff && 'diff: slower, because every key is compared to find out what is wrong.',
    force
      ? 'force: the full tree is rebuilt from the storage of this cluster, even if the check finds the tree sound.'
      : 'Nothing is reindexed if the Merkle check finds the tree sound.',
    skipFlush &&
      `skip_flush: a shorter lock, but do not kill a node of ${cluster} until the later flush is done, which nothing reports: an earlier kill loses the result. A clean shutdown flushes.`,
  ];
}
