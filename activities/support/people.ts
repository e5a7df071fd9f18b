import type { PersonLookup } from '../../src/secrets';
import type { Inventory } from '../../src/inventory';
import { RunbookError } from '../../src/errors';
import type { Attested } from '../../src/contracts/run-facts';
import type { GateName } from '../../src/contracts/plan';
import { findDeployment } from '../../src/inventory';
import type { CountedApproval, RunContext, VerifiedApproval } from '../../src/secrets';
import { evaluateGate, verifyApproval } from '../../src/secrets';

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
