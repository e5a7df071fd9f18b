import type { DemoteResult, RunbookActivities } from '../src/contracts/activities';
import type { ReplicationObservation, WalIndex } from '../src/contracts/observations';
import type { SwitchoverPlan } from '../src/contracts/plan';
import type { Finding } from '../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../src/errors';
import type { ActivityDependencies } from './dependencies';
import type { ClusterAccess, Clusters } from './support/clusters';
import { executeChange } from './support/execution';
import { attestPromotion } from './support/switchover/primary-changes';
import { describeReplication, isAlive, readActive } from './support/observe';
import { awaitClusterId, openOperationToken } from './support/operation-token';
import { demandInTime } from './support/approvals/approval-age';
import { verifyAuthority } from './support/approvals/authority';
import type { ProofMemory } from './support/switchover/prove-not-primary';
import { demandNoLoss, lastWriteToReach, latest } from './support/switchover/no-loss';
import { askRole, proveNotPrimary, refusePrimary } from './support/switchover/prove-not-primary';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm } from './support/read-act-confirm';

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
        const plan = await verifyAuthority(inventory, run, deployment, authority);
        const access = clusters.of(deployment, cluster);
        if (plan.from.cluster !== cluster) throw notInPlan(`the plan demotes ${plan.from.cluster}, not ${cluster}`);
        const { limits } = clusters.deployment(deployment);
        const clusterId = await awaitClusterId(access, execution, limits.demoteMs);
        if (plan.from.clusterId !== clusterId)
          throw notInPlan(`the plan is for cluster ID ${plan.from.clusterId}, ${cluster} has ${clusterId}`);
        const successor = clusters.of(deployment, plan.to.cluster);
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
            const pair = { deployment, kind: 'dr', primary: cluster, successor: plan.to.cluster } as const;
            const written =
              plan.acceptLoss === 'none'
                ? await beforeSending(() => lastWriteToReach(clusters, execution, pair))
                : undefined;
            const gate = goGate(plan);
            const { requestedBy } = plan;
            await beforeSending(() => demandInTime(inventory, run, { deployment, gate, requestedBy, authority }));
            // The last look before the point of no return: the successor must be there and must be a live secondary.
            const next = await beforeSending(() => readDr(successor, signal));
            const wal = latest(reached, written);
            if (!mayTakeOver(next, limits.heartbeatAgeMs, wal)) {
              throw new RunbookError(
                'PRECONDITION_FAILED',
                `${plan.to.cluster} could not take over; ${cluster} was not demoted.`,
                {
                  cluster: plan.to.cluster,
                  observed: describeReplication(next),
                  needed: `secondary, stream-wals, connected, fresh heartbeat${wal === undefined ? '' : `, last remote WAL at least ${wal}`}`,
                  next: `Find out why ${plan.to.cluster} is not ready, then retry.`,
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
        const plan = await verifyAuthority(dependencies.inventory, run, deployment, authority);
        const pair = [plan.from.cluster, plan.to.cluster];
        if (!pair.includes(cluster) || !pair.includes(otherCluster) || cluster === otherCluster) {
          throw notInPlan(`the plan is about ${pair.join(' and ')}, not ${cluster} and ${otherCluster}`);
        }
        const access = clusters.of(deployment, cluster);
        const { limits } = clusters.deployment(deployment);
        const clusterId = await awaitClusterId(access, execution, limits.promoteMs);
        const { clusterId: approvedId } = plan.to.cluster === cluster ? plan.to : plan.from;
        if (approvedId !== clusterId)
          throw notInPlan(`the plan is for cluster ID ${approvedId}, ${cluster} has ${clusterId}`);
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
              gate: goGate(plan),
              candidate: access,
              other: clusters.of(deployment, otherCluster),
            };
            const { candidate: newPrimary, other: oldPrimary } = proof;
            const evidence = { deployment, kind: 'dr', oldPrimary, newPrimary } as const;
            // The old primary has every write: promoted back it needs no evidence.
            const asked = plan.acceptLoss === 'none' && cluster === plan.to.cluster;
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

/** The gate that was passed last before the outage. */
function goGate({ go }: SwitchoverPlan): 'go' | 'plan' {
  return go === 'required' ? 'go' : 'plan';
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

function notInPlan(why: string): RunbookError {
  return new RunbookError('NOT_APPROVED', `This is not what was approved: ${why}.`, {
    observed: why,
    needed: 'what the approved plan says',
  });
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
