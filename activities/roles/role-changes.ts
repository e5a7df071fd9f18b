import type {
  Authority,
  ChangeResult,
  LossEvidence,
  OfKind,
  OnCluster,
  SecondaryToken,
} from '../../src/contracts/activities';
import type { ReplicationObservation, WalIndex } from '../../src/contracts/observations';
import type { Operation } from '../../src/contracts/operations';
import type { AllowedOperation, RunbookPlan } from '../../src/contracts/plan';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import { demandSameOutage } from '../approvals/age';
import { lastGateOf, otherSideOf, timeToBegin, verifyOperation } from '../approvals/authority';
import { sentApprovals } from '../approvals/gate';
import { check, demand } from '../checks/check';
import type { ClusterAccess } from '../clusters';
import { currentExecution, onCluster } from '../execution';
import { identityOfLostPrimary } from '../checks/failover-sides';
import { inPlaceOf } from '../approvals/planning';
import { describeReplication, kindName, readKind, readStatus, replicationOf } from '../observe';
import { primaryClusterAddrOf } from '../joining/enable-secondary';
import { demandRole } from '../joining/following';
import { authorisedOn, awaitIdentityOf, readClusterId } from '../tokens/operation-token';
import {
  LATE_MS,
  LATE_POLLS,
  ROLE_TIMEOUT_MS,
  awaitState,
  readActConfirm,
  resultOf,
  seenInTime,
} from '../read-act-confirm';
import { equalRoots, hasReached, mayTakeOver, demandNoLoss } from '../evidence/data-evidence';
import type { HeldWrites } from '../quiesce/held-writes';
import { heldEvidence, verifyHeldWrites } from '../quiesce/held-writes';
import { notePrimaryChange } from './primary-changes';
import type { Sides } from './other-side';
import {
  awaitDrStatus,
  demandGone,
  demandNoNodePrimary,
  demandServing,
  refusePrimaryMember,
  refuseSecondPrimary,
} from './other-side';
import type { ProofMemory } from './prove-not-primary';
import { proveNotPrimary } from './prove-not-primary';

/** A cluster whose role changes, and the other cluster. They are never both primary. */
interface RoleChange extends Sides {
  readonly authority: Authority;
}

interface Demotion extends RoleChange {
  /** The cluster is a former primary. The other cluster took its place, and must serve now. */
  readonly former?: boolean;
  /** The WAL index that the other cluster was seen to have reached. */
  readonly reached?: WalIndex;
}

interface DemoteResult extends ChangeResult {
  /** The WAL index of the primary, read right before the call. */
  readonly walBefore?: WalIndex;
  /** Proof that no data is lost, if it could already be given. Otherwise the Merkle roots are compared later. */
  readonly evidence?: LossEvidence;
}

interface Promotion extends RoleChange, SecondaryToken {
  /** `forced`: skips the safety checks of the service; writes that have not arrived are lost. */
  readonly mode: 'planned' | 'unplanned' | 'forced';
  /** If the promotion certainly fails, the other cluster is promoted back. */
  readonly wayBack?: boolean;
}

/** Refusals of a promotion that mean "not in sync yet": retried within the budget, and never forced. */
const NOT_YET = [
  ...['NOT_CAUGHT_UP', 'SERVICE_UNAVAILABLE', 'SERVICE_SEALED'],
  ...['NO_ACTIVE_NODE', 'UNREACHABLE', 'TEMPORAL_UNAVAILABLE'],
];
/** Performance replication answers 503 for this or, by another reading, 400 (facts 2, row 32). */
const NOT_YET_OF = { dr: NOT_YET, performance: [...NOT_YET, 'BAD_REQUEST'] };
/** "Not yet" only if retryable: the token has been replaced by now, or another node leads. */
const MAY_PASS = ['PERMISSION_DENIED', 'REDIRECT_REFUSED'];

/** The gate that covers a demotion: the plan of a DR switchover or rejoin, or the promotion of a performance secondary. */
const DEMOTION_GATE = { dr: 'plan', performance: 'promote' } as const;

/**
 * Makes a primary an unconnected secondary (interface 4.1, 4.2: `primary/demote`). Right before the call, the other
 * cluster must be a live secondary that has every write up to `reached`. For a `former` primary, it must serve as the
 * primary.
 */
export async function demotePrimary(input: Demotion): Promise<DemoteResult> {
  const { deployment, kind, cluster, otherCluster, former = false } = input;
  const { execution, clusters, signal, limits, access } = onCluster(input);
  const other = clusters.of(deployment, otherCluster);
  // Clients are quiesced, and the primary can serve them while nothing was sent: a silent candidate gets less time.
  const patienceMs = former || execution.doubt.mayHaveSent ? limits.demoteMs : limits.demoteMs / 4;
  const patientUntil = performance.now() + patienceMs;
  const own = awaitIdentityOf(access, limits.demoteMs);
  const preferOwnError = async (error: unknown) => {
    await own;
    throw error;
  };
  const [on, candidate] = await Promise.all([
    own,
    awaitIdentityOf(other, patienceMs).catch(preferOwnError),
    sentApprovals(),
  ]);
  const intended = { kind, endpoint: 'primary/demote', gate: DEMOTION_GATE[kind], on, with: candidate } as const;
  // Clients may be quiesced: the history was read meanwhile, and is verified once. Each look looks at the clock too.
  const plan = await verifyOperation(input, intended);
  const demandInTime = await timeToBegin(input, plan, intended);
  const mayLose = former || plan.choices['acceptLoss'] === 'bounded';
  let written: WalIndex | undefined;
  let held: HeldWrites | undefined;
  let answered = false;

  const changed = await readActConfirm(execution, {
    ...replicationOf(access, kind, signal, readStatus),
    until: ({ mode }) => mode === 'secondary',
    budgetMs: limits.demoteMs,
    servesOnce: true,
    needed: `${cluster} is a ${kindName(kind)} secondary`,
    allow: (state) => {
      demandRole(cluster, kind, 'primary', state);
      written = state.lastWal;
      const judged = check('a loss can be excluded', cluster, mayLose || written !== undefined, {
        observed: describeReplication(state),
        needed: `${cluster} reports its last ${kindName(kind)} WAL index`,
        next: 'Start again with {"acceptLoss": "bounded"}.',
      });
      demand([judged], `${cluster} was not demoted`);
    },
    // The last check before the point of no return.
    prepare: async () => {
      demandInTime();
      const token = await access.credential();
      held = undefined;
      if (former) {
        await demandServing(other, kind, `${cluster} was not demoted`);
      } else {
        held = await verifyHeldWrites(plan, access, { kind });
        written = held?.wal ?? written;
        const upTo = { written: mayLose ? held?.wal : written, mayLose, patientUntil };
        const seen = await demandCandidate(input, demandInTime, upTo);
        if (!hasReached(seen, written)) held = undefined;
      }
      return async () => {
        await access.client[kind].primary.demote({ token, signal, timeoutMs: ROLE_TIMEOUT_MS });
        answered = true;
      };
    },
  });
  // It took effect: a failure from here on must not read as if nothing had been done.
  execution.doubt.mayHaveSent = true;
  const observed = `${cluster}: ${describeReplication(changed.state)}`;
  if (former) {
    await demandNoNodePrimary(access, kind, limits.demoteMs);
    return resultOf(changed, observed);
  }
  const roots = await refuseSecondPrimary(input, changed.state.setId);
  const proven = changed.outcome === 'done' && held?.holds(answered) ? held : undefined;
  const sides = { deployment, kind, from: cluster, to: otherCluster };
  const { mark, notHeld } = proven ? await heldEvidence(execution, sides, proven) : {};
  const equal = equalRoots(cluster, changed.state.merkleRoot, otherCluster, roots.get(otherCluster));
  // If this cluster falls silent before the promotion, the promotion relies on the mark.
  const evidence = equal ? { ...mark, ...equal } : mark;
  const lost = evidence ? '; no data lost' : (notHeld ?? '');
  const seen = `no other ${kindName(kind)} primary in its set${lost}`;
  return { ...resultOf(changed, `${observed}; ${seen}`), walBefore: written, ...(evidence && { evidence }) };
}

/**
 * Makes a secondary the primary (interface 4.1, 4.2: `secondary/promote`). If planned, the other cluster must be proven
 * not to be primary. Otherwise the signs that it is gone are checked again.
 */
export async function promoteSecondary(input: Promotion): Promise<ChangeResult> {
  const { deployment, kind, cluster, mode } = input;
  const { execution, clusters, signal, limits, access } = onCluster(input);
  const { promoteMs } = limits;
  const [on, otherId] = await Promise.all([
    awaitCandidate(input, promoteMs),
    kind === 'dr' && mode === 'planned'
      ? clusterIdIfReported(clusters.of(deployment, input.otherCluster), signal)
      : undefined,
    // Clients wait: the history is read meanwhile.
    sentApprovals(),
  ]);
  const approved = await approvedPromotion(input, on, otherId);
  const memory: ProofMemory = {};
  let findings: readonly Finding[] = [];

  const changed = await readActConfirm(execution, {
    ...replicationOf(access, kind, signal, readStatus),
    until: (state) => state.mode === 'primary',
    budgetMs: promoteMs,
    servesOnce: true,
    needed: `${cluster} is ${kindName(kind)} primary`,
    allow: (state) => demandRole(cluster, kind, 'secondary', state),
    notYet: ({ code, retryable }) => NOT_YET_OF[kind].includes(code) || (retryable && MAY_PASS.includes(code)),
    prepare: async (seen) => {
      if (kind === 'dr') findings = await refusePrimaryMember(input);
      else await refuseSecondPrimary(input, seen.setId);
      if (mode === 'planned') await demandDemoted(input, approved, memory, seen.merkleRoot);
      else await demandLost(input, approved, memory);
      const primaryClusterAddr = primaryClusterAddrOf(access.entry);
      const force = mode === 'forced' ? { force: true } : {};
      // Opened last: an operation token stays in the memory of this process no longer than the call.
      const { body, options } = await authorisedOn(access, input, on.clusterId, 'dr.promote');
      const { promote } = access.client[kind].secondary;
      return () => promote({ ...body, primaryClusterAddr, ...force }, { ...options, timeoutMs: ROLE_TIMEOUT_MS });
    },
  });
  const result = resultOf(changed, `${cluster}: ${describeReplication(changed.state)}`);
  const reported = findings.length === 0 ? result : { ...result, findings };
  const { runbook } = approved.plan;
  await notePrimaryChange(execution, deployment, {
    runbook,
    runId: execution.run.rid,
    cluster,
    at: reported.confirmedAt,
  });
  return reported;
}

/**
 * Waits until a cluster has a role, for a step that parked because its time was over: it then goes on by itself. Reads
 * only.
 */
export async function awaitRole(input: OnCluster & OfKind & { readonly role: 'primary' | 'secondary' }) {
  const { kind, cluster, role } = input;
  const { execution, signal, access } = onCluster(input);
  const seen = await awaitState(execution, {
    ...replicationOf(access, kind, signal, readStatus),
    until: ({ mode }) => mode === role,
    budgetMs: LATE_MS,
    pollMs: execution.timing.pollMs * LATE_POLLS,
    needed: `${cluster} is ${kindName(kind)} ${role}`,
  });
  return { observed: `${cluster}: ${describeReplication(seen)}` };
}

/** Clients do not wait for the whole budget if the other cluster can serve them: nothing was sent by then. */
async function awaitCandidate(input: Promotion, budgetMs: number): Promise<AllowedOperation['on']> {
  const { execution, clusters, signal, access } = onCluster(input);
  if (input.wayBack !== true || execution.doubt.mayHaveSent) return awaitIdentityOf(access, budgetMs);
  const quarterMs = budgetMs / 4;
  try {
    return await awaitIdentityOf(access, quarterMs);
  } catch (error) {
    if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
    const other = clusters.of(input.deployment, input.otherCluster);
    if ((await clusterIdIfReported(other, signal)) !== undefined) throw error;
    return awaitIdentityOf(access, budgetMs - quarterMs);
  }
}

interface ApprovedPromotion {
  readonly plan: RunbookPlan;
  readonly operation: Operation;
}

/** The plan that allows the promotion of this cluster in place of the other one, by the identities of both now. */
async function approvedPromotion(
  input: Promotion,
  on: AllowedOperation['on'],
  otherId: string | undefined,
): Promise<ApprovedPromotion> {
  const { clusters } = currentExecution();
  const { deployment, kind, cluster, otherCluster, mode } = input;
  const verify = async (intended: AllowedOperation): Promise<ApprovedPromotion> => ({
    plan: await verifyOperation(input, intended),
    operation: intended,
  });
  const operation = { kind, endpoint: 'secondary/promote' } as const;
  const byMode = mode === 'forced' ? 'force' : 'promote';
  if (kind === 'performance') {
    const approved = await verify({ ...operation, gate: byMode, on, detail: inPlaceOf(otherCluster) });
    const planned = approved.plan.choices['mode'] !== 'unplanned';
    if (planned !== (mode === 'planned')) throw otherMode(cluster, planned);
    return approved;
  }
  if (mode === 'planned') {
    // Part of a switchover that was approved as a whole, whichever of its two clusters ends as primary.
    const promotion = { ...operation, gate: 'plan', on } as const;
    const named = otherSideOf(input, promotion, otherCluster);
    // It may be gone since its demotion: then the identity in the plan is used.
    return verify({ ...promotion, with: otherId === undefined ? named : { ...named, clusterId: otherId } });
  }
  const { access, limits } = onCluster({ deployment, cluster });
  const { setId } = await awaitDrStatus(access, limits.promoteMs);
  const { entry } = clusters.of(deployment, otherCluster);
  return verify({ ...operation, gate: byMode, on, with: identityOfLostPrimary(entry, setId) });
}

/**
 * Planned: the other cluster is proven not to be primary, and none of its writes is missing here.
 *
 * @param root - the Merkle root of the cluster to promote, read a moment ago
 */
async function demandDemoted(
  input: Promotion,
  { plan, operation }: ApprovedPromotion,
  memory: ProofMemory,
  root: string | undefined,
): Promise<void> {
  const { deployment, kind, cluster, otherCluster } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const [candidate, other] = [clusters.of(deployment, cluster), clusters.of(deployment, otherCluster)];
  const proof = { deployment, kind, gate: lastGateOf(plan, operation), candidate, other };
  const former = await proveNotPrimary(execution, proof, memory);
  // The old primary has every write: promoting it back needs no evidence.
  const back = plan.operations.some(
    (each) => each.kind === kind && each.endpoint === 'primary/demote' && each.on.cluster === cluster,
  );
  if (back || plan.choices['acceptLoss'] === 'bounded') return;
  const roots = { former, next: root };
  await demandNoLoss(execution, execution, { deployment, kind, oldPrimary: other, newPrimary: candidate, roots });
}

/** Unplanned: the other cluster is gone, and the approvals are for this very outage. */
async function demandLost(
  input: Promotion,
  { plan, operation }: ApprovedPromotion,
  memory: ProofMemory,
): Promise<void> {
  const { deployment, kind, cluster, authority } = input;
  const { clusters, signal } = currentExecution();
  await demandGone(input, plan, memory);
  const passed = { deployment, authority, plan, gate: operation.gate };
  await demandSameOutage(passed, await readKind(clusters.of(deployment, cluster), kind, signal));
}

/** Undefined if the cluster does not report its ID; a cluster other than the one in the inventory is refused. */
function clusterIdIfReported(access: ClusterAccess, signal: AbortSignal): Promise<string | undefined> {
  const silent = orElse(signal, (error) => {
    if (error.code === 'STATE_DIVERGED') throw error;
    return undefined;
  });
  return readClusterId(access, signal).catch(silent);
}

/** The candidate had caught up a moment ago: how long it may take to receive the last writes too, ms. */
const CATCH_UP_MS = 30_000;

/**
 * The candidate must be a live secondary that has every write up to the index that it reached before. If no data may be
 * lost, it also gets time to receive what the primary wrote since. Each read also checks whether the demotion may still
 * begin.
 *
 * @param upTo.written - the last WAL index of the primary, which is waited for; required if no data may be lost
 * @param upTo.patientUntil - while nothing was sent, a candidate that does not answer is waited for until then
 * @returns the observed candidate
 */
async function demandCandidate(
  { deployment, kind, cluster, otherCluster, reached }: Demotion,
  demandInTime: () => void,
  upTo: { readonly written: WalIndex | undefined; readonly mayLose: boolean; readonly patientUntil: number },
): Promise<ReplicationObservation> {
  const { written, mayLose, patientUntil } = upTo;
  const { execution, signal, limits, access } = onCluster({ deployment, cluster: otherCluster });
  const { heartbeatAgeMs, catchUpMs } = limits;
  const wal = latest(reached, written);
  const silent = (error: unknown): never => {
    const tooLong = performance.now() >= patientUntil && !execution.doubt.mayHaveSent;
    throw tooLong && isRunbookError(error) ? error.with({ retryable: false }) : error;
  };
  const awaited = {
    ...replicationOf(access, kind, signal),
    read: async () => {
      const seen = await readKind(access, kind, signal).catch(silent);
      demandInTime();
      return seen;
    },
    until: (each: ReplicationObservation) => each.state !== 'stream-wals' || hasReached(each, wal),
    budgetMs: mayLose ? execution.timing.momentMs : Math.min(catchUpMs, CATCH_UP_MS),
    needed: `last remote WAL of ${otherCluster} at least ${wal ?? 'any'}`,
  };
  const inTime = written === undefined ? undefined : await seenInTime(execution, awaited);
  const seen = inTime === undefined || 'late' in inTime ? await awaited.read() : inTime;
  const judged = check('could take over', otherCluster, mayTakeOver(seen, heartbeatAgeMs, mayLose ? reached : wal), {
    observed: describeReplication(seen),
    needed: `secondary, stream-wals, connected, fresh heartbeat${wal === undefined ? '' : `, last remote WAL at least ${wal}`}`,
    next: `Find out why ${otherCluster} is not ready, then retry.`,
  });
  demand([judged], `${cluster} was not demoted`);
  return seen;
}

/** The higher of two WAL indexes. */
function latest(one: WalIndex | undefined, other: WalIndex | undefined): WalIndex | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return BigInt(one) > BigInt(other) ? one : other;
}

function otherMode(cluster: string, planned: boolean): RunbookError {
  const observed = `the plan promotes ${cluster} ${planned ? 'after a demotion' : 'because its primary is gone'}`;
  return new RunbookError('NOT_APPROVED', `This is not approved: ${observed}.`, {
    observed,
    needed: 'the promotion that the plan describes',
    next: 'Start the runbook again; its gates ask for what is missing.',
  });
}
