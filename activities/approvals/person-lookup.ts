import { z } from 'zod';
import type { PersonLookup } from '../../src/keys';
import type { Inventory } from '../../src/inventory';
import { RunbookError } from '../../src/errors';
import type { Attested } from '../../src/contracts/run-facts';
import type { GateName } from '../../src/contracts/plan';
import { nextCommandOf } from '../../src/contracts/next-commands';
import { withNext } from '../../src/contracts/receipts';
import { escapeUntrusted } from '../../src/contracts/words';
import { approversOf, countsIn, decidersOf, findDeployment } from '../../src/inventory';
import type { CountedApproval, VerifiedApproval, VerifiedDecision } from '../../src/keys';
import { evaluateGate, verifyApproval } from '../../src/keys';
import { currentExecution } from '../execution';
import { ArrivedSignals } from './arrived-signals';

export function personLookup(inventory: Inventory): PersonLookup {
  return (name) => inventory.people.get(name);
}

/** An approval that the server's record of its sender attests, with the number of the signal that brought it. */
const ofSender = z.strictObject({ approval: z.unknown().refine((each) => each !== undefined), arrival: z.number() });

/** An approval as it was signalled, and the number of its signal where that came along. */
interface Signalled {
  readonly approval: unknown;
  readonly arrival?: number | undefined;
}

/**
 * Verifies documents for one gate; those that do not verify are left out.
 *
 * @throws RunbookError TEMPORAL_UNAVAILABLE where the history that says who sent them cannot be read
 */
export async function verifiedApprovals(
  gate: GateName,
  planDigest: string,
  documents: readonly unknown[],
): Promise<(VerifiedApproval & { readonly signalled: Signalled })[]> {
  const { inventory, run } = currentExecution();
  const verified: (VerifiedApproval & { readonly signalled: Signalled })[] = [];
  const signals = new ArrivedSignals(run);
  for (const document of documents) {
    const signalled: Signalled = ofSender.safeParse(document).data ?? { approval: document };
    const { approval, arrival } = signalled;
    try {
      const principal = arrival === undefined ? undefined : () => signals.senderOf('approve', arrival, approval);
      const context = { run, person: personLookup(inventory), gate, planDigest, principal };
      verified.push({ ...(await verifyApproval(approval, context)), signalled });
    } catch (error) {
      // Not read is not refused: it may be read in a moment.
      if (!(error instanceof RunbookError) || error.retryable) throw error;
    }
  }
  return verified;
}

/** Force is two different people, whatever the inventory says. */
const FORCE_APPROVALS = 2;

/**
 * Evaluates a gate's policy over verified approvals. Everything that judges a gate does it here: outside a laboratory a
 * claim neither opens nor closes it.
 */
export function judgeGate(
  deploymentName: string,
  gate: GateName,
  requestedBy: string | undefined,
  approvals: readonly VerifiedApproval[],
) {
  const { inventory } = currentExecution();
  const deployment = findDeployment(inventory, deploymentName);
  const counted: CountedApproval[] = approvals
    .filter(({ how }) => countsIn(deployment, how))
    .map(({ name, verdict }) => ({ name, verdict, groups: inventory.people.get(name)?.groups ?? [] }));
  const policy = deployment.gates[gate];
  const needed = gate === 'force' ? Math.max(FORCE_APPROVALS, policy.approvals) : policy.approvals;
  const evaluation = evaluateGate({ ...policy, approvals: needed }, requestedBy ?? 'unknown', counted);
  const claims = new Set(approvals.filter(({ how }) => !countsIn(deployment, how)).map(({ name }) => name));
  const unmet = evaluation.missing.length > 0 && claims.size > 0;
  const attested = (name: string): Attested => ({
    name,
    how: approvals.find((each) => each.name === name)?.how ?? 'claimed',
  });
  return {
    satisfied: evaluation.satisfied,
    missing: unmet ? [...evaluation.missing, claimsInWords([...claims])] : evaluation.missing,
    approvedBy: evaluation.approvedBy.map(attested),
    rejectedBy: evaluation.rejectedBy === undefined ? undefined : attested(evaluation.rejectedBy),
  };
}

const NOT_COUNTED = 'only claimed, which counts for nothing outside a laboratory';

function claimsInWords(names: readonly string[]): string {
  const [first = '', ...others] = names;
  return others.length === 0
    ? `${escapeUntrusted(first)} is ${NOT_COUNTED}: that approval must be signed`
    : `${escapeUntrusted(names.join(' and '))} are ${NOT_COUNTED}: those approvals must be signed`;
}

/**
 * What somebody is told whose claim counts for nothing, and what they do instead.
 *
 * @param command - what they gave, without a key
 */
export function onlyClaimed(name: string, command: string): string {
  return withNext(
    `${escapeUntrusted(name)} is ${NOT_COUNTED}`,
    `sign it. \`runbook join LINE\` makes a key, with a line of the operators; once the inventory lists it, with attestation signed: \`${command} --key-file YOUR-KEY-FILE\``,
  );
}

/** Why somebody's approval opens no such gate, whoever attests it, with who may; undefined where it may. */
export function mayNotApprove(
  deploymentName: string,
  gate: GateName,
  requestedBy: string,
  { name, verdict }: Pick<VerifiedApproval, 'name' | 'verdict'>,
): string | undefined {
  const { inventory } = currentExecution();
  const deployment = findDeployment(inventory, deploymentName);
  const { groups, excludeRequester } = deployment.gates[gate];
  const isMember = inventory.people.get(name)?.groups.some((group) => groups.includes(group)) === true;
  const asked = excludeRequester && name === requestedBy;
  if (isMember && !(asked && verdict === 'approve')) return undefined;
  const others = approversOf(inventory, deployment, gate).map((each) => each.name);
  const may = others.filter((each) => !excludeRequester || each !== requestedBy).join(', ') || 'nobody';
  const why = isMember ? `${name} asked for this run` : `${name} is in none of its groups (${groups.join(', ')})`;
  return `gate ${gate} is approved by ${may}: ${why}`;
}

/**
 * Why what somebody orders does not count, as the code and the text of its receipt; undefined where it does. Outside of a
 * laboratory no claim counts.
 *
 * @param command - what they gave, without a key
 */
export function mayNotOrder(
  deploymentName: string,
  { name, how }: Attested,
  action: string,
  command: string,
): { readonly code: string; readonly text: string } | undefined {
  const { inventory } = currentExecution();
  const deployment = findDeployment(inventory, deploymentName);
  if (!countsIn(deployment, how)) return { code: 'only-claimed', text: onlyClaimed(name, command) };
  const deciders = decidersOf(inventory, deployment).map((each) => each.name);
  if (deciders.includes(name)) return undefined;
  const text = `"${action}" is for the approvers and operators of this deployment: ${deciders.join(', ')}`;
  return { code: 'may-not-decide', text };
}

/** As {@link mayNotOrder}, of a verified decision. */
export function mayNotDecide(deployment: string, decision: VerifiedDecision): ReturnType<typeof mayNotOrder> {
  const { name, parkingNo, action } = decision;
  const command = nextCommandOf.decide(currentExecution().run.wid, parkingNo, action, name);
  return mayNotOrder(deployment, decision, action, command);
}
