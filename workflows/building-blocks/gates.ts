import type { GatePolicyFacts } from '../../src/contracts/activities';
import type { GateName } from '../../src/contracts/plan';
import type { Attested } from '../../src/contracts/run-facts';
import type { InboxItem } from '../../src/contracts/signals';
import { checks } from './activity-calls';
import { RunStopped, failureFacts } from './failures';
import type { Run } from './run';

/** A point where the run waits for people to approve what comes next. */
export interface GateRequest {
  readonly gate: GateName;
  readonly planDigest: string;
  readonly policy: GatePolicyFacts;
  readonly requestedBy: string;
  /** Why it is opened again, where it was met before. */
  readonly again?: string | undefined;
  /** What it approves ends an outage, also where the run has not said yet that there is one. */
  readonly endsOutage?: boolean | undefined;
}

/** Signed approvals that met a gate of this run before: where it opens again they are as old as they were. */
const GIVEN = new WeakMap<Run, Set<string>>();

/**
 * Opens the gate and waits until its policy is met. While clients have no primary no clock ends that: people are reminded.
 *
 * @returns the approvals as they arrived: dangerous activities verify them again
 * @throws RunStopped where somebody rejected, the gate's time passed, or the run was stopped
 */
export async function passGate(run: Run, request: GateRequest): Promise<readonly unknown[]> {
  const { gate, planDigest, policy, again } = request;
  const record = (state: 'opened' | 'approved' | 'rejected' | 'expired' | 'not-needed', by: readonly Attested[] = []) =>
    run.state.fact({ kind: 'gate', gate, state, planDigest, by });
  if (!policy.needed) {
    record('not-needed');
    return [];
  }
  const accepted: unknown[] = [];
  const given = GIVEN.get(run) ?? new Set<string>();
  GIVEN.set(run, given);
  const signed: string[] = [];
  let missing: readonly string[] = [`${policy.approvals} of ${policy.approvers.join(', ')}`];
  let approvedBy: readonly Attested[] = [];
  let rejectedBy: Attested | undefined;
  let satisfied = false;
  const limitMs = request.endsOutage === true || run.state.serviceIsOut ? undefined : policy.validForMs;
  const until = limitMs === undefined ? undefined : Date.now() + limitMs;
  const show = () =>
    run.state.wait(`gate:${gate}`, {
      for: 'approval',
      gate,
      planDigest,
      missing,
      approved: approvedBy,
      ...(until === undefined ? {} : { until }),
      ...(again === undefined ? {} : { again }),
    });

  run.signals.on('approve', async (items) => {
    const asBefore = items.filter(({ input }) => given.has(keyOf(request, input)));
    refuseAll(run, asBefore, 'repeated', `gate ${gate} was met with this very document before; approve anew`);
    const others = items.filter((item) => !asBefore.includes(item));
    if (others.length === 0) return;
    const checked = await checkApprovals(run, request, { accepted, signed }, others);
    if (!checked) return;
    satisfied = checked.satisfied;
    missing = checked.missing;
    approvedBy = checked.approvedBy;
    rejectedBy = checked.rejectedBy;
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
    for (const document of signed) given.add(document);
    return accepted;
  } finally {
    run.signals.on('approve', undefined);
    run.state.waitOver(`gate:${gate}`);
  }
}

function keyOf({ gate, planDigest }: GateRequest, document: unknown): string {
  return JSON.stringify([gate, planDigest, document]);
}

function refuseAll(run: Run, items: readonly InboxItem[], code: string, text: string): void {
  for (const { arrival } of items) run.state.receipt({ signal: 'approve', arrival, verdict: 'refused', code, text });
}

async function checkApprovals(
  run: Run,
  request: GateRequest,
  { accepted, signed }: { readonly accepted: unknown[]; readonly signed: string[] },
  items: readonly InboxItem[],
) {
  try {
    const checked = await checks.checkApprovals({
      deployment: run.state.deployment,
      gate: request.gate,
      planDigest: request.planDigest,
      requestedBy: request.requestedBy,
      accepted,
      arrived: items.map(({ arrival }) => arrival),
    });
    for (const { arrival, accepted: counts, code, text, by } of checked.verdicts) {
      run.state.receipt({ signal: 'approve', arrival, verdict: counts ? 'accepted' : 'refused', code, text, from: by });
      const item = items.find((each) => each.arrival === arrival);
      // With the number of its signal, by which dangerous activities find out again who sent it.
      if (counts && item) accepted.push(by?.how === 'principal' ? { approval: item.input, arrival } : item.input);
      if (counts && item && by?.how === 'signed') signed.push(keyOf(request, item.input));
    }
    return checked;
  } catch (error) {
    if (!failureFacts(error)) throw error;
    refuseAll(run, items, 'not-checked', 'could not be checked now; send it again');
    return undefined;
  }
}
