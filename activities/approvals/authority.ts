import type { Authority } from '../../src/contracts/activities';
import type { Operation } from '../../src/contracts/operations';
import { isSameOperation, operationName } from '../../src/contracts/operations';
import type { AllowedOperation, RunbookPlan } from '../../src/contracts/plan';
import { APPROVALS_TOO_OLD, planIn } from '../../src/contracts/plan';
import { runbookPlan } from '../../src/contracts/payloads';
import type { GateName } from '../../src/contracts/gates';
import { isRunbookError } from '../../src/errors';
import type { RunbookError } from '../../src/errors';
import { timeLimitOf } from './age';
import { demandGate, isOfAnotherInventory, notApproved, PUT_BACK } from './gate';
import { planDigest } from './planning';

/** What a dangerous activity receives as proof that people approved it. */
export interface Approved {
  readonly deployment: string;
  readonly authority: Authority;
}

/**
 * Verifies independently that one dangerous operation was approved: the approved plan allows exactly this operation, on
 * the clusters with these cluster IDs, and the gate of the operation is satisfied under the policy of the inventory.
 *
 * @param intended - the operation to run; `on` and `with` are as read from the service
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyOperation(approved: Approved, intended: AllowedOperation): Promise<RunbookPlan> {
  const plan = readPlan(approved);
  if (!plan.operations.some((allowed) => isSame(allowed, intended))) {
    throw notApproved(
      `the plan does not allow ${operationName(intended)} on ${describe(intended.on)}${intended.with ? ` with ${describe(intended.with)}` : ''}${intended.detail === undefined ? '' : ` (${intended.detail})`}`,
      NEEDED_PLAN,
    );
  }
  for (const gate of gatesOf(plan, intended)) await demandGate({ ...approved, plan, gate });
  return plan;
}

/**
 * As {@link verifyOperation}, right before a call that starts something: the approvals must also not be too old, and the
 * inventory must be the one that people approved with. A call that ends an outage is judged by the current inventory: a
 * hook may have had to be corrected in the meantime.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyBeginning(approved: Approved, intended: AllowedOperation): Promise<RunbookPlan> {
  const plan = await verifyOperation(approved, intended);
  const demandInTime = await timeToBegin(approved, plan, intended);
  demandInTime();
  return plan;
}

/**
 * The second half of {@link verifyBeginning}, for an activity that waits before its call, while clients may be quiesced.
 *
 * @param plan - as {@link verifyOperation} returned it
 * @returns to be called right before the call, as often as needed: looks only at the clock, and throws RunbookError
 *   NOT_APPROVED
 */
export async function timeToBegin(approved: Approved, plan: RunbookPlan, operation: Operation): Promise<() => void> {
  const demandYoung = await timeLimitOf({ ...approved, plan, gate: lastGateOf(plan, operation) });
  const isChanged = isOfAnotherInventory(plan);
  return () => {
    if (isChanged)
      throw notApproved('the inventory has changed since the plan was made', INVENTORY_AS_APPROVED, PUT_BACK);
    demandYoung();
  };
}

/**
 * How the plan identifies the other cluster of an operation, to be compared with what is read from that cluster.
 *
 * @param cluster - its name
 * @throws RunbookError NOT_APPROVED if it allows no such operation
 */
export function otherSideOf(
  approved: Approved,
  { on, ...operation }: Operation & Pick<AllowedOperation, 'on'>,
  cluster: string,
): AllowedOperation['on'] {
  const { operations } = readPlan(approved);
  const found = operations.find(
    (each) => isSameOperation(each, operation) && each.on.cluster === on.cluster && each.with?.cluster === cluster,
  );
  if (found?.with) return found.with;
  throw notApproved(
    `the plan does not allow ${operationName(operation)} on ${describe(on)} with ${cluster}`,
    NEEDED_PLAN,
  );
}

/**
 * Verifies that one of several operations, tried in this order, is approved.
 *
 * @throws RunbookError NOT_APPROVED: the refusal that new approvals would resolve, if there is one; otherwise the first
 */
export async function verifyOneOf(operations: readonly (() => Promise<unknown>)[]): Promise<void> {
  let refusal: RunbookError | undefined;
  for (const verify of operations) {
    try {
      await verify();
      return;
    } catch (error) {
      if (!isRunbookError(error, 'NOT_APPROVED')) throw error;
      if (refusal === undefined || error.about === APPROVALS_TOO_OLD) refusal = error;
    }
  }
  if (refusal) throw refusal;
}

/** The gate that is passed last before an operation of this plan. */
export function lastGateOf(plan: RunbookPlan, operation: Operation): GateName {
  return gatesOf(plan, operation).at(-1) ?? operation.gate;
}

/** Every gate that must be met: if the plan has a go, it is the last gate before every operation of the plan. */
function gatesOf({ choices }: RunbookPlan, { endpoint, gate }: Operation): readonly GateName[] {
  // A token is available, and verified, before anybody approves the go.
  const before = endpoint === 'operation-token/take';
  return choices['go'] === 'required' && !before ? [gate, 'go'] : [gate];
}

const NEEDED_PLAN = 'an operation that the approved plan allows, on the clusters that it names';

function isSame(allowed: AllowedOperation, intended: AllowedOperation): boolean {
  const same = (a: AllowedOperation['with'], b: AllowedOperation['with']) =>
    a?.cluster === b?.cluster && a?.clusterId === b?.clusterId && a?.clusterId !== '';
  return (
    isSameOperation(allowed, intended) &&
    same(allowed.on, intended.on) &&
    same(allowed.with, intended.with) &&
    allowed.detail === intended.detail
  );
}

function describe({ cluster, clusterId }: AllowedOperation['on']): string {
  return `${cluster} (cluster ID ${clusterId})`;
}

function readPlan({ deployment, authority }: Approved): RunbookPlan {
  // Only an input that was made manually has none.
  if ((authority as Authority | undefined) === undefined) throw notApproved('no plan was given', NEEDED_PLAN);
  const { text, digest } = authority.plan;
  if (planDigest(text) !== digest)
    throw notApproved('the digest does not belong to the plan', 'the plan that was approved, byte for byte');
  const { data: plan } = runbookPlan.safeParse(planIn(text));
  if (!plan) throw notApproved('the plan cannot be read', 'the plan that was approved');
  if (plan.deployment !== deployment)
    throw notApproved('the plan is for another deployment', `a plan for ${deployment}`);
  return plan;
}

const INVENTORY_AS_APPROVED =
  'the people, gates, clusters, hooks, ceremony, quiesce, walStill limits and snapshot of the approved plan';
