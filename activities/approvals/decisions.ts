import { isRunbookError } from '../../src/errors';
import type { Inventory } from '../../src/inventory';
import type { RunContext, VerifiedDecision } from '../../src/keys';
import { verifyDecision } from '../../src/keys';
import { ArrivedSignals } from './arrived-signals';
import { mayNotDecide, personLookup } from './person-lookup';

/** The decisions that people sent to this run, verified here: those that count in this deployment. */
export async function decisionsOf(
  inventory: Inventory,
  run: RunContext,
  deployment: string,
): Promise<readonly VerifiedDecision[]> {
  const person = personLookup(inventory);
  const decisions: VerifiedDecision[] = [];
  for (const { content, principal } of await new ArrivedSignals(run).every('decide')) {
    const decision = await verifyDecision(content, { run, person, principal }).catch((error: unknown) => {
      if (isRunbookError(error)) return undefined;
      throw error;
    });
    if (decision && mayNotDecide(inventory, deployment, run, decision) === undefined) decisions.push(decision);
  }
  return decisions;
}
