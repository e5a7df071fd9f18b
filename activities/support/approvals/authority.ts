import type { z } from 'zod';
import type { Authority } from '../../../src/contracts/activities';
import { APPROVALS_TOO_OLD, OPERATION_GATES, runbookPlan, switchoverPlan } from '../../../src/contracts/plan';
import type {
  AllowedOperation,
  GatedOperation,
  GateName,
  RunbookPlan,
  SwitchoverPlan,
} from '../../../src/contracts/plan';
import { said } from '../../../src/contracts/words';
import { RunbookError, isRunbookError } from '../../../src/errors';
import type { Inventory } from '../../../src/inventory';
import type { RunContext } from '../../../src/secrets';
import { demandInTime } from './approval-age';
import { judgeGate, verifiedApprovals } from './people';
import { planDigest } from './plan-digest';

/**
 * Verifies for itself that the switchover that a dangerous activity is part of was approved: the plan's text gives the
 * approved digest, the approvals satisfy the policy of the inventory, and the plan names this deployment.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyAuthority(
  inventory: Inventory,
  run: RunContext,
  deployment: string,
  authority: Authority,
): Promise<SwitchoverPlan> {
  const plan = readPlan(switchoverPlan, deployment, authority);
  for (const gate of plan.go === 'required' ? (['plan', 'go'] as const) : (['plan'] as const)) {
    await requireGate(inventory, run, deployment, authority, gate, plan.requestedBy);
  }
  return plan;
}

/** What a dangerous activity is about to do; `on` and `with` are as it read them from the service. */
export type Doing = AllowedOperation;

/**
 * Verifies for itself that one dangerous operation was approved: the approved plan allows exactly it, on the clusters
 * with these cluster IDs, and the gate of the operation is satisfied by the policy of the inventory.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyOperation(
  inventory: Inventory,
  run: RunContext,
  deployment: string,
  authority: Authority,
  doing: Doing,
): Promise<RunbookPlan> {
  const plan = readPlan(runbookPlan, deployment, authority);
  if (!plan.operations.some((allowed) => isSame(allowed, doing))) {
    throw notApproved(
      `the plan does not allow ${doing.operation} on ${describe(doing.on)}${doing.with ? ` with ${describe(doing.with)}` : ''}${doing.detail === undefined ? '' : ` (${doing.detail})`}`,
      'an operation that the approved plan allows, on the clusters that it names',
    );
  }
  await requireGate(inventory, run, deployment, authority, gateOf(doing.operation), plan.requestedBy);
  return plan;
}

/**
 * As {@link verifyOperation}, right before a call that begins something: the approvals must not be too old for that.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyBeginning(
  inventory: Inventory,
  run: RunContext,
  deployment: string,
  authority: Authority,
  doing: Doing,
): Promise<RunbookPlan> {
  const plan = await verifyOperation(inventory, run, deployment, authority, doing);
  const { requestedBy } = plan;
  await demandInTime(inventory, run, { deployment, gate: gateOf(doing.operation), requestedBy, authority });
  return plan;
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

function isSame(allowed: AllowedOperation, doing: Doing): boolean {
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

function readPlan<P extends { readonly deployment: string }>(
  schema: z.ZodType<P>,
  deployment: string,
  { plan: { text, digest } }: Authority,
): P {
  if (planDigest(text) !== digest)
    throw notApproved('the digest does not belong to the plan', 'the plan that was approved, byte for byte');
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    throw notApproved('the plan cannot be read', 'the plan that was approved');
  }
  const parsed = schema.safeParse(content);
  if (!parsed.success) throw notApproved('the plan cannot be read', 'the plan that was approved');
  if (parsed.data.deployment !== deployment)
    throw notApproved('the plan is for another deployment', `a plan for ${deployment}`);
  return parsed.data;
}

async function requireGate(
  inventory: Inventory,
  run: RunContext,
  deployment: string,
  { plan, approvals }: Authority,
  gate: GateName,
  requestedBy: string | undefined,
): Promise<void> {
  const verified = await verifiedApprovals(inventory, run, gate, plan.digest, approvals);
  const judged = judgeGate(inventory, deployment, gate, requestedBy ?? 'unknown', verified);
  if (judged.rejectedBy)
    throw notApproved(`${said(judged.rejectedBy.name)} rejected at gate ${gate}`, `gate ${gate} approved`);
  if (!judged.satisfied) throw notApproved(`gate ${gate} misses ${judged.missing.join('; ')}`, `gate ${gate} approved`);
}

function notApproved(why: string, needed: string): RunbookError {
  return new RunbookError('NOT_APPROVED', `This is not approved: ${why}.`, {
    observed: why,
    needed,
    next: 'Start the runbook again; its gates ask for what is missing.',
  });
}
