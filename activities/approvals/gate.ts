import type { Authority } from '../../src/contracts/activities';
import type { GateName } from '../../src/contracts/gates';
import type { RunbookPlan } from '../../src/contracts/plan';
import type { Attested } from '../../src/contracts/run-facts';
import { escapeUntrusted } from '../../src/contracts/words';
import { orElse, RunbookError } from '../../src/errors';
import { approversOf, countsIn, findDeployment, inventoryDigest } from '../../src/inventory';
import type { CountedApproval, VerifiedApproval } from '../../src/keys';
import { digestOfSigned, evaluateGate, verifyApproval } from '../../src/keys';
import { currentExecution, oncePerAttempt } from '../execution';
import type { ArrivedSignal } from './arrived-signals';
import { ArrivedSignals } from './arrived-signals';

/** A gate of an approved plan, and what a run presents as proof that people passed it. */
export interface AtGate {
  readonly deployment: string;
  readonly authority: Authority;
  /** The plan of the authority. */
  readonly plan: RunbookPlan;
  readonly gate: GateName;
}

/** A verified approval. */
export type DatedApproval = VerifiedApproval & {
  /** Since when it counts, by the server's record, epoch ms. */
  readonly at: number;
};

/**
 * The gate must be satisfied by approvals that people sent to this run.
 *
 * @returns the approvals, earliest first, and whose count
 * @throws RunbookError NOT_APPROVED; TEMPORAL_UNAVAILABLE if the history of the run cannot be read
 */
export async function demandGate({ deployment, authority, plan, gate }: AtGate) {
  const approvals = await verifiedApprovals(gate, authority.plan.digest, authority.approvals[gate]);
  const { rejectedBy, satisfied, missing, approvedBy } = judgeGate(deployment, gate, plan.requestedBy, approvals);
  const needed = `gate ${gate} approved`;
  if (rejectedBy) throw notApproved(`${escapeUntrusted(rejectedBy.name)} rejected at gate ${gate}`, needed);
  if (satisfied) return { approvals, approvedBy };
  const changed = isOfAnotherInventory(plan);
  const why = changed ? ' (the inventory has changed since the plan was made)' : '';
  throw notApproved(`gate ${gate} is missing ${missing.join('; ')}${why}`, needed, changed ? PUT_BACK : undefined);
}

export function isOfAnotherInventory(plan: RunbookPlan): boolean {
  return plan.inventory !== inventoryDigest(currentExecution().inventory, plan.deployment);
}

export const PUT_BACK =
  'Restore the inventory to what it was when people approved, and decide retry; or end the run and start again: the new plan uses the current inventory.';

export function notApproved(
  why: string,
  needed: string,
  next = 'Start the runbook again; its gates ask for what is missing.',
): RunbookError {
  return new RunbookError('NOT_APPROVED', `This is not approved: ${why}.`, { observed: why, needed, next });
}

/** What the history of a run shows of its approvals. */
interface SentApprovals {
  readonly history: ArrivedSignals;
  /** All of them, earliest first. */
  readonly signals: readonly ArrivedSignal[];
  /** The window that the run was started with, epoch ms. */
  readonly window: { readonly notBefore?: number; readonly notAfter?: number };
  /** When the server recorded the newest event, epoch ms. */
  readonly newest: number;
  /** When it was read, ms of `performance.now()`. */
  readonly readAt: number;
}

const sentInAttempt = oncePerAttempt<SentApprovals>();

/**
 * Reads what people sent, once per attempt: whatever an input may name was sent before the attempt began.
 *
 * @throws RunbookError TEMPORAL_UNAVAILABLE
 */
export function sentApprovals(): Promise<SentApprovals> {
  return sentInAttempt('', async () => {
    const history = new ArrivedSignals();
    const signals = await history.every('approve');
    const [window, newest] = [await history.window(), await history.newest()];
    return { history, signals, window, newest, readAt: performance.now() };
  });
}

const verifiedInAttempt = oncePerAttempt<readonly DatedApproval[]>();

/**
 * The approvals of one gate, found by the numbers of their signals, earliest first; verified once per attempt. What does
 * not verify, or was never sent, is left out.
 */
export function verifiedApprovals(gate: GateName, planDigest: string, numbers: readonly number[] = []) {
  return verifiedInAttempt(JSON.stringify([gate, planDigest, ...numbers]), async () => {
    const { inventory, run, signal: cancelled } = currentExecution();
    const { signals } = await sentApprovals();
    const named = new Set(numbers);
    const verified: DatedApproval[] = [];
    for (const signal of signals.filter(({ arrival }) => named.has(arrival))) {
      const context = { run, people: inventory.people, gate, planDigest, principal: signal.principal };
      const approval = await verifyApproval(signal.content, context).catch(orElse(cancelled, () => undefined));
      if (approval) verified.push({ ...approval, at: countsSince(approval, signal, signals) });
    }
    return verified.toSorted((one, other) => one.at - other.at);
  });
}

/**
 * A signature says nothing about the signal that brought it: sent again, the document is no younger. Anything else is
 * attested by the server's record of that very signal, or not at all.
 */
function countsSince({ how, digest }: VerifiedApproval, signal: ArrivedSignal, all: readonly ArrivedSignal[]): number {
  const first = how === 'signed' ? all.find(({ content }) => digestOfSigned(content) === digest) : signal;
  return (first ?? signal).at;
}

/** Gate force needs two different people, whatever the inventory says. */
const FORCE_APPROVALS = 2;

/**
 * Evaluates a gate's policy over verified approvals. Every gate is judged here: outside a laboratory a claim neither
 * opens nor closes it.
 */
export function judgeGate(
  deploymentName: string,
  gate: GateName,
  requestedBy: string | undefined,
  approvals: readonly (Attested & Pick<VerifiedApproval, 'verdict'>)[],
) {
  const { inventory } = currentExecution();
  const deployment = findDeployment(inventory, deploymentName);
  const counted: CountedApproval[] = approvals
    .filter(({ how }) => countsIn(deployment, how))
    .map(({ name, verdict }) => ({ name, verdict, groups: inventory.people.get(name)?.groups ?? [] }));
  const policy = deployment.gates[gate];
  const needed = gate === 'force' ? Math.max(FORCE_APPROVALS, policy.approvals) : policy.approvals;
  const approvers = approversOf(inventory, deployment, gate).map(({ name }) => name);
  const evaluation = evaluateGate({ ...policy, approvals: needed, approvers }, requestedBy ?? 'unknown', counted);
  const claims = new Set(approvals.filter(({ how }) => !countsIn(deployment, how)).map(({ name }) => name));
  const unmet = evaluation.missing.length > 0 && claims.size > 0;
  const attested = (name: string): Attested => ({
    name,
    how: approvals.find((each) => each.name === name)?.how ?? 'claimed',
  });
  return {
    satisfied: evaluation.satisfied,
    missing: unmet ? [...evaluation.missing, claimsText([...claims])] : evaluation.missing,
    approvedBy: evaluation.approvedBy.map(attested),
    rejectedBy: evaluation.rejectedBy === undefined ? undefined : attested(evaluation.rejectedBy),
  };
}

export const NOT_COUNTED = 'only claimed, which does not count outside a laboratory';

function claimsText(names: readonly string[]): string {
  const [first = '', ...others] = names;
  return others.length === 0
    ? `the name ${escapeUntrusted(first)} is ${NOT_COUNTED}: that approval must be signed`
    : `the names ${escapeUntrusted(names.join(' and '))} are ${NOT_COUNTED}: those approvals must be signed`;
}
