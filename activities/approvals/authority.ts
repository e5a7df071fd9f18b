import type { Authority } from '../../src/contracts/activities';
import { APPROVALS_TOO_OLD, OPERATION_GATES, planIn } from '../../src/contracts/plan';
import { runbookPlan } from '../../src/contracts/plan-schema';
import type { AllowedOperation, GatedOperation, GateName, RunbookPlan } from '../../src/contracts/plan';
import { escapeUntrusted } from '../../src/contracts/words';
import { RunbookError, isRunbookError } from '../../src/errors';
import { inventoryDigest } from '../../src/inventory';
import { currentExecution } from '../execution';
import { demandInTime } from './approval-age';
import { judgeGate, verifiedApprovals } from './person-lookup';
import { planDigest } from './planning';

/** What a dangerous activity was given to prove that people approved it. */
export interface Approved {
  readonly deployment: string;
  readonly authority: Authority;
}

/**
 * Verifies for itself that one dangerous operation was approved: the approved plan allows exactly it, on the clusters
 * with these cluster IDs, and the gate of the operation is satisfied by the policy of the inventory.
 *
 * @param doing - what it is about to do; `on` and `with` are as it read them from the service
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyOperation(approved: Approved, doing: AllowedOperation): Promise<RunbookPlan> {
  const plan = readPlan(approved);
  if (!plan.operations.some((allowed) => isSame(allowed, doing))) {
    throw notApproved(
      `the plan does not allow ${doing.operation} on ${describe(doing.on)}${doing.with ? ` with ${describe(doing.with)}` : ''}${doing.detail === undefined ? '' : ` (${doing.detail})`}`,
      NEEDED_PLAN,
    );
  }
  for (const gate of gatesOf(plan, doing.operation)) await requireGate(approved, gate, plan);
  return plan;
}

/**
 * As {@link verifyOperation}, right before a call that begins something: the approvals must not be too old for that, and the
 * inventory must be the one that people approved by. What ends an outage is judged by the inventory as it is: a hook may
 * have had to be corrected meanwhile.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyBeginning(approved: Approved, doing: AllowedOperation): Promise<RunbookPlan> {
  const plan = await verifyOperation(approved, doing);
  if (isOfAnotherInventory(plan))
    throw notApproved('the inventory was changed since the plan was made', INVENTORY_AS_APPROVED, PUT_BACK);
  const { requestedBy } = plan;
  await demandInTime({ ...approved, gate: lastGateOf(plan, doing.operation), requestedBy });
  return plan;
}

/**
 * How the plan names the other side of an operation on a cluster: to be verified with what is read of it.
 *
 * @param cluster - where the plan has several: its name
 *
 * @throws RunbookError NOT_APPROVED where it allows no such operation
 */
export function otherSideOf(
  approved: Approved,
  { operation, on }: Pick<AllowedOperation, 'operation' | 'on'>,
  cluster?: string,
): AllowedOperation['on'] {
  const { operations } = readPlan(approved);
  const found = operations.find(
    (each) =>
      each.operation === operation &&
      each.on.cluster === on.cluster &&
      (cluster === undefined || each.with?.cluster === cluster),
  );
  if (found?.with) return found.with;
  const wanted = cluster === undefined ? '' : ` with ${cluster}`;
  throw notApproved(`the plan does not allow ${operation} on ${describe(on)}${wanted}`, NEEDED_PLAN);
}

/**
 * Verifies that one of several operations, tried in this order, is approved.
 *
 * @throws RunbookError NOT_APPROVED: the refusal that new approvals would end, where there is one, else the first
 */
export async function verifyOneOf(operations: readonly (() => Promise<unknown>)[]): Promise<void> {
  let telling: RunbookError | undefined;
  for (const verify of operations) {
    try {
      await verify();
      return;
    } catch (error) {
      if (!isRunbookError(error, 'NOT_APPROVED')) throw error;
      if (telling === undefined || error.about === APPROVALS_TOO_OLD) telling = error;
    }
  }
  if (telling) throw telling;
}

/** The gate of an operation. From a table of ours and never from input. */
export function gateOf(operation: GatedOperation): GateName {
  return OPERATION_GATES[operation];
}

/** The gate that is passed last before an operation of this plan. */
export function lastGateOf(plan: RunbookPlan, operation: GatedOperation): GateName {
  return gatesOf(plan, operation).at(-1) ?? gateOf(operation);
}

/** Every gate that must be met: where the plan has a go, it is the last one before all that the plan allows. */
function gatesOf({ choices }: RunbookPlan, operation: GatedOperation): readonly GateName[] {
  // A token is in hand, and proven, before anybody says go.
  const before = operation === 'operation-token.take';
  return choices['go'] === 'required' && !before ? [gateOf(operation), 'go'] : [gateOf(operation)];
}

const NEEDED_PLAN = 'an operation that the approved plan allows, on the clusters that it names';

function isSame(allowed: AllowedOperation, doing: AllowedOperation): boolean {
  const same = (a: AllowedOperation['with'], b: AllowedOperation['with']) =>
    a?.cluster === b?.cluster && a?.clusterId === b?.clusterId && a?.clusterId !== '';
  return (
    allowed.operation === doing.operation &&
    same(allowed.on, doing.on) &&
    same(allowed.with, doing.with) &&
    allowed.detail === doing.detail
  );
}

function describe({ cluster, clusterId }: AllowedOperation['on']): string {
  return `${cluster} (cluster ID ${clusterId})`;
}

function readPlan({ deployment, authority }: Approved): RunbookPlan {
  const { text, digest } = authority.plan;
  if (planDigest(text) !== digest)
    throw notApproved('the digest does not belong to the plan', 'the plan that was approved, byte for byte');
  const { data: plan } = runbookPlan.safeParse(planIn(text));
  if (!plan) throw notApproved('the plan cannot be read', 'the plan that was approved');
  if (plan.deployment !== deployment)
    throw notApproved('the plan is for another deployment', `a plan for ${deployment}`);
  return plan;
}

async function requireGate({ deployment, authority }: Approved, gate: GateName, plan: RunbookPlan): Promise<void> {
  const verified = await verifiedApprovals(gate, authority.plan.digest, authority.approvals);
  const judged = judgeGate(deployment, gate, plan.requestedBy, verified);
  const needed = `gate ${gate} approved`;
  if (judged.rejectedBy)
    throw notApproved(`${escapeUntrusted(judged.rejectedBy.name)} rejected at gate ${gate}`, needed);
  if (judged.satisfied) return;
  const changed = isOfAnotherInventory(plan);
  const why = changed ? ', by the inventory, which was changed since the plan was made' : '';
  throw notApproved(`gate ${gate} misses ${judged.missing.join('; ')}${why}`, needed, changed ? PUT_BACK : undefined);
}

function isOfAnotherInventory(plan: RunbookPlan): boolean {
  return plan.inventory !== inventoryDigest(currentExecution().inventory, plan.deployment);
}

const INVENTORY_AS_APPROVED =
  'people, gates, clusters, hooks, ceremony, quiesce and snapshot as the plan was approved with';
const PUT_BACK =
  'Put the inventory back as it was when people approved, and decide retry; or end the run and start again: the new plan names the inventory of now.';

function notApproved(
  why: string,
  needed: string,
  next = 'Start the runbook again; its gates ask for what is missing.',
): RunbookError {
  return new RunbookError('NOT_APPROVED', `This is not approved: ${why}.`, { observed: why, needed, next });
}
