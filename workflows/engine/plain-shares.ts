import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import type { NumberedSignal } from '../../activities/approvals/arrived-signals';
import { holdsKeyShare } from '../../src/contracts/plain-shares';
import { checks } from './activity-calls';
import { failureFacts } from './failures';
import type { RunState } from './run-state';

/** Findings of their own; of a flood the rest is only counted, in receipts. */
const FINDINGS = 20;
const REFUSED = 'refused: it seems to hold a key share in plain text, and was copied nowhere';

/** What to do about a key share in the database of Temporal, in the order that counts. */
export const AFTER_PLAIN_SHARE =
  'In this order: finish this run; rekey the cluster, so that the share is worth nothing; then delete this run, its resets, exports and backups.';

/** Where a key share stands readable: the start input is event 1. */
export interface PlainShareAt {
  readonly what: string;
  readonly eventId?: number | undefined;
}

/** Namespace, workflow, run and event, as people need them to find it. */
export function whereItStands({ what, eventId }: PlainShareAt): string {
  const { namespace, workflowId, runId } = workflowInfo();
  const event = eventId === undefined ? what : `event ${eventId} (${what})`;
  return `${event} of workflow ${workflowId}, run ${runId}, namespace ${namespace}`;
}

/** The critical finding, told at once also outside of the run. */
export function notePlainShare(state: RunState, at: PlainShareAt): void {
  const code = 'plain-text-share';
  const before = state.findings.filter((each) => each.code === code).length;
  if (before > FINDINGS) return;
  if (before === FINDINGS) {
    const text = 'Further signals seem to hold key shares in plain text: their receipts name them.';
    state.finding({ severity: 'critical', code, text, next: 'Find out who sends them, and stop it.' });
    return;
  }
  const text = `A key share seems to stand in plain text in ${whereItStands(at)}. It was refused and copied nowhere, and is in Temporal's database.`;
  const finding = { severity: 'critical', code, text, next: AFTER_PLAIN_SHARE } as const;
  state.finding(finding);
  state.notifications.alarm(finding);
}

/**
 * Refuses a start input that seems to hold a key share: before anything of it is copied, also to a run of another
 * Workflow ID.
 *
 * @throws ApplicationFailure PLAIN_TEXT_SHARE, which fails the run
 */
export function refusePlainShareInput(runbook: string, input: unknown): void {
  if (!holdsKeyShare(input)) return;
  const where = whereItStands({ what: `the input of ${runbook}`, eventId: 1 });
  throw ApplicationFailure.create({
    type: 'PLAIN_TEXT_SHARE',
    nonRetryable: true,
    message: `A key share seems to stand in plain text in ${where}. Nothing was touched and nothing copied; it is in Temporal's database.`,
    details: [{ observed: where, needed: 'an input without key shares', next: AFTER_PLAIN_SHARE, outcomeKnown: true }],
  });
}

/** Refuses signals that hold what seems to be a key share, before anything looks at them. */
export async function refusePlainShares(state: RunState, signals: readonly NumberedSignal[]): Promise<void> {
  const events = await eventsOf(signals);
  for (const { signal, arrival } of signals) {
    state.receipt({ signal, arrival, verdict: 'refused', code: 'plain-text-share', text: REFUSED });
    const eventId = events.find((each) => each.signal === signal && each.arrival === arrival)?.eventId;
    const name = signal === 'unknown' ? 'signal of an unknown name' : `signal ${signal}`;
    notePlainShare(state, { what: `${name}, number ${arrival}`, eventId });
  }
}

/** Without a worker that answers the finding still comes, with the number of the signal instead of its event. */
async function eventsOf(signals: readonly NumberedSignal[]) {
  try {
    return (await checks.readSignalEvents({ signals: signals.slice(0, FINDINGS) })).events;
  } catch (error) {
    if (!failureFacts(error)) throw error;
    return [];
  }
}
