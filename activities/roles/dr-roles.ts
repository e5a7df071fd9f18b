import type { DemoteResult, RunbookActivities } from '../../src/contracts/activities';
import type { ReplicationObservation, WalIndex } from '../../src/contracts/observations';
import { sidesOfSwitchover } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { ActivityDependencies } from '../dependencies';
import type { ClusterAccess, Clusters } from '../clusters';
import { executeChange } from '../execution';
import { attestPromotion } from './primary-changes';
import { describeReplication, isAlive, readActive } from '../observe';
import { awaitClusterId, openOperationToken, readClusterId } from '../tokens/operation-token';
import { demandYoungApprovals, lastGateOf, otherSideOf, verifyOperation } from '../approvals/authority';
import type { ProofMemory } from './prove-not-primary';
import { demandNoLoss, lastWriteToReach, latest } from '../evidence/no-loss';
import { askRole, proveNotPrimary, refusePrimary } from './prove-not-primary';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm } from '../read-act-confirm';

/** Reads the DR status of the active node, found anew; throws what may be tried again while the node restarts. */
export function readDr(access: ClusterAccess, signal: AbortSignal): Promise<ReplicationObservation> {
  return readActive(access, signal, (node) => access.client.dr.status({ node, signal }));
}

/** The two role changes of a switchover (interface 4.1: `dr/primary/demote`, `dr/secondary/promote`). */
export function createDrRoleActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<RunbookActivities, 'demoteDrPrimary' | 'promoteDrSecondary'> {
  return {
    demoteDrPrimary: executeChange(
      async ({ deployment, cluster, authority, reached }, execution): Promise<DemoteResult> => {
        const { signal, run } = execution;
        const { inventory } = dependencies;
        const access = clusters.of(deployment, cluster);
        const { limits } = clusters.deployment(deployment);
        const operation = 'dr.primary.demote';
        const on = { cluster, clusterId: await awaitClusterId(access, execution, limits.demoteMs) };
        const { cluster: successor } = otherSideOf(deployment, authority, { operation, on });
        const next = clusters.of(deployment, successor);
        const successorId = await awaitClusterId(next, execution, limits.demoteMs);
        const plan = await verifyOperation(inventory, run, deployment, authority, {
          ...{ operation, on },
          with: { cluster: successor, clusterId: successorId },
        });
        const token = await access.credential();
        let walBefore: string | undefined;

        const changed = await readActConfirm(execution, {
          read: () => readDr(access, signal),
          until: (dr) => dr.mode === 'secondary',
          budgetMs: limits.demoteMs,
          describe: describeReplication,
          needed: `${cluster} is a DR secondary`,
          cluster,
          allow: (dr) => {
            if (dr.mode !== 'primary') {
              throw new RunbookError('PRECONDITION_FAILED', `${cluster} is neither DR primary nor DR secondary.`, {
                cluster,
                observed: dr.mode,
                needed: 'primary',
                retryable: dr.mode === 'unknown',
              });
            }
            walBefore = dr.lastWal ?? walBefore;
          },
          act: async () => {
            const pair = { deployment, kind: 'dr', primary: cluster, successor } as const;
            const written =
              plan.choices['acceptLoss'] === 'none'
                ? await beforeSending(() => lastWriteToReach(clusters, execution, pair))
                : undefined;
            await beforeSending(() => demandYoungApprovals(inventory, run, deployment, authority, plan, operation));
            // The last look before the point of no return: the successor must be there and must be a live secondary.
            const seen = await beforeSending(() => readDr(next, signal));
            const wal = latest(reached, written);
            if (!mayTakeOver(seen, limits.heartbeatAgeMs, wal)) {
              throw new RunbookError(
                'PRECONDITION_FAILED',
                `${successor} could not take over; ${cluster} was not demoted.`,
                {
                  cluster: successor,
                  observed: describeReplication(seen),
                  needed: `secondary, stream-wals, connected, fresh heartbeat${wal === undefined ? '' : `, last remote WAL at least ${wal}`}`,
                  next: `Find out why ${successor} is not ready, then retry.`,
                },
              );
            }
            execution.throwIfCancelled();
            return access.client.dr.primary.demote({ token, signal, timeoutMs: CHANGE_TIMEOUT_MS });
          },
        });
        for (const other of clusters.deployment(deployment).drSets.get(access.entry.drSet) ?? []) {
          if (other !== cluster) await refuseSecondPrimary(clusters.of(deployment, other), signal);
        }
        return {
          outcome: changed.outcome,
          observed: `${cluster}: ${describeReplication(changed.state)}; no other primary in its DR set`,
          calledAt: changed.calledAt,
          confirmedAt: Date.now(),
          calls: changed.calls,
          walBefore,
        };
      },
    ),

    promoteDrSecondary: executeChange(
      async ({ deployment, cluster, otherCluster, token: reference, authority }, execution) => {
        const { signal, run } = execution;
        const access = clusters.of(deployment, cluster);
        const other = clusters.of(deployment, otherCluster);
        const { limits } = clusters.deployment(deployment);
        const [clusterId, told] = await Promise.all([
          awaitClusterId(access, execution, limits.promoteMs),
          clusterIdIfTold(other, signal),
        ]);
        const promotion = { operation: 'dr.secondary.promote-after-demotion', on: { cluster, clusterId } } as const;
        const planned = otherSideOf(deployment, authority, promotion, otherCluster);
        const plan = await verifyOperation(dependencies.inventory, run, deployment, authority, {
          ...promotion,
          // It may be gone since its demotion: then the plan's word for it has to do.
          with: told === undefined ? planned : { cluster: otherCluster, clusterId: told },
        });
        const primaryClusterAddr =
          access.entry.advertisedClusterAddress === 'node-address' ? undefined : access.entry.advertisedClusterAddress;

        const memory: ProofMemory = {};
        const others = (clusters.deployment(deployment).drSets.get(access.entry.drSet) ?? [])
          .filter((name) => name !== cluster && name !== otherCluster)
          .map((name) => clusters.of(deployment, name));
        let findings: readonly Finding[] = [];

        const changed = await readActConfirm(execution, {
          read: () => readDr(access, signal),
          until: (dr) => dr.mode === 'primary',
          budgetMs: limits.promoteMs,
          describe: describeReplication,
          needed: `${cluster} is DR primary`,
          cluster,
          allow: (dr) => {
            if (dr.mode !== 'secondary') {
              throw new RunbookError('PRECONDITION_FAILED', `${cluster} is no DR secondary.`, {
                cluster,
                observed: dr.mode,
                needed: 'secondary',
              });
            }
          },
          // 503 means "not caught up": waited for within the budget, never turned into force.
          notYet: (error) =>
            error.code === 'NOT_CAUGHT_UP' ||
            error.code === 'SERVICE_UNAVAILABLE' ||
            error.code === 'NO_ACTIVE_NODE' ||
            error.code === 'UNREACHABLE' ||
            error.code === 'TEMPORAL_UNAVAILABLE',
          act: async () => {
            findings = (await Promise.all(others.map((other) => lookAtMember(other, signal)))).flat();
            const proof = {
              deployment,
              gate: lastGateOf(plan, 'dr.secondary.promote-after-demotion'),
              candidate: access,
              other,
            };
            const { candidate: newPrimary, other: oldPrimary } = proof;
            const evidence = { deployment, kind: 'dr', oldPrimary, newPrimary } as const;
            // The old primary has every write: promoted back it needs no evidence.
            const asked = plan.choices['acceptLoss'] === 'none' && cluster === sidesOfSwitchover(plan)?.to;
            await beforeSending(async () => {
              await proveNotPrimary(dependencies, run, proof, signal, memory);
              if (asked) await demandNoLoss(dependencies, execution, evidence);
            });
            const drOperationToken = await openOperationToken(
              dependencies,
              run,
              access,
              clusterId,
              reference,
              'dr.promote',
            );
            execution.throwIfCancelled();
            return access.client.dr.secondary.promote(
              { drOperationToken, primaryClusterAddr },
              { signal, timeoutMs: CHANGE_TIMEOUT_MS },
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
            ...(findings.length === 0 ? {} : { findings }),
          },
        );
      },
    ),
  };
}

/** What a secondary must show to become primary without loss, as far as one look can tell. */
function mayTakeOver(dr: ReplicationObservation, heartbeatAgeMs: number, reached: WalIndex | undefined): boolean {
  return (
    dr.mode === 'secondary' &&
    dr.state === 'stream-wals' &&
    isAlive(dr, heartbeatAgeMs) &&
    (reached === undefined || BigInt(dr.lastRemoteWal ?? '0') >= BigInt(reached))
  );
}

/** Asks a member of the DR set that the switchover is not about: it must not be primary; silent, it is only reported. */
export async function lookAtMember(access: ClusterAccess, signal: AbortSignal): Promise<Finding[]> {
  const { name } = access.entry;
  const said = await askRole(access, signal);
  refusePrimary(name, said);
  if (said.active !== undefined) return [];
  return [
    {
      severity: 'warning',
      code: 'dr-member-silent',
      text: `${name}, a member of the DR set, did not say its role before the promotion (${said.nodes.join(', ')}).`,
      next: `Make sure that ${name} does not come back as a primary.`,
    },
  ];
}

async function clusterIdIfTold(access: ClusterAccess, signal: AbortSignal): Promise<string | undefined> {
  try {
    return await readClusterId(access, signal);
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'STATE_DIVERGED' || error.code === 'REQUEST_CANCELLED') throw error;
    return undefined;
  }
}

async function refuseSecondPrimary(access: ClusterAccess, signal: AbortSignal): Promise<void> {
  try {
    const dr = await readDr(access, signal);
    if (dr.mode === 'primary') {
      throw new RunbookError('STATE_DIVERGED', `${access.entry.name} is a DR primary too.`, {
        cluster: access.entry.name,
        observed: 'primary',
        needed: 'no primary in the DR set',
        next: 'Do not promote anything. Find out which of the two clients write to.',
      });
    }
  } catch (error) {
    // One that cannot be read is judged where it matters: before a promotion.
    if (!isRunbookError(error) || error.code === 'STATE_DIVERGED') throw error;
  }
}
