import type { PersonLookup } from '../../../src/secrets';
import type { Inventory } from '../../../src/inventory';
import { RunbookError } from '../../../src/errors';
import type { Attested } from '../../../src/contracts/run-facts';
import type { GateName } from '../../../src/contracts/plan';
import { findDeployment } from '../../../src/inventory';
import type { CountedApproval, RunContext, VerifiedApproval } from '../../../src/secrets';
import { evaluateGate, verifyApproval } from '../../../src/secrets';
import { ArrivedSignals } from './arrived-signals';

export function personLookup(inventory: Inventory): PersonLookup {
  return (name) => inventory.people.get(name);
}

/** An approval that the server's record of its sender attests, with the number of the signal that brought it. */
export interface ApprovalOfSender {
  readonly approval: unknown;
  readonly arrival: number;
}

/** An approval as it was signalled, and the number of its signal where that came along. */
export function signalled(document: unknown): { readonly approval: unknown; readonly arrival?: number | undefined } {
  return withSignal(document) ?? { approval: document };
}

function withSignal(document: unknown): ApprovalOfSender | undefined {
  if (typeof document !== 'object' || document === null || Object.keys(document).length !== 2) return undefined;
  const { approval, arrival } = document as Partial<ApprovalOfSender>;
  return approval !== undefined && typeof arrival === 'number' ? { approval, arrival } : undefined;
}

/**
 * Verifies documents for one gate; those that do not verify are left out.
 *
 * @throws RunbookError TEMPORAL_UNAVAILABLE where the history that says who sent them cannot be read
 */
export async function verifiedApprovals(
  inventory: Inventory,
  run: RunContext,
  gate: GateName,
  digest: string,
  documents: readonly unknown[],
): Promise<VerifiedApproval[]> {
  const verified: VerifiedApproval[] = [];
  const signals = new ArrivedSignals(run);
  for (const document of documents) {
    try {
      const { approval, arrival } = signalled(document);
      const principal = arrival === undefined ? undefined : () => signals.senderOf('approve', arrival, approval);
      const context = { run, person: personLookup(inventory), gate, planDigest: digest, principal };
      verified.push(await verifyApproval(approval, context));
    } catch (error) {
      // Not read is not refused: it may be read in a moment.
      if (!(error instanceof RunbookError) || error.retryable) throw error;
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
