import { workflowInfo } from '@temporalio/workflow';
import type { ApprovalNumbers, Assessment } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import { withNext } from '../../src/contracts/receipts';
import type { Attested, Receipt } from '../../src/contracts/run-facts';
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
 * @returns the numbers of the approvals that met it; dangerous activities read and verify them again
 * @throws RunStopped if somebody rejected, the time of the gate ran out, or the run was stopped
 */
export async function passGate(run: Run, request: GateRequest): Promise<ApprovalNumbers> {
  const { gate, planDigest, requestedBy = 'unknown', again } = request;
  const { deployment } = run.state;
  const policy = request.gates[gate];
  if (!policy) throw new TypeError(`the assessment has no policy for gate ${gate}`);
  const record = (state: 'opened' | 'approved' | 'rejected' | 'expired', by: readonly Attested[] = []) =>
    run.state.fact({ kind: 'gate', gate, state, planDigest, by });
  const counted: Counted[] = [];
  const gateOfPlan = `${gate} ${planDigest}`;
  const metWith = run.gatesMet.get(gateOfPlan);
  const openedAt = Date.now();
  let missing: readonly string[] = [
    `${policy.approvals} of ${policy.approvers.join(', ') || 'no eligible approver: every approver requested this run or has not joined'}`,
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
      // What arrived in the same turn came before it: nobody could know yet that the gate opens.
      const isEarly = metWith !== undefined && item.receivedAt <= openedAt;
      if (isEarly) run.state.receipt({ signal: 'approve', arrival: item.arrival, ...sentBefore(gate) });
      return !isEarly;
    });
    if (fresh.length === 0) return;
    const asked = {
      deployment,
      gate,
      planDigest,
      requestedBy,
      metWith,
      accepted: counted.map(({ arrival }) => arrival),
    };
    const known = await giveReceipts(run.state, 'approve', fresh, (arrived) =>
      checks.checkApprovals({ ...asked, arrived }),
    );
    if (!known) return;
    counted.push(...known.verdicts.filter(({ accepted }) => accepted));
    ({ satisfied, missing, approvedBy, rejectedBy } = known);
    if (!satisfied && !rejectedBy) show();
  });
  record('opened');
  show();
  try {
    const inTime = await run.waitFor(() => satisfied || rejectedBy !== undefined, limitMs, `gate ${gate} expires`);
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
    run.gatesMet.set(gateOfPlan, [...(metWith ?? []), ...counted.flatMap(({ digest }) => digest ?? [])]);
    return { [gate]: counted.map(({ arrival }) => arrival) };
  } finally {
    run.signals.on('approve', undefined);
    run.state.waitOver(`gate:${gate}`);
  }
}

/** Approvers of a gate that opens again must know that it does. So earlier documents do not count any more, whoever vouches for them. */
function sentBefore(gate: GateName): Pick<Receipt, 'verdict' | 'code' | 'text'> {
  const again = `approve or reject again: \`${nextCommandOf.approve(workflowInfo().workflowId, gate)}\``;
  return {
    verdict: 'refused',
    code: 'sent-before',
    text: withNext(`sent before gate ${gate} was opened again`, again),
  };
}

/** An approval that counts. */
interface Counted {
  readonly arrival: number;
  /** Of a signed document. */
  readonly digest?: string | undefined;
}
