import { Context } from '@temporalio/activity';
import type { GateName } from '../../src/contracts/gates';
import { APPROVALS_TOO_OLD } from '../../src/contracts/plan';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { RunbookError } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import { currentExecution } from '../execution';
import { heartbeatAge } from '../observe';
import type { AtGate } from './gate';
import { demandGate, judgeGate, sentApprovals } from './gate';

/** Added to `validFor`: the time limit for the steps between an open gate and its change, ms. */
export const STEPS_MS = 60 * 60_000;

/**
 * Called with approvals before a change that starts something: they count for the `validFor` of their gate plus an
 * hour. That time runs from when the gate was met, by the server's record of the signals, but at most from `validFor`
 * after the oldest approval, because a gate is open for that long. If the window begins later, it runs from there.
 * Never called for what ends an outage (decision 40).
 *
 * @returns looks at the clock only, right before the change, as often as needed; throws RunbookError NOT_APPROVED if the
 *   approvals are too old, or if the window has not begun or is long over
 * @throws RunbookError NOT_APPROVED if the gate is not met
 */
export async function timeLimitOf(passed: AtGate): Promise<() => void> {
  const { gate } = passed;
  const { window } = await sentApprovals();
  const { notBefore, notAfter } = window;
  const given = await givenAt(passed);
  return () => {
    const now = Date.now();
    if (notBefore !== undefined && now < notBefore - STEPS_MS)
      throw tooLate(gate, `the window begins at ${iso(notBefore)}`, 'the window of the run');
    if (notAfter !== undefined && now > notAfter + STEPS_MS)
      throw tooLate(gate, `the window ended at ${iso(notAfter)}`, 'the window of the run');
    const next = `Nothing was sent. Decide retry: the run asks gate ${gate} again, and continues with what it has. If new approvals are refused too, compare the clocks of the workers and of the Temporal server.`;
    demandYoung(passed, given, notBefore ?? 0, next);
  };
}

/**
 * Like {@link timeLimitOf} without a window, for a promotion whose primary is gone, and for its fence: if nobody heard
 * the primary since the first needed approval, this is still the outage that people approved to end, and none is too
 * old.
 *
 * @param candidate - the replication status of the cluster to promote; if it reports no heartbeat, nothing shows that the primary came back
 */
export async function demandSameOutage(passed: AtGate, candidate: ReplicationObservation): Promise<void> {
  const age = heartbeatAge(candidate);
  if (age === undefined) return;
  const heardAt = Date.now() - age;
  const given = await givenAt(passed);
  // No window counts here: a run that waits for its window may have been taken over by the failover.
  if (heardAt > given.oldest) demandYoung(passed, given, 0, anotherOutage(passed.gate, heardAt));
}

/** When the approvals that a gate needs arrived, epoch ms. */
interface Given {
  readonly oldest: number;
  /** The approval that met the gate. */
  readonly met: number;
  /** What time it is at least by the server's clock: a worker's may be behind that, by which the approvals are dated. */
  readonly serverNow: () => number;
}

/** If people were asked again, older approvals that the gate no longer needs are left out. */
async function givenAt(passed: AtGate): Promise<Given> {
  const { deployment, gate, plan } = passed;
  const { approvals } = await demandGate(passed);
  const satisfied = (some: typeof approvals) => judgeGate(deployment, gate, plan.requestedBy, some).satisfied;
  let counted = approvals;
  while (counted.length > 0 && satisfied(counted.slice(1))) counted = counted.slice(1);
  const last = counted.findIndex((_, index) => satisfied(counted.slice(0, index + 1)));
  const met = counted[last]?.at ?? 0;
  const { newest, readAt } = await sentApprovals();
  const recorded = Math.max(Context.current().info.currentAttemptScheduledTimestampMs, newest);
  const serverNow = () => recorded + (performance.now() - readAt);
  return { met, oldest: counted[0]?.at ?? met, serverNow };
}

/** @param from - the beginning of the window, epoch ms */
function demandYoung({ deployment, gate }: AtGate, { oldest, met, serverNow }: Given, from: number, next: string) {
  const { validForMs } = findDeployment(currentExecution().inventory, deployment).gates[gate];
  const until = Math.max(Math.min(met, oldest + validForMs), from) + validForMs + STEPS_MS;
  const recorded = serverNow();
  const now = Math.max(Date.now(), recorded);
  if (now <= until) return;
  const late = met > oldest + validForMs ? ` with an approval of ${iso(oldest)}` : '';
  const observed = `gate ${gate} was met at ${iso(met)}${late}, which counts until ${iso(until)}; it is ${iso(now)} here, and at least ${iso(recorded)} by Temporal's record`;
  const needed = `approvals of gate ${gate} that are not older than its validFor plus an hour`;
  throw tooLate(gate, observed, needed, { about: APPROVALS_TOO_OLD, next });
}

function tooLate(
  gate: GateName,
  observed: string,
  needed: string,
  more: { readonly about?: string; readonly next?: string } = {},
): RunbookError {
  return new RunbookError('NOT_APPROVED', `The change that gate ${gate} approved is not started now: ${observed}.`, {
    observed,
    needed,
    next: 'Nothing was sent, and no new approval helps: end the run (with "promote-back" if it offers that: then the old primary still serves), and start the runbook again with another window.',
    ...more,
  });
}

function anotherOutage(gate: GateName, heardAt: number): string {
  return `Nothing was sent. The old primary last responded at ${iso(heardAt)}, after approvals that the gate needs: check whether it serves now. If it does not, decide retry: the run asks gate ${gate} again, and keeps its shares and tokens.`;
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
