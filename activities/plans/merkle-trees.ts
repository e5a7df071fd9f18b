import type { Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { DrReindexInput, MerkleCheckInput, TokenSource } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import { drSetOf } from '../../src/inventory';
import { identityOf, planDocument } from '../approvals/planning';
import { asWarning, check } from '../checks/check';
import { aliveByHeartbeat } from '../checks/replication';
import { hasRole } from '../checks/roles';
import { assessTokenSource } from '../checks/tokens';
import { currentExecution } from '../execution';
import { describeReindex, readReindex } from '../merkle/reindex-state';
import type { ReindexState } from '../merkle/reindex-state';
import { observe } from './observed';
import type { Observed, PlanInput } from './observed';

export interface MerkleRoute {
  readonly tokenSource: TokenSource;
}

export interface ReindexRoute extends MerkleRoute {
  /** `last_reindex_epoch` before, seconds; 0: never. Absent where this version does not tell it. */
  readonly epochBefore?: number;
  /** The status says that the tree is corrupted, whatever the check can tell. */
  readonly corruptedByStatus: boolean;
}

/** The options of a reindex (interface 4.1: `reindex`). */
export interface ReindexOptions {
  readonly diff: boolean;
  readonly force: boolean;
  readonly skipFlush: boolean;
}

const MERKLE_CHECK = 'sys/replication/dr/secondary/merkle-check';
const REINDEX = 'sys/replication/dr/secondary/reindex';

interface TreeObserved extends Observed {
  readonly target: ClusterObservation;
  /** The other members of its DR set. */
  readonly others: readonly ClusterObservation[];
  readonly state: ReindexState | undefined;
  readonly role: Check;
}

/** A Merkle check needs a token of the DR secondary, and nobody's approval. */
export async function assessMerkleCheck({
  input,
  ownFingerprint,
}: PlanInput<MerkleCheckInput>): Promise<Assessment<MerkleRoute>> {
  const { cluster } = input;
  const seen = await observeTree(input);
  const base = seen.base({});
  const { target, role, state } = seen;
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const { source: tokenSource, checks, warnings } = await tokensFor(seen, input, ownFingerprint, [MERKLE_CHECK]);
  return {
    ...base,
    preconditions: [role, noReindexUnderWay(state, cluster), ...checks],
    plan: planDocument({
      runbook: 'merkleCheck',
      input,
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
export async function assessDrReindex({
  input,
  ownFingerprint,
}: PlanInput<DrReindexInput>): Promise<Assessment<ReindexRoute>> {
  const { cluster, diff, force, skipFlush } = input;
  const seen = await observeTree(input);
  const base = seen.base({ reindex: true });
  const { target, others, role, state } = seen;
  if (role.verdict === 'fail') return { ...base, preconditions: [role] };
  const { heartbeatAgeMs } = seen.deployment.limits;
  const alive = aliveByHeartbeat(target, 'dr', heartbeatAgeMs);
  const {
    source: tokenSource,
    checks,
    warnings,
  } = await tokensFor(seen, input, ownFingerprint, [MERKLE_CHECK, REINDEX]);
  return {
    ...base,
    preconditions: [
      role,
      primaryStable(others, cluster),
      asWarning(alive, 'A reindex does not mend a connection.'),
      noReindexUnderWay(state, cluster),
      ...checks,
    ],
    plan: planDocument({
      runbook: 'drReindex',
      input,
      clusters: [target, ...others.filter((each) => each.dr?.mode === 'primary')],
      operations: [
        {
          operation: 'dr.secondary.reindex',
          on: identityOf(target),
          detail: reindexDetail({ diff, force, skipFlush }),
        },
      ],
      warnings: [...reindexWarnings(input, others), ...warnings],
      steps: reindexSteps(input),
      choices: { diff, force, skipFlush, tokenSource },
    }),
    route: { tokenSource, epochBefore: state?.epoch, corruptedByStatus: state?.corrupted === true },
  };
}

/** Reads all clusters, and whether a reindex of the named one is under way. */
async function observeTree({
  deployment: name,
  cluster,
}: {
  readonly deployment: string;
  readonly cluster: string;
}): Promise<TreeObserved> {
  const { signal } = currentExecution();
  const seen = await observe(name, [cluster]);
  const state = await readReindex(seen.access(cluster), signal).catch((error: unknown) => {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return undefined;
  });
  const { members } = drSetOf(seen.deployment, cluster);
  const target = seen.of(cluster);
  // A primary has no such endpoints, and is never reindexed first.
  const next =
    target.dr?.mode === 'primary'
      ? `${cluster} is the DR primary: name one of its secondaries. Secondaries are reindexed first; reindexing a primary makes it unusable for part of the time and is not a runbook.`
      : `Bring ${cluster} back, or make it a DR secondary.`;
  return {
    ...seen,
    target,
    others: seen.observations.filter((each) => each.cluster !== cluster && members.includes(each.cluster)),
    state,
    role: hasRole(target, 'dr', 'secondary', next),
  };
}

function tokensFor(
  { deployment, access, target, others }: TreeObserved,
  { cluster, tokenSource: wanted }: MerkleCheckInput | DrReindexInput,
  ownFingerprint: string | undefined,
  paths: readonly string[],
) {
  const { signal } = currentExecution();
  const primary = others.find((each) => each.reachable && each.dr?.mode === 'primary');
  return assessTokenSource({
    deployment,
    secondary: access(cluster),
    observation: target,
    primary: primary && access(primary.cluster),
    wanted,
    paths,
    ownFingerprint,
    signal,
  });
}

/** By the stage that the service tells, not by one flag: what cannot be read is not taken for none. */
function noReindexUnderWay(state: ReindexState | undefined, cluster: string): Check {
  return check(
    'no reindex under way',
    cluster,
    state !== undefined && !state.inProgress,
    state ? describeReindex(state) : 'not read',
    'reindex_in_progress absent or false',
    `Wait until the reindex of ${cluster} is over; its end shows in the status and in the server log.`,
  );
}

/** While the primary changes, or is gone, the secondary may be needed: its tree must not be locked then. */
function primaryStable(others: readonly ClusterObservation[], cluster: string): Check {
  const primaries = others.filter((each) => each.dr?.mode === 'primary').map((each) => each.cluster);
  const unread = others.filter((each) => each.dr === undefined).map((each) => each.cluster);
  return check(
    'no change of the primary under way',
    cluster,
    primaries.length === 1,
    primaries.length === 0
      ? `no DR primary answers${unread.length === 0 ? '' : ` (${unread.join(', ')} not read)`}`
      : `primary: ${primaries.join(', ')}`,
    'exactly one DR primary answers in the DR set',
    `A failover may need ${cluster}: finish it, or bring the primary back, before a reindex.`,
  );
}

/** The options as the plan allows them, word for word: another choice needs another approval. */
export function reindexDetail({ diff, force, skipFlush }: ReindexOptions): string {
  return `diff=${diff}, force=${force}, skip_flush=${skipFlush}`;
}

/** What each option costs, and what a reindex costs in any case. */
function reindexWarnings(input: DrReindexInput, others: readonly ClusterObservation[]): string[] {
  const { cluster, diff, force, skipFlush } = input;
  const otherSecondaries = others.filter((each) => each.dr?.mode === 'secondary').map((each) => each.cluster);
  return [
    `Reindexing ${cluster} can take very long; for a part of it the tree is locked, and ${cluster} takes no writes from the primary and cannot be promoted.`,
    otherSecondaries.length === 0
      ? `${cluster} is the only DR secondary: until the end there is no other one to fail over to.`
      : `Until the end fail over to ${otherSecondaries.join(' or ')} instead.`,
    'A reindex that was started cannot be cancelled; a node that is killed or loses leadership may lose it.',
    ...(diff ? ['diff: slower, every key is compared, to find out what is wrong.'] : []),
    ...(force
      ? [
          'force: the whole tree is made anew from what the storage of this cluster holds, and it is done although the check may find the tree sound.',
        ]
      : ['Nothing is reindexed where the Merkle check finds the tree sound, or is not available.']),
    ...(skipFlush
      ? [
          `skip_flush: a shorter lock, but no node of ${cluster} may be killed until the flush is done afterwards, which nothing tells; a kill before loses the result. A clean shutdown flushes.`,
        ]
      : []),
  ];
}

function reindexSteps({ cluster, force }: DrReindexInput): string[] {
  return [
    `Check the Merkle tree of ${cluster}${force ? '' : '; end here where it is sound'}`,
    `Reindex ${cluster} and follow it to its end`,
    `Check the Merkle tree of ${cluster} again`,
    'Delete the operation tokens',
  ];
}
