import type { Follower } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { PerformancePromotionInput } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { hasRole, mayFollow, onlyPrimary, takesPart, withoutKnownBugs } from './follow-rules';
import { describeReplication, isAlive } from '../observe';
import { describeFilter } from '../filters/paths-filters';
import { check } from './switchover-rule';
import { keptAway } from '../filters/wanted-filter';

/** The old primary, the new one, and the other secondaries of the performance set. */
interface PromotionSides {
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  readonly others: readonly ClusterObservation[];
  readonly silent: readonly ClusterObservation[];
}

export interface PromotionWorld extends PromotionSides {
  readonly input: PerformancePromotionInput;
  readonly deployment: Deployment;
  readonly observations: readonly ClusterObservation[];
}

/** Who is primary is read, never configured; a primary that is gone must be named where several clusters are silent. */
export function findPromotionSides(
  input: PerformancePromotionInput,
  observations: readonly ClusterObservation[],
): PromotionSides | { readonly refused: Precondition } {
  const to = observations.find(({ cluster }) => cluster === input.to);
  const candidates = observations.filter((each) =>
    input.mode === 'planned' ? each.performance?.mode === 'primary' : !each.reachable,
  );
  const named = observations.find(({ cluster }) => cluster === input.from);
  const from = input.from === undefined ? (candidates.length === 1 ? candidates[0] : undefined) : named;
  if (!to || !from || from === to) {
    return {
      refused: check(
        'a performance primary and its secondary',
        undefined,
        false,
        observations
          .map(
            ({ cluster, reachable, performance, error }) =>
              `${cluster}: ${reachable ? describeReplication(performance) : (error ?? 'not readable')}`,
          )
          .join('; '),
        input.mode === 'planned'
          ? `${input.to} is a performance secondary and ${input.from ?? 'one other cluster'} is the primary`
          : `${input.to} is a performance secondary and ${input.from ?? 'one other cluster'} is gone`,
        from === to
          ? `${input.to} is the performance primary already: there is nothing to do.`
          : input.mode === 'planned'
            ? 'Where no primary answers, start with {"mode": "unplanned"}.'
            : 'Say in "from" which cluster was the performance primary.',
      ),
    };
  }
  const setId = to.performance?.setId;
  const rest = observations.filter((each) => each !== from && each !== to);
  return {
    from,
    to,
    others: rest.filter((each) => each.performance?.mode === 'secondary' && each.performance.setId === setId),
    // A DR secondary, and a cluster of its own, are none; one that says nothing may be one.
    silent: rest.filter((each) => !each.reachable),
  };
}

/** What must hold of the cluster that becomes primary, and of those that are to follow it. */
export function judgeHeir({ input, deployment, to, others, silent, observations }: PromotionWorld): Precondition[] {
  const { members } = drSetOf(deployment, input.to);
  const protects = observations.filter(
    (each) => members.includes(each.cluster) && each !== to && each.dr?.mode === 'secondary',
  );
  return [
    ...takesPart(to),
    hasRole(to, 'performance', 'secondary', `Only a performance secondary can be promoted.`),
    check(
      'no reindex under way',
      to.cluster,
      to.performance?.reindexInProgress !== true,
      to.performance?.reindexInProgress ? 'reindex in progress' : 'none',
      'none',
      'Wait until the reindex has ended.',
    ),
    check(
      'Merkle tree not corrupted',
      to.cluster,
      to.performance?.corruptedMerkleTree !== true,
      to.performance?.corruptedMerkleTree ? 'corrupted' : 'not told to be corrupted',
      'not corrupted',
      'Choose another secondary, or repair this one first.',
    ),
    check(
      'DR secondary of the new primary',
      to.cluster,
      protects.length > 0,
      protects.map(({ cluster, dr }) => `${cluster}: ${describeReplication(dr)}`).join('; ') || 'none',
      'a DR secondary of its own, so that the new primary is protected',
      `Onboard a DR secondary of ${to.cluster} before or soon after.`,
      'warn',
    ),
    ...others.flatMap((each) => [
      mayFollow(to, each),
      ...(input.repoint === 'token' ? [] : [hasId(each)]),
      ...(input.repoint === 'token'
        ? withoutKnownBugs([each], 'performance', 'update-primary by token', input.acknowledgeKnownBugs)
        : withoutKnownBugs([each], 'performance', 'update-primary by addresses', input.acknowledgeKnownBugs)),
    ]),
    ...silent.map(({ cluster, error }) =>
      check(
        'other clusters can be read',
        cluster,
        false,
        error ?? 'not readable',
        'readable',
        `Where ${cluster} is a performance secondary, re-point it later with secondaryRepointing.`,
        'warn',
      ),
    ),
  ];
}

/** By addresses a secondary keeps its id, under which its filter must be: one that tells none cannot be re-pointed so. */
function hasId({ cluster, performance }: ClusterObservation): Precondition {
  const id = performance?.secondaryId;
  return check(
    'its id is known',
    cluster,
    Boolean(id),
    id ? `id ${id}` : `${describeReplication(performance)}, no id`,
    'the id of its activation token, which it keeps: its paths filter is written under it',
    'Start again with {"repoint": "token"}.',
  );
}

/** Planned: both sides answer, and the new primary has, and hears, everything. */
export function judgePlanned({ deployment, from, to, observations }: PromotionWorld): Precondition[] {
  const [sent, received] = [from.performance?.lastWal, to.performance?.lastRemoteWal];
  const { heartbeatAgeMs, lagWalEntries } = deployment.limits;
  const sameRoot =
    from.performance?.merkleRoot !== undefined && from.performance.merkleRoot === to.performance?.merkleRoot;
  const entries =
    sent === undefined || received === undefined || received === '0' ? undefined : BigInt(sent) - BigInt(received);
  const sameSet = from.performance?.setId !== undefined && from.performance.setId === to.performance?.setId;
  return [
    ...takesPart(from),
    hasRole(from, 'performance', 'primary', `The performance primary is not ${from.cluster}: correct "from".`),
    ...onlyPrimary('performance', from, observations),
    check(
      'same performance replication set',
      to.cluster,
      sameSet,
      to.performance?.setId ?? 'none',
      from.performance?.setId ?? 'the set of the primary',
      `${to.cluster} replicates from another primary.`,
    ),
    check(
      'streams, alive by heartbeat',
      to.cluster,
      to.performance?.state === 'stream-wals' && isAlive(to.performance, heartbeatAgeMs),
      describeReplication(to.performance),
      `stream-wals, connected, heartbeat at most ${heartbeatAgeMs / 1000} s old`,
      `Find out why ${to.cluster} hears nothing from ${from.cluster}.`,
    ),
    check(
      'replication lag',
      to.cluster,
      entries === undefined ? sameRoot : entries <= BigInt(lagWalEntries),
      entries === undefined
        ? `last WAL ${sent ?? 'not told'}, last remote WAL ${received ?? 'not told'}, ${sameRoot ? 'equal' : 'no equal'} Merkle roots`
        : `${entries < 0n ? 0n : entries} WAL entries`,
      `at most ${lagWalEntries} WAL entries, or equal Merkle roots`,
      `Wait until ${to.cluster} has caught up.`,
    ),
    mayFollow(from, to),
  ];
}

/** A new primary that never got everything has not all data: what was kept away from it is lost to all. */
export function judgeFilterOf({ input, to }: PromotionWorld, heir: Follower): Precondition {
  const { filter } = heir;
  const accepted = input.mode === 'unplanned' || input.acceptLoss === 'bounded';
  return check(
    'the new primary has all data',
    to.cluster,
    filter === undefined,
    filter === undefined ? 'no paths filter' : `${describeFilter(filter)}: it never got ${keptAway(filter)}`,
    'a secondary without paths filter',
    accepted
      ? 'What was kept away from it is lost to every cluster that follows it. Choose another secondary if there is one.'
      : 'Choose another secondary; remove its filter with filterReconciliation first; or accept the loss with {"acceptLoss": "bounded"}.',
    accepted ? 'warn' : 'fail',
  );
}
