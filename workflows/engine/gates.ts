import { workflowInfo } from '@temporalio/workflow';
import type { Assessment } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import { withNext } from '../../src/contracts/receipts';
import type { Attested, Receipt } from '../../src/contracts/run-facts';
import { unwrapDocument } from '../../src/contracts/signals';
import type { InboxItem } from '../../src/contracts/signals';
import type { GateName } from '../../src/contracts/gates';
import { checks } from './activity-calls';
import { RunStopped } from './failures';
import type { Run } from './run';
import { giveReceipts } from './verdicts';

/** A point where the run waits for people to approve what comes next. */
interface GateRequest {
  readonly gate: GateName;
  /** Who may approve which gate, from the assessment of the plan. */
  readonly gates: Assessment<unknown>['gates'];
  readonly planDigest: string;
  readonly requestedBy?: string | undefined;
  /** Why it is opened again, if it was met before. */
  readonly again?: string | undefined;
  /** Its approval ends an outage, even if the run has not recorded the outage yet. */
  readonly endsOutage?: boolean | undefined;
}

/**
 * Opens the gate and waits until its policy is met. While clients have no primary, no clock ends the wait: people are reminded.
 *
 * @returns the approvals as they arrived; dangerous activities verify them again
 * @throws RunStopped if somebody rejected, the time of the gate ran out, or the run was stopped
 */
export async function passGate(run: Run, request: GateRequest): Promise<readonly unknown[]> {
  const { gate, planDigest, again } = request;
  const policy = request.gates[gate];
  if (!policy) throw new TypeError(`the assessment has no policy for gate ${gate}`);
  const record = (state: 'opened' | 'approved' | 'rejected' | 'expired', by: readonly Attested[] = []) =>
    run.state.fact({ kind: 'gate', gate, state, planDigest, by });
  const counted: Counted[] = [];
  const metWith = run.gatesMet.get(keyOf(gate, planDigest));
  const openedAt = Date.now();
  let missing: readonly string[] = [
    `${policy.approvals} of ${policy.approvers.join(', ') || 'nobody: the people who may approve requested this run or have not joined'}`,
  ];
  let approvedBy: readonly Attested[] = [];
  let rejectedBy: Attested | undefined;
  let satisfied = false;
  const limitMs = request.endsOutage === true || run.state.serviceIsOut ? undefined : policy.validForMs;
  const until = limitMs === undefined ? undefined : Date.now() + limitMs;
  const show = () =>
    run.state.wait(`gate:${gate}`, { for: 'approval', gate, planDigest, missing, approved: approvedBy, until, again });

  run.signals.on('approve', async (items) => {
    const fresh = items.filter((item) => {
      const refusal = metWith && refusalWhereMet(gate, metWith, openedAt, item);
      if (refusal) run.state.receipt({ signal: 'approve', arrival: item.arrival, verdict: 'refused', ...refusal });
      return !refusal;
    });
    if (fresh.length === 0) return;
    const known = await checkApprovals(run, request, counted, fresh);
    if (!known) return;
    ({ satisfied, missing, approvedBy, rejectedBy } = known);
    if (!satisfied && !rejectedBy) show();
  });
  record('opened');
  show();
  try {
    const inTime = await run.waitFor(() => satisfied || rejectedBy !== undefined, limitMs);
    if (!inTime) {
      record('expired');
      const by = until === undefined ? '' : ` by ${new Date(until).toISOString()}`;
      throw run.stop(new RunStopped('the clock', `gate ${gate} was not approved${by}; missing: ${missing.join('; ')}`));
    }
    if (rejectedBy) {
      record('rejected', [rejectedBy]);
      throw run.stop(new RunStopped(rejectedBy.name, `rejected at gate ${gate}`));
    }
    record('approved', approvedBy);
    const signed = counted.flatMap(({ document }) => document ?? []);
    run.gatesMet.set(keyOf(gate, planDigest), new Set([...(metWith ?? []), ...signed]));
    return counted.map(({ approval }) => approval);
  } finally {
    run.signals.on('approve', undefined);
    run.state.waitOver(`gate:${gate}`);
  }
}

function keyOf(...parts: readonly unknown[]): string {
  return JSON.stringify(parts.map(unwrapDocument));
}

/** Approvers of a gate that opens again must know that it does. So earlier documents do not count any more, whoever vouches for them. */
function refusalWhereMet(
  gate: GateName,
  metWith: ReadonlySet<string>,
  openedAt: number,
  { input, receivedAt }: InboxItem,
): Pick<Receipt, 'code' | 'text'> | undefined {
  const again = `approve or reject again: \`${nextCommandOf.approve(workflowInfo().workflowId, gate)}\``;
  if (metWith.has(keyOf(input)))
    return { code: 'repeated', text: withNext(`gate ${gate} was already met with this document`, again) };
  // What arrived in the same turn came before it: nobody could know yet that the gate opens.
  if (receivedAt > openedAt) return undefined;
  return { code: 'sent-before', text: withNext(`sent before gate ${gate} was opened again`, again) };
}

/** An approval that counts. */
interface Counted {
  readonly arrival: number;
  /** As it arrived. If the server vouches for the sender: with the number of the signal, by which it can be found again. */
  readonly approval: unknown;
  /** Identifies a signed document that is sent again. */
  readonly document: string | undefined;
}

async function checkApprovals(
  run: Run,
  { gate, planDigest, requestedBy = 'unknown' }: GateRequest,
  counted: Counted[],
  items: readonly InboxItem[],
) {
  const { deployment } = run.state;
  const accepted = counted.map(({ arrival }) => arrival);
  const known = await giveReceipts(run.state, 'approve', items, (arrived) =>
    checks.checkApprovals({ deployment, gate, planDigest, requestedBy, accepted, arrived }),
  );
  for (const { arrival, accepted: counts, by } of known?.verdicts ?? []) {
    const item = items.find((each) => each.arrival === arrival);
    if (!counts || !item) continue;
    const approval = by?.how === 'principal' ? { approval: item.input, arrival } : item.input;
    counted.push({ arrival, approval, document: by?.how === 'signed' ? keyOf(item.input) : undefined });
  }
  return known;
}
