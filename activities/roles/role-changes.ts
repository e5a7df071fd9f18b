import type { Authority, ChangeResult, DemoteResult, SecondaryToken } from '../../src/contracts/activities';
import type { WalIndex } from '../../src/contracts/observations';
import type { AllowedOperation, GatedOperation, RunbookPlan } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../../src/errors';
import { demandSameOutage } from '../approvals/approval-age';
import { gateOf, lastGateOf, otherSideOf, verifyBeginning, verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { identityOfLost } from '../plans/failover-sides';
import { inPlaceOf } from '../plans/performance-promotion';
import { describeReplication, isAlive } from '../observe';
import { primaryClusterAddrOf } from '../joining/onboarding-primary';
import { demandRole, kindName, readKind } from '../joining/onboarding-read';
import { awaitClusterId, openOperationToken, readClusterId } from '../tokens/operation-token';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm, resultOf, withCredential } from '../read-act-confirm';
import { demandNoLoss, lastWriteToReach, latest } from '../evidence/no-loss';
import { notePrimaryChange } from './primary-changes';
import type { Sides } from './other-side';
import {
  awaitTold,
  demandGone,
  demandNoNodePrimary,
  demandServing,
  refusePrimaryMember,
  refuseSecondPrimary,
} from './other-side';
import type { ProofMemory } from './prove-not-primary';
import { proveNotPrimary } from './prove-not-primary';

/** A cluster whose role changes, and the one on the other side: never are both primary. */
interface RoleChange extends Sides {
  readonly authority: Authority;
}

interface Promotion extends RoleChange, SecondaryToken {
  /** `forced`: the service's own safety checks are left out, and what is not there is lost. */
  readonly mode: 'planned' | 'unplanned' | 'forced';
}

/**
 * Refusals of a promotion that mean "not in sync yet": waited for within the budget, and never turned into force.
 * Performance replication says it with 503, or with 400 by another reading (facts 2, row 32).
 */
const NOT_YET: Readonly<Record<ReplicationKind, readonly string[]>> = {
  dr: ['NOT_CAUGHT_UP', 'SERVICE_UNAVAILABLE', 'NO_ACTIVE_NODE', 'UNREACHABLE', 'TEMPORAL_UNAVAILABLE'],
  performance: [
    ...['NOT_CAUGHT_UP', 'SERVICE_UNAVAILABLE', 'NO_ACTIVE_NODE', 'UNREACHABLE', 'TEMPORAL_UNAVAILABLE'],
    'BAD_REQUEST',
  ],
};

/**
 * Makes a primary an unconnected secondary (interface 4.1, 4.2: `primary/demote`). Right before the call the other cluster
 * must be a live secondary that has every write up to `reached`; of a `former` primary, it must serve as the primary.
 */
export async function demotePrimary(
  input: RoleChange & { readonly former?: boolean; readonly reached?: WalIndex },
): Promise<DemoteResult> {
  const { deployment, kind, cluster, otherCluster, authority, former = false } = input;
  const execution = currentExecution();
  const { clusters, inventory, signal, run } = execution;
  const { demoteMs } = clusters.deployment(deployment).limits;
  const [access, other] = [clusters.of(deployment, cluster), clusters.of(deployment, otherCluster)];
  const [on, successor] = await Promise.all(
    ([access, other] as const).map(async (each) => ({
      cluster: each.entry.name,
      clusterId: await awaitClusterId(each, execution, demoteMs),
    })),
  );
  if (!on || !successor) throw new TypeError('two clusters have two IDs');
  const doing = { operation: `${kind}.primary.demote`, on, with: successor } as const;
  const { choices } = await verifyOperation(inventory, run, deployment, authority, doing);
  const token = await access.credential();
  let walBefore: string | undefined;

  const changed = await readActConfirm(execution, {
    read: () => readKind(access, kind, signal),
    until: ({ mode }) => mode === 'secondary',
    budgetMs: demoteMs,
    describe: describeReplication,
    needed: `${cluster} is a ${kindName(kind)} secondary`,
    cluster,
    allow: (state) => {
      demandRole(cluster, kind, 'primary', state);
      walBefore = state.lastWal ?? walBefore;
    },
    act: async () => {
      // The last look before the point of no return.
      await beforeSending(async () => {
        const mayLose = former || choices['acceptLoss'] === 'bounded';
        const pair = { deployment, kind, primary: cluster, successor: otherCluster } as const;
        const written = mayLose ? undefined : await lastWriteToReach(clusters, execution, pair);
        await verifyBeginning(inventory, run, deployment, authority, doing);
        if (former) await demandServing(other, kind, `${cluster} was not demoted`);
        else await demandSuccessor(input, latest(input.reached, written));
      });
      execution.throwIfCancelled();
      return access.client[kind].primary.demote({ token, signal, timeoutMs: CHANGE_TIMEOUT_MS });
    },
  });
  if (former) await demandNoNodePrimary(access, kind, demoteMs);
  else await refuseSecondPrimary(input, changed.state.setId);
  const seen = former ? '' : `; no other ${kindName(kind)} primary in its set`;
  return { ...resultOf(changed, `${cluster}: ${describeReplication(changed.state)}${seen}`), walBefore };
}

/**
 * Makes a secondary the primary (interface 4.1, 4.2: `secondary/promote`). Planned, the other cluster must be proven to be
 * none; else the signs that it is gone are looked for again.
 */
export async function promoteSecondary(input: Promotion): Promise<ChangeResult> {
  const { deployment, kind, cluster } = input;
  const execution = currentExecution();
  const { clusters, signal, run } = execution;
  const { promoteMs } = clusters.deployment(deployment).limits;
  const access = clusters.of(deployment, cluster);
  const clusterId = await awaitClusterId(access, execution, promoteMs);
  const approved = await approvedPromotion(input, clusterId);
  const memory: ProofMemory = { kind };
  let setId: string | undefined;
  let findings: readonly Finding[] = [];

  const changed = await readActConfirm(execution, {
    read: () => readKind(access, kind, signal),
    until: ({ mode }) => mode === 'primary',
    budgetMs: promoteMs,
    describe: describeReplication,
    needed: `${cluster} is ${kindName(kind)} primary`,
    cluster,
    allow: (state) => {
      demandRole(cluster, kind, 'secondary', state);
      setId = state.setId;
    },
    notYet: ({ code }) => NOT_YET[kind].includes(code),
    act: async () => {
      findings = await beforeSending(async () => {
        const silent = kind === 'dr' ? await refusePrimaryMember(input) : [];
        if (kind === 'performance') await refuseSecondPrimary(input, setId);
        await (input.mode === 'planned' ? demandDemoted : demandLost)(input, approved, memory);
        return silent;
      });
      const primaryClusterAddr = primaryClusterAddrOf(access.entry);
      const parameters = { primaryClusterAddr, ...(input.mode === 'forced' ? { force: true } : {}) };
      if (kind === 'performance') {
        const options = await withCredential(access, execution);
        execution.throwIfCancelled();
        return access.client.performance.secondary.promote(parameters, options);
      }
      // Opened last: it is in the memory of this process for no longer than the call.
      const drOperationToken = await openOperationToken(execution, run, access, clusterId, input.token, 'dr.promote');
      execution.throwIfCancelled();
      const options = { signal, timeoutMs: CHANGE_TIMEOUT_MS };
      return access.client.dr.secondary.promote({ drOperationToken, ...parameters }, options);
    },
  });
  const result = resultOf(changed, `${cluster}: ${describeReplication(changed.state)}`);
  const told = findings.length === 0 ? result : { ...result, findings };
  const { runbook } = approved.plan;
  await notePrimaryChange(execution, deployment, { runbook, runId: run.rid, cluster, at: told.confirmedAt });
  return told;
}

interface ApprovedPromotion {
  readonly plan: RunbookPlan;
  readonly operation: GatedOperation;
}

/** The plan that lets this cluster be promoted in the place of the other one, as both are now. */
async function approvedPromotion(input: Promotion, clusterId: string): Promise<ApprovedPromotion> {
  const { clusters, inventory, run, signal } = currentExecution();
  const { deployment, kind, cluster, otherCluster, authority, mode } = input;
  const on = { cluster, clusterId };
  const verify = async (doing: AllowedOperation): Promise<ApprovedPromotion> => ({
    plan: await verifyOperation(inventory, run, deployment, authority, doing),
    operation: doing.operation,
  });
  if (kind === 'performance') {
    const operation = `performance.secondary.${mode === 'forced' ? 'promote-force' : 'promote'}` as const;
    const approved = await verify({ operation, on, detail: inPlaceOf(otherCluster) });
    const planned = approved.plan.choices['mode'] !== 'unplanned';
    if (planned !== (mode === 'planned')) throw otherMode(cluster, planned);
    return approved;
  }
  const other = clusters.of(deployment, otherCluster);
  if (mode === 'planned') {
    const operation = 'dr.secondary.promote-after-demotion';
    const named = otherSideOf(deployment, authority, { operation, on }, otherCluster);
    const told = await clusterIdIfTold(other, signal);
    // It may be gone since its demotion: then the plan's word for it has to do.
    return verify({ operation, on, with: told === undefined ? named : { cluster: otherCluster, clusterId: told } });
  }
  const operation = mode === 'forced' ? 'dr.secondary.promote-force' : 'dr.secondary.promote';
  const { setId } = await awaitTold(clusters.of(deployment, cluster));
  return verify({ operation, on, with: identityOfLost(other.entry, setId) });
}

/** Planned: the other cluster is proven to be no primary, and nothing of what it wrote is missing here. */
async function demandDemoted(
  input: Promotion,
  { plan, operation }: ApprovedPromotion,
  memory: ProofMemory,
): Promise<void> {
  const { deployment, kind, cluster, otherCluster } = input;
  const execution = currentExecution();
  const { clusters, run, signal } = execution;
  const [candidate, other] = [clusters.of(deployment, cluster), clusters.of(deployment, otherCluster)];
  const proof = { deployment, gate: lastGateOf(plan, operation), candidate, other };
  await proveNotPrimary(execution, run, proof, signal, memory);
  // The old primary has every write: promoted back it needs no evidence.
  const back = plan.operations.some(
    (each) => each.operation === `${kind}.primary.demote` && each.on.cluster === cluster,
  );
  if (back || plan.choices['acceptLoss'] === 'bounded') return;
  await demandNoLoss(execution, execution, { deployment, kind, oldPrimary: other, newPrimary: candidate });
}

/** Unplanned: the other cluster is gone, and it is this outage that people approved to end. */
async function demandLost(
  input: Promotion,
  { plan, operation }: ApprovedPromotion,
  memory: ProofMemory,
): Promise<void> {
  const { deployment, kind, cluster, authority } = input;
  const { clusters, inventory, run, signal } = currentExecution();
  await demandGone(input, plan, memory);
  const judged = { deployment, gate: gateOf(operation), requestedBy: plan.requestedBy, authority };
  await demandSameOutage(inventory, run, judged, await readKind(clusters.of(deployment, cluster), kind, signal));
}

async function clusterIdIfTold(access: ClusterAccess, signal: AbortSignal): Promise<string | undefined> {
  try {
    return await readClusterId(access, signal);
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'STATE_DIVERGED' || error.code === 'REQUEST_CANCELLED') throw error;
    return undefined;
  }
}

/** The successor must be there and must be a live secondary that has every write up to `wal`, as far as one look can tell. */
async function demandSuccessor(
  { deployment, kind, cluster, otherCluster }: Sides,
  wal: WalIndex | undefined,
): Promise<void> {
  const { clusters, signal } = currentExecution();
  const { heartbeatAgeMs } = clusters.deployment(deployment).limits;
  const seen = await readKind(clusters.of(deployment, otherCluster), kind, signal);
  const ready =
    seen.mode === 'secondary' &&
    seen.state === 'stream-wals' &&
    isAlive(seen, heartbeatAgeMs) &&
    (wal === undefined || BigInt(seen.lastRemoteWal ?? '0') >= BigInt(wal));
  if (ready) return;
  throw new RunbookError('PRECONDITION_FAILED', `${otherCluster} could not take over; ${cluster} was not demoted.`, {
    cluster: otherCluster,
    observed: describeReplication(seen),
    needed: `secondary, stream-wals, connected, fresh heartbeat${wal === undefined ? '' : `, last remote WAL at least ${wal}`}`,
    next: `Find out why ${otherCluster} is not ready, then retry.`,
  });
}

function otherMode(cluster: string, planned: boolean): RunbookError {
  const observed = `the plan promotes ${cluster} ${planned ? 'after a demotion' : 'because its primary is gone'}`;
  return new RunbookError('NOT_APPROVED', `This is not approved: ${observed}.`, {
    observed,
    needed: 'a promotion as the plan has it',
    next: 'Start the runbook again; its gates ask for what is missing.',
  });
}
