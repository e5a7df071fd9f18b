import type { PerformancePromotionActivities } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { ActivityDependencies } from '../dependencies';
import { demandSameOutage } from '../approvals/approval-age';
import { gateOf, verifyBeginning, verifyOperation } from '../approvals/authority';
import type { ClusterAccess, Clusters } from '../clusters';
import type { Execution } from '../execution';
import { executeChange } from '../execution';
import { mayBeOneSet } from '../checks/follow-rules';
import { describeReplication, isAlive } from '../observe';
import { primaryClusterAddrOf } from '../joining/onboarding-primary';
import { readKind } from '../joining/onboarding-read';
import { awaitClusterId } from '../tokens/operation-token';
import { judgeGone } from '../joining/performance-gone';
import { observeDeployment } from '../approvals/planning';
import { inPlaceOf } from '../plans/promotion-plan';
import { attestPromotion } from './primary-changes';
import type { ProofMemory } from './prove-not-primary';
import { demandNoLoss, lastWriteToReach, latest } from '../evidence/no-loss';
import { askRole, proveNotPrimary, refusePrimary } from './prove-not-primary';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm } from '../read-act-confirm';

type RoleActivities = Pick<PerformancePromotionActivities, 'demotePerformancePrimary' | 'promotePerformanceSecondary'>;
type Promotion = Parameters<RoleActivities['promotePerformanceSecondary']>[0];

/** "Not in sync" is 503, or 400 by another reading (facts 2, row 32): waited for, and never turned into force. */
const NOT_YET: ReadonlySet<string> = new Set([
  'NOT_CAUGHT_UP',
  'SERVICE_UNAVAILABLE',
  'BAD_REQUEST',
  'NO_ACTIVE_NODE',
  'UNREACHABLE',
  'TEMPORAL_UNAVAILABLE',
]);

/** The two role changes of performance replication (interface 4.2: `primary/demote`, `secondary/promote`). */
export function createPerformanceRoleActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): RoleActivities {
  return {
    demotePerformancePrimary: executeChange(async (input, execution) => {
      const { deployment, cluster, authority, successor, reached } = input;
      const { signal, run } = execution;
      const { limits } = clusters.deployment(deployment);
      const [access, next] = [clusters.of(deployment, cluster), clusters.of(deployment, successor)];
      const [clusterId, nextId] = await Promise.all(
        [access, next].map((each) => awaitClusterId(each, execution, limits.demoteMs)),
      );
      const doing = {
        operation: 'performance.primary.demote',
        on: { cluster, clusterId: clusterId ?? '' },
        with: { cluster: successor, clusterId: nextId ?? '' },
      } as const;
      const { inventory } = dependencies;
      const { choices } = await verifyOperation(inventory, run, deployment, authority, doing);
      const token = await access.credential();
      let walBefore: string | undefined;
      const changed = await readActConfirm(execution, {
        read: () => readKind(access, 'performance', signal),
        until: (state) => state.mode === 'secondary',
        budgetMs: limits.demoteMs,
        describe: describeReplication,
        needed: `${cluster} is a performance secondary`,
        cluster,
        allow: (state) => {
          if (state.mode !== 'primary') throw wrongRole(cluster, 'primary', state);
          walBefore = state.lastWal ?? walBefore;
        },
        act: async () => {
          const pair = { deployment, kind: 'performance', primary: cluster, successor } as const;
          const written =
            choices['acceptLoss'] === 'bounded'
              ? undefined
              : await beforeSending(() => lastWriteToReach(clusters, execution, pair));
          const wal = latest(reached, written);
          await beforeSending(() => verifyBeginning(inventory, run, deployment, authority, doing));
          // The last look before the point of no return: the successor must be there and must be a live secondary.
          const seen = await beforeSending(() => readKind(next, 'performance', signal));
          const ready =
            seen.mode === 'secondary' &&
            seen.state === 'stream-wals' &&
            isAlive(seen, limits.heartbeatAgeMs) &&
            (wal === undefined || BigInt(seen.lastRemoteWal ?? '0') >= BigInt(wal));
          if (!ready) throw notReady(cluster, successor, seen, wal);
          execution.throwIfCancelled();
          return access.client.performance.primary.demote({ token, signal, timeoutMs: CHANGE_TIMEOUT_MS });
        },
      });
      await refuseSecondPrimary(clusters, deployment, cluster, changed.state.setId, signal);
      return {
        outcome: changed.outcome,
        observed: `${cluster}: ${describeReplication(changed.state)}; no other performance primary in its set`,
        calledAt: changed.calledAt,
        confirmedAt: Date.now(),
        calls: changed.calls,
        walBefore,
      };
    }),

    promotePerformanceSecondary: executeChange(async (input, execution) => {
      const { deployment, cluster, otherCluster, authority, force = false } = input;
      const { signal, run } = execution;
      const { limits } = clusters.deployment(deployment);
      const access = clusters.of(deployment, cluster);
      const clusterId = await awaitClusterId(access, execution, limits.promoteMs);
      const operation = force ? 'performance.secondary.promote-force' : 'performance.secondary.promote';
      const { choices, operations, requestedBy } = await verifyOperation(
        dependencies.inventory,
        run,
        deployment,
        authority,
        {
          operation,
          on: { cluster, clusterId },
          detail: inPlaceOf(otherCluster),
        },
      );
      const memory: ProofMemory = { kind: 'performance' };
      const unplanned = choices['mode'] === 'unplanned';
      const judged = { deployment, gate: gateOf(operation), requestedBy, authority };
      const prove = unplanned
        ? () => demandGone(dependencies, clusters, execution, input, choices['overrideDrSecondary'] === true, memory)
        : async () => {
            const proof = proofOf(clusters, input);
            await proveNotPrimary(dependencies, run, proof, signal, memory);
            // The old primary has every write: promoted back it needs no evidence.
            const back = operations.some(
              (each) => each.operation === 'performance.primary.demote' && each.on.cluster === cluster,
            );
            if (back || choices['acceptLoss'] === 'bounded') return;
            const { candidate: newPrimary, other: oldPrimary } = proof;
            await demandNoLoss(dependencies, execution, { deployment, kind: 'performance', oldPrimary, newPrimary });
          };
      const token = await access.credential();
      const changed = await readActConfirm(execution, {
        read: () => readKind(access, 'performance', signal),
        until: (state) => state.mode === 'primary',
        budgetMs: limits.promoteMs,
        describe: describeReplication,
        needed: `${cluster} is performance primary`,
        cluster,
        allow: (state) => {
          if (state.mode !== 'secondary') throw wrongRole(cluster, 'secondary', state);
        },
        notYet: (error) => NOT_YET.has(error.code),
        act: async () => {
          await beforeSending(async () => {
            const state = await readKind(access, 'performance', signal);
            await refuseSecondPrimary(clusters, deployment, cluster, state.setId, signal);
            await prove();
            if (unplanned) await demandSameOutage(dependencies.inventory, run, judged, state);
          });
          execution.throwIfCancelled();
          const primaryClusterAddr = primaryClusterAddrOf(access.entry);
          return access.client.performance.secondary.promote(
            { primaryClusterAddr, ...(force ? { force: true } : {}) },
            { token, signal, timeoutMs: CHANGE_TIMEOUT_MS },
          );
        },
      });
      return attestPromotion(
        dependencies,
        run,
        { deployment, cluster },
        {
          outcome: changed.outcome,
          observed: `${cluster}: ${describeReplication(changed.state)}`,
          calledAt: changed.calledAt,
          confirmedAt: Date.now(),
          calls: changed.calls,
        },
      );
    }),
  };
}

function proofOf(
  clusters: Clusters,
  { deployment, cluster, otherCluster }: Pick<Promotion, 'deployment' | 'cluster' | 'otherCluster'>,
) {
  const [candidate, other] = [clusters.of(deployment, cluster), clusters.of(deployment, otherCluster)];
  return { deployment, gate: 'promote', candidate, other } as const;
}

/** The last look of an unplanned promotion: the primary says nothing or proves that it is none, and every sign is still there. */
async function demandGone(
  dependencies: ActivityDependencies,
  clusters: Clusters,
  { signal, run }: Execution,
  { deployment: name, cluster, otherCluster }: Promotion,
  overrideDrSecondary: boolean,
  memory: ProofMemory,
): Promise<void> {
  const lost = clusters.of(name, otherCluster);
  const said = await askRole(lost, signal, 'performance');
  refusePrimary(otherCluster, said, 'performance');
  // What it says of itself is proven as in a planned promotion; the signs are looked at whatever it says.
  if (said.active !== undefined)
    await proveNotPrimary(
      dependencies,
      run,
      proofOf(clusters, { deployment: name, cluster, otherCluster }),
      signal,
      memory,
    );
  const observations = await observeDeployment(clusters, name, signal);
  const [from, to] = [otherCluster, cluster].map((each) => observations.find((seen) => seen.cluster === each));
  if (!from || !to) throw new TypeError('a cluster of the deployment was not read');
  const deployment = clusters.deployment(name);
  const against = judgeGone({ deployment, from, to, observations, overrideDrSecondary }).filter(
    ({ verdict }) => verdict === 'fail',
  );
  const [first] = against;
  if (!first) return;
  throw new RunbookError('PRECONDITION_FAILED', `It is not sure any more that ${otherCluster} is gone.`, {
    cluster: first.cluster,
    observed: against.map((each) => `${each.name}: ${each.observed}`).join('; '),
    needed: against.map((each) => each.needed).join('; '),
    next: first.next,
  });
}

/** No other cluster that may be of the set says that it is primary. One that cannot be read was shown in the plan. */
async function refuseSecondPrimary(
  clusters: Clusters,
  deployment: string,
  cluster: string,
  setId: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const others = clusters.all(deployment).filter(({ entry }) => entry.name !== cluster);
  const primaries = await Promise.all(others.map((other) => primaryOf(other, setId, signal)));
  const [primary] = primaries.filter((name) => name !== undefined);
  if (primary === undefined) return;
  throw new RunbookError('STATE_DIVERGED', `${primary} is performance primary of the same set.`, {
    cluster: primary,
    observed: 'primary',
    needed: `no performance primary beside ${cluster}`,
    next: 'Do not promote anything. Find out which of them clients write to.',
  });
}

async function primaryOf(
  access: ClusterAccess,
  setId: string | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const state = await readKind(access, 'performance', signal);
    return state.mode === 'primary' && mayBeOneSet(state.setId, setId) ? access.entry.name : undefined;
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    return undefined;
  }
}

function wrongRole(cluster: string, needed: 'primary' | 'secondary', state: ReplicationObservation): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `${cluster} is no performance ${needed}.`, {
    cluster,
    observed: describeReplication(state),
    needed,
    retryable: state.mode === 'unknown',
  });
}

function notReady(
  cluster: string,
  successor: string,
  seen: ReplicationObservation,
  reached: string | undefined,
): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `${successor} could not take over; ${cluster} was not demoted.`, {
    cluster: successor,
    observed: describeReplication(seen),
    needed: `secondary, stream-wals, connected, fresh heartbeat${reached === undefined ? '' : `, last remote WAL at least ${reached}`}`,
    next: `Find out why ${successor} is not ready, then retry.`,
  });
}
