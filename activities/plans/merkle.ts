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
  /** `last_reindex_epoch` before, seconds; 0: never. Absent where this version does not tell it. */
  readonly epochBefore?: number;
  /** The status says that the tree is corrupted, whatever the check can tell. */
  readonly corruptedByStatus: boolean;
}

const MERKLE_CHECK = 'sys/replication/dr/secondary/merkle-check';
const REINDEX = 'sys/replication/dr/secondary/reindex';

/** A Merkle check needs a token of the DR secondary, and nobody's approval. */
export async function assessMerkleCheck(
  request: PlanInput<InputOf<'merkleCheck'>>,
): Promise<Assessment<Pick<ReindexRoute, 'tokenSource'>>> {
  const { cluster } = request.input;
  const { observed, target, role, reindex } = await observeTree('merkleCheck', request);
  const base = observed.base();
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const { source: tokenSource, checks, warnings } = await observed.tokens(cluster, [MERKLE_CHECK]);
  return {
    ...base,
    preconditions: [role, noReindexUnderWay(reindex, cluster), ...checks],
    plan: observed.plan({
      clusters: [target],
      operations: [],
      warnings,
      steps: [`Check the Merkle tree of ${cluster}`, 'Delete the operation tokens'],
      choices: { tokenSource },
    }),
    route: { tokenSource },
  };
}

/** What stands against a reindex, what it costs, and what is to be approved. */
export async function assessDrReindex(request: PlanInput<InputOf<'drReindex'>>): Promise<Assessment<ReindexRoute>> {
  const { input } = request;
  const { cluster, diff, force, skipFlush } = input;
  const { observed, target, others, role, reindex } = await observeTree('drReindex', request);
  const base = observed.base('reindex');
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const alive = aliveByHeartbeat(target, 'dr', observed.deployment.limits.heartbeatAgeMs);
  const { source: tokenSource, checks, warnings } = await observed.tokens(cluster, [MERKLE_CHECK, REINDEX]);
  const detail = reindexDetail({ diff, force, skipFlush });
  return {
    ...base,
    preconditions: [
      role,
      primaryStable(others, cluster),
      asWarning(alive, 'A reindex does not mend a connection.'),
      noReindexUnderWay(reindex, cluster),
      ...checks,
    ],
    plan: observed.plan({
      clusters: [target, ...others.filter((each) => each.dr?.mode === 'primary')],
      operations: [{ operation: 'dr.secondary.reindex', on: target, detail }],
      warnings: [...reindexWarnings(input, others), ...warnings],
      steps: [
        `Check the Merkle tree of ${cluster}${force ? '' : '; end here where it is sound'}`,
        `Reindex ${cluster} and follow it to its end`,
        `Check the Merkle tree of ${cluster} again`,
        'Delete the operation tokens',
      ],
      choices: { diff, force, skipFlush, tokenSource },
    }),
    route: { tokenSource, epochBefore: reindex?.epoch, corruptedByStatus: reindex?.corrupted === true },
  };
}

/** Reads all clusters, and whether a reindex of the named one is under way. */
async function observeTree(
  runbook: 'merkleCheck' | 'drReindex',
  request: PlanInput<InputOf<'merkleCheck'> | InputOf<'drReindex'>>,
) {
  const { cluster } = request.input;
  const observed = await observe(runbook, request, [cluster]);
  const { access, signal } = observed;
  const reindex = await readReindex(access(cluster), signal).catch(orElse(signal, () => undefined));
  const target = observed.of(cluster);
  // A primary has no such endpoints, and is never reindexed first.
  const next =
    target.dr?.mode === 'primary'
      ? `${cluster} is the DR primary: name one of its secondaries. Secondaries are reindexed first; reindexing a primary makes it unusable for part of the time and is not a runbook.`
      : `Bring ${cluster} back, or make it a DR secondary.`;
  const role = hasRole(target, 'dr', 'secondary', next);
  return { observed, target, others: observed.othersOf(cluster), reindex, role };
}

/** By the stage that the service tells, not by one flag: what cannot be read is not taken for none. */
function noReindexUnderWay(state: ReindexState | undefined, cluster: string): Check {
  return check('no reindex under way', cluster, state !== undefined && !state.inProgress, {
    observed: state ? describeReindex(state) : 'not read',
    needed: 'reindex_in_progress absent or false',
    next: `Wait until the reindex of ${cluster} is over; its end shows in the status and in the server log.`,
  });
}

/** What each option costs, and what a reindex costs in any case. */
function reindexWarnings(
  { cluster, diff, force, skipFlush }: InputOf<'drReindex'>,
  others: readonly ClusterObservation[],
): (string | false)[] {
  const otherSecondaries = others.filter((each) => each.dr?.mode === 'secondary').map((each) => each.cluster);
  return [
    `Reindexing ${cluster} can take very long; for a part of it the tree is locked, and ${cluster} takes no writes from the primary and cannot be promoted.`,
    otherSecondaries.length === 0
      ? `${cluster} is the only DR secondary: until the end there is no other one to fail over to.`
      : `Until the end fail over to ${otherSecondaries.join(' or ')} instead.`,
    'A reindex that was started cannot be cancelled; a node that is killed or loses leadership may lose it.',
    diff && 'diff: slower, every key is compared, to find out what is wrong.',
    force
      ? 'force: the whole tree is rebuilt from what the storage of this cluster holds, and it is done although the check may find the tree sound.'
      : 'Nothing is reindexed where the Merkle check finds the tree sound.',
    skipFlush &&
      `skip_flush: a shorter lock, but no node of ${cluster} may be killed until the flush is done afterwards, which nothing tells; a kill before loses the result. A clean shutdown flushes.`,
  ];
}
