import type { PersonLookup } from '../../src/secrets';
import type { Inventory } from '../../src/inventory';
import { RunbookError } from '../../src/errors';
import type { Authority } from '../../src/contracts/activities';
import type { Attested } from '../../src/contracts/run-facts';
import { switchoverPlan } from '../../src/contracts/plan';
import type { SwitchoverPlan } from '../../src/contracts/plan';
import { findDeployment } from '../../src/inventory';
import type { CountedApproval, RunContext, VerifiedApproval } from '../../src/secrets';
import { evaluateGate, verifyApproval } from '../../src/secrets';
import { planDigest } from './plan-digest';

export type GateName = 'plan' | 'go';

export function personLookup(inventory: Inventory): PersonLookup {
  return (name) => inventory.people.get(name);
}

/** Verifies documents for one gate; those that do not verify are left out. */
export async function verifiedApprovals(
  inventory: Inventory,
  run: RunContext,
  gate: GateName,
  digest: string,
  documents: readonly unknown[],
): Promise<VerifiedApproval[]> {
  const verified: VerifiedApproval[] = [];
  for (const document of documents) {
    try {
      verified.push(await verifyApproval(document, { run, person: personLookup(inventory), gate, planDigest: digest }));
    } catch (error) {
      if (!(error instanceof RunbookError)) throw error;
    }
  }
  return verified;
}

/** Evaluates a gate's policy over verified approvals. */
export function judgeGate(
  inventory: Inventory,
  deploymentName: string,
  gate: GateName,
  requestedBy: string,
  approvals: readonly VerifiedApproval[],
) {
  const deployment = findDeployment(inventory, deploymentName);
  const counted: CountedApproval[] = approvals.map(({ name, verdict }) => ({
    name,
    verdict,
    groups: inventory.people.get(name)?.groups ?? [],
  }));
  const evaluation = evaluateGate(deployment.gates[gate], requestedBy, counted);
  const attested = (name: string): Attested => ({
    name,
    how: approvals.find((each) => each.name === name)?.how ?? 'claimed',
  });
  return {
    satisfied: evaluation.satisfied,
    missing: evaluation.missing,
    approvedBy: evaluation.approvedBy.map(attested),
    rejectedBy: evaluation.rejectedBy === undefined ? undefined : attested(evaluation.rejectedBy),
  };
}

/**
 * Verifies for itself that what a dangerous activity is about to do was approved: the plan's text gives the approved
 * digest, the approvals satisfy the policy of the inventory, and the plan names this deployment.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyAuthority(
  inventory: Inventory,
  run: RunContext,
  deployment: string,
  authority: Authority,
): Promise<SwitchoverPlan> {
  const refuse = (why: string, needed: string): never => {
    throw new RunbookError('NOT_APPROVED', `This is not approved: ${why}.`, {
      observed: why,
      needed,
      next: 'Start the runbook again; its gates ask for what is missing.',
    });
  };
  if (planDigest(authority.plan.text) !== authority.plan.digest)
    refuse('the digest does not belong to the plan', 'the plan that was approved, byte for byte');
  let content: unknown;
  try {
    content = JSON.parse(authority.plan.text);
  } catch {
    return refuse('the plan cannot be read', 'the plan that was approved');
  }
  const parsed = switchoverPlan.safeParse(content);
  if (!parsed.success) return refuse('the plan cannot be read', 'the plan that was approved');
  const plan = parsed.data;
  if (plan.deployment !== deployment) refuse('the plan is for another deployment', `a plan for ${deployment}`);
  const gates: GateName[] = plan.go === 'required' ? ['plan', 'go'] : ['plan'];
  for (const gate of gates) {
    const approvals = await verifiedApprovals(inventory, run, gate, authority.plan.digest, authority.approvals);
    const { satisfied, rejectedBy, missing } = judgeGate(
      inventory,
      deployment,
      gate,
      plan.requestedBy ?? 'unknown',
      approvals,
    );
    if (rejectedBy) refuse(`${rejectedBy.name} rejected at gate ${gate}`, `gate ${gate} approved`);
    if (!satisfied) refuse(`gate ${gate} misses ${missing.join('; ')}`, `gate ${gate} approved`);
  }
  return plan;
}
