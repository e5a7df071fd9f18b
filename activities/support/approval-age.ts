import type { Authority } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { GateName } from '../../src/contracts/plan';
import { RunbookError } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import type { RunContext } from '../../src/secrets';
import { unwrapDocument } from '../../src/secrets/people';
import { ArrivedSignals, sameContent } from './arrived-signals';
import { heartbeatAge } from './observe';
import { judgeGate, signalled, verifiedApprovals } from './people';

/** Beside `validFor`: what the steps between an open gate and the change that it is about may take, ms. */
const STEPS_MS = 60 * 60_000;

/** Whose approvals are judged. */
interface Judged {
  readonly deployment: string;
  readonly gate: GateName;
  readonly requestedBy: string | undefined;
  readonly authority: Authority;
}

/**
 * Called right before a change that begins something, with approvals that were verified: they count for `validFor` of
 * their gate, and an hour more. They count from when the gate was met by the server's record of the signals, or from the
 * beginning of the window, where that is later. Never called for what ends an outage (decision 36).
 *
 * @throws RunbookError NOT_APPROVED where they are older, or where the window has not begun or is long over
 */
export async function demandInTime(inventory: Inventory, run: RunContext, judged: Judged): Promise<void> {
  const history = new ArrivedSignals(run);
  const { notBefore, notAfter } = await history.window();
  const { gate } = judged;
  const now = Date.now();
  if (notBefore !== undefined && now < notBefore - STEPS_MS)
    throw tooLate(gate, `the window begins at ${iso(notBefore)}`, 'the window of the run');
  if (notAfter !== undefined && now > notAfter + STEPS_MS)
    throw tooLate(gate, `the window ended at ${iso(notAfter)}`, 'the window of the run');
  demandYoung(inventory, judged, await metAt(inventory, run, history, judged), notBefore);
}

/** @param from - the beginning of the window, epoch ms */
function demandYoung(inventory: Inventory, { deployment, gate }: Judged, met: number, from = 0): void {
  const { validForMs } = findDeployment(inventory, deployment).gates[gate];
  const until = Math.max(met, from) + validForMs + STEPS_MS;
  if (Date.now() <= until) return;
  throw tooLate(
    gate,
    `gate ${gate} was met at ${iso(met)}, which counts until ${iso(until)}`,
    `approvals of gate ${gate} that are not older than its validFor and an hour`,
  );
}

/**
 * As {@link demandInTime} without a window, for a promotion whose primary is gone, and for its fence: where nobody heard
 * the primary since the gate was met, it is the outage that people approved to end, and no approval is too old for that.
 *
 * @param heir - what the cluster that is to be promoted says of its replication; where it tells no heartbeat, nothing says that the primary came back
 */
export async function demandSameOutage(
  inventory: Inventory,
  run: RunContext,
  judged: Judged,
  heir: ReplicationObservation,
): Promise<void> {
  const age = heartbeatAge(heir);
  if (age === undefined) return;
  const heardAt = Date.now() - age;
  const met = await metAt(inventory, run, new ArrivedSignals(run), judged);
  // No window counts here: a run that waits for its window may have been taken over by the failover.
  if (heardAt > met) demandYoung(inventory, judged, met);
}

/**
 * When the approvals met their gate, epoch ms: each counts from its first signal in the history of the run. One that no
 * signal of this run brought counts from when its person says that it was signed.
 */
async function metAt(
  inventory: Inventory,
  run: RunContext,
  history: ArrivedSignals,
  { deployment, gate, requestedBy, authority }: Judged,
): Promise<number> {
  const arrived = await history.every('approve');
  const timed = [];
  for (const document of authority.approvals) {
    const [approval] = await verifiedApprovals(inventory, run, gate, authority.plan.digest, [document]);
    if (approval === undefined) continue;
    const said = unwrapDocument(signalled(document).approval);
    const signal = arrived.find(({ content }) => sameContent(unwrapDocument(content), said));
    timed.push({ approval, at: signal?.at ?? approval.iat * 1000 });
  }
  timed.sort((one, other) => one.at - other.at);
  const counted = timed.map(({ approval }) => approval);
  const last = timed.findIndex(
    (_, index) =>
      judgeGate(inventory, deployment, gate, requestedBy ?? 'unknown', counted.slice(0, index + 1)).satisfied,
  );
  return (timed[last] ?? timed.at(-1))?.at ?? 0;
}

function tooLate(gate: GateName, observed: string, needed: string): RunbookError {
  return new RunbookError('NOT_APPROVED', `What gate ${gate} approved is not begun now: ${observed}.`, {
    observed,
    needed,
    next: 'Nothing was sent. End this run (where it offers "promote-back": with that, the old primary still serves), and start the runbook again: its gates ask anew.',
  });
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
