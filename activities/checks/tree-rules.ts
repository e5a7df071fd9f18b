import type { ReindexOptions } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { DrReindexInput } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { describeReplication, isAlive } from '../observe';
import type { ReindexState } from '../merkle/reindex-state';
import { describeReindex } from '../merkle/reindex-state';
import { check } from './switchover-rule';

export const MERKLE_CHECK = 'sys/replication/dr/secondary/merkle-check';
export const REINDEX = 'sys/replication/dr/secondary/reindex';

/** The observation of a cluster and those of the other members of its DR set. */
export function setOf(
  deployment: Deployment,
  cluster: string,
  observations: readonly ClusterObservation[],
): { readonly target: ClusterObservation | undefined; readonly others: readonly ClusterObservation[] } {
  const { members } = drSetOf(deployment, cluster);
  return {
    target: observations.find((each) => each.cluster === cluster),
    others: observations.filter((each) => each.cluster !== cluster && members.includes(each.cluster)),
  };
}

/** Both procedures are for DR secondaries: a primary has no such endpoints, and is never reindexed first. */
export function isDrSecondary(target: ClusterObservation | undefined, cluster: string): Precondition {
  const primary = target?.dr?.mode === 'primary';
  return check(
    'DR secondary',
    cluster,
    target?.dr?.mode === 'secondary',
    target?.dr ? describeReplication(target.dr) : (target?.error ?? 'not read'),
    'a DR secondary that answers',
    primary
      ? `${cluster} is the DR primary: name one of its secondaries. Secondaries are reindexed first; reindexing a primary makes it unusable for part of the time and is not a runbook.`
      : `Bring ${cluster} back, or make it a DR secondary.`,
  );
}

export function noReindexUnderWay(state: ReindexState | undefined, cluster: string): Precondition {
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
export function primaryStable(
  target: ClusterObservation | undefined,
  others: readonly ClusterObservation[],
  cluster: string,
  heartbeatAgeMs: number,
): Precondition[] {
  const primaries = others.filter((each) => each.dr?.mode === 'primary').map((each) => each.cluster);
  const unread = others.filter((each) => each.dr === undefined).map((each) => each.cluster);
  return [
    check(
      'no change of the primary under way',
      cluster,
      primaries.length === 1,
      primaries.length === 0
        ? `no DR primary answers${unread.length === 0 ? '' : ` (${unread.join(', ')} not read)`}`
        : `primary: ${primaries.join(', ')}`,
      'exactly one DR primary answers in the DR set',
      `A failover may need ${cluster}: finish it, or bring the primary back, before a reindex.`,
    ),
    check(
      'connection alive by heartbeat',
      cluster,
      isAlive(target?.dr, heartbeatAgeMs),
      describeReplication(target?.dr),
      `connected, heartbeat at most ${heartbeatAgeMs / 1_000} s old`,
      'A reindex does not mend a connection.',
      'warn',
    ),
  ];
}

/** The options as the plan allows them, word for word: another choice needs another approval. */
export function reindexDetail({ diff, force, skipFlush }: ReindexOptions): string {
  return `diff=${diff}, force=${force}, skip_flush=${skipFlush}`;
}

/** What each option costs, and what a reindex costs in any case. */
export function reindexWarnings(input: DrReindexInput, others: readonly ClusterObservation[]): string[] {
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

export function reindexSteps({ cluster, force }: DrReindexInput): string[] {
  return [
    `Check the Merkle tree of ${cluster}${force ? '' : '; end here where it is sound'}`,
    `Reindex ${cluster} and follow it to its end`,
    `Check the Merkle tree of ${cluster} again`,
    'Delete the operation tokens',
  ];
}
