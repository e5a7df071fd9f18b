import type { PersonLookup } from '../../src/secrets';
import type { Inventory } from '../../src/inventory';
import { RunbookError } from '../../src/errors';
import type { Attested } from '../../src/contracts/run-facts';
import type { GateName } from '../../src/contracts/plan';
import { findDeployment } from '../../src/inventory';
import type { CountedApproval, RunContext, VerifiedApproval } from '../../src/secrets';
import { claimedPerson, evaluateGate, verifyApproval } from '../../src/secrets';
import { Senders } from './senders';

export function personLookup(inventory: Inventory): PersonLookup {
  return (name) => inventory.people.get(name);
}

/**
 * Whether what arrived names a person whom only the server's record of the sender attests: the history has to be read for
 * it, which takes longer than a local activity may.
 */
export function needsSender(inventory: Inventory, input: unknown): boolean {
  const name = claimedPerson(withSignal(input)?.approval ?? input);
  return name !== undefined && inventory.people.get(name)?.attestation === 'principal';
}

/** An approval that the server's record of its sender attests, with the number of the signal that brought it. */
export interface ApprovalOfSender {
  readonly approval: unknown;
  readonly arrival: number;
}

function withSignal(document: unknown): ApprovalOfSender | undefined {
  if (typeof document !== 'object' || document === null || Object.keys(document).length !== 2) return undefined;
  const { approval, arrival } = document as Partial<ApprovalOfSender>;
  return approval !== undefined && typeof arrival === 'number' ? { approval, arrival } : undefined;
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
  const senders = new Senders(run);
  for (const document of documents) {
    try {
      const { approval, arrival } = withSignal(document) ?? { approval: document, arrival: undefined };
      const principal = arrival === undefined ? undefined : () => senders.of('approve', arrival, approval);
      const context = { run, person: personLookup(inventory), gate, planDigest: digest, principal };
      verified.push(await verifyApproval(approval, context));
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
