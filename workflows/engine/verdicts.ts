import { workflowInfo } from '@temporalio/workflow';
import type { EnvelopeVerdict } from '../../src/contracts/ceremony';
import { plainSecretIn } from '../../src/contracts/plain-shares';
import { ENVELOPE_VERDICTS, nextOfShare, withNext } from '../../src/contracts/receipts';
import type { Attested } from '../../src/contracts/run-facts';
import type { InboxItem, SignalName } from '../../src/contracts/signals';
import { checks } from './activity-calls';
import { failureFacts, stepFailure } from './failures';
import type { RunState } from './run-state';

/* Verdicts on what people send: receipts of documents and shares, and key shares in plain text wherever they appear. */

/** The verdict on the signal of this number, as its receipt shows it. */
export interface Verdict {
  readonly arrival: number;
  readonly accepted: boolean;
  readonly code: string;
  readonly text: string;
  readonly by?: Attested;
}

/** The result of a check of what people sent; undefined if it could not be made now, and people are told to send it again. */
async function checked<T>(check: () => Promise<T>): Promise<T | undefined> {
  try {
    return await check();
  } catch (error) {
    if (!failureFacts(error)) throw error;
    return undefined;
  }
}

/**
 * Has what people sent verified, and gives each document its receipt.
 *
 * @param judge - turns the verdict on a document into its verdict in this run; called in the order of arrival
 * @returns the result of the check; undefined if it could not be made
 */
export async function giveReceipts<K extends { readonly verdicts: readonly Verdict[] }>(
  state: RunState,
  signal: SignalName,
  items: readonly InboxItem[],
  check: (arrived: readonly number[]) => Promise<K>,
  judge: (verdict: K['verdicts'][number], known: K) => Verdict = (verdict) => verdict,
): Promise<K | undefined> {
  const arrived = items.map(({ arrival }) => arrival);
  const known = await checked(() => check(arrived));
  const notChecked = { accepted: false, code: 'not-checked', text: 'could not be checked now; send it again' };
  const verdicts: readonly Verdict[] = known
    ? known.verdicts.map((verdict) => judge(verdict, known))
    : arrived.map((arrival) => ({ arrival, ...notChecked }));
  for (const { arrival, accepted, code, text, by } of verdicts)
    state.receipt({ signal, arrival, verdict: accepted ? 'accepted' : 'refused', code, text, from: by });
  return known;
}

/** How many get their own finding. The rest of a flood is only counted, in receipts. */
const FINDINGS = 20;

/** What to do about a secret in the database of Temporal, in the order that matters. */
const PLAIN_SECRETS = {
  'plain-text-share': {
    what: 'key share',
    next: 'In this order: finish this run; rekey the cluster, so that the share is worthless; then delete this run, its resets, exports and backups.',
  },
  'plain-text-token': {
    what: 'token',
    next: 'In this order: end that token now (an operation token with operation-token/delete on its cluster, any other by revoking it); finish this run; then delete this run, its resets, exports and backups.',
  },
} as const;
type PlainSecret = keyof typeof PLAIN_SECRETS;

/** The place of something that must not be readable: namespace, workflow, run and event. The start input is event 1. */
function locationOf(what: string, eventId: number | undefined): string {
  const { namespace, workflowId, runId } = workflowInfo();
  const event = eventId === undefined ? what : `event ${eventId} (${what})`;
  return `${event} of workflow ${workflowId}, run ${runId}, namespace ${namespace}`;
}

/** The critical finding, reported outside the run at once too. */
function notePlainSecret(state: RunState, code: PlainSecret, where: string, eventId: number | undefined): void {
  const { what, next } = PLAIN_SECRETS[code];
  const before = state.findings.filter((each) => each.code in PLAIN_SECRETS).length;
  if (before > FINDINGS) return;
  if (before === FINDINGS) {
    const text = `Further signals seem to contain ${what}s in plain text. Their receipts name them.`;
    state.finding({ severity: 'critical', code, text, next: 'Find out who sends them, and stop them.' });
    return;
  }
  const text = `A ${what} seems to be in plain text in ${locationOf(where, eventId)}. It was refused and not copied, but it is in Temporal's database.`;
  state.alarm({ severity: 'critical', code, text, next });
}

/**
 * Refuses a start input that seems to contain a key share or a token, before anything of it is copied, even to a run of another
 * Workflow ID.
 *
 * @throws ApplicationFailure PLAIN_TEXT_SHARE, which fails the run
 */
export function refusePlainShareInput(runbook: string, input: unknown): void {
  const plain = plainSecretIn(input);
  if (!plain) return;
  const { what, next } = PLAIN_SECRETS[plain];
  const where = locationOf(`the input of ${runbook}`, 1);
  const message = `A ${what} seems to be in plain text in ${where}. Nothing was changed and nothing was copied, but it is in Temporal's database.`;
  throw stepFailure('PLAIN_TEXT_SHARE', message, {
    observed: where,
    needed: `an input without ${what}s`,
    next,
  });
}

/**
 * Refuses signals that seem to contain a key share, before anything processes them. If their events cannot be found, the finding
 * comes anyway, with the number of the signal.
 */
export async function refusePlainShares(state: RunState, items: readonly InboxItem[]): Promise<void> {
  const signals = items.map(({ signal, arrival }) => ({ signal, arrival }));
  const found = await checked(() => checks.readSignalEvents({ signals: signals.slice(0, FINDINGS) }));
  for (const { signal, arrival, input } of items) {
    const code = input === 'plain-text-token' ? input : 'plain-text-share';
    const text = `refused: it seems to contain a ${PLAIN_SECRETS[code].what} in plain text, and was not copied`;
    state.receipt({ signal, arrival, verdict: 'refused', code, text });
    const event = found?.events.find((each) => each.signal === signal && each.arrival === arrival);
    const name = signal === 'unknown' ? 'signal of an unknown name' : `signal ${signal}`;
    notePlainSecret(state, code, `${name}, number ${arrival}`, event?.eventId);
  }
}

/** Gives each envelope its receipt. A secret in plain text is also a finding, because it stays in the database of Temporal. */
export function receiveVerdicts(state: RunState, verdicts: readonly EnvelopeVerdict[], gives?: 'token'): void {
  for (const { arrival, code, text, holder, eventId } of verdicts) {
    const verdict = code === 'accepted' ? 'accepted' : 'refused';
    const { workflowId } = workflowInfo();
    const next = nextOfShare(code, { workflowId, holder: holder?.name, how: holder?.how, gives });
    state.receipt({ signal: 'share', arrival, verdict, code, text: withNext(text, next), from: holder });
    if (code === 'plain-text-share' || code === 'plain-text-token')
      notePlainSecret(state, code, `signal share, number ${arrival}`, eventId);
  }
}

/** Refuses what arrives while no ceremony is under way. Plain text is noticed all the same. */
export async function refuseShares(state: RunState, items: readonly InboxItem[]): Promise<void> {
  const { deployment } = state;
  const arrived = items.map(({ arrival }) => arrival);
  const known = await checked(() => checks.checkUnaskedShares({ deployment, arrived }));
  const unchecked = ({ arrival, input }: InboxItem): EnvelopeVerdict => {
    const plain = plainSecretIn(input);
    if (plain) return { arrival, code: plain, text: ENVELOPE_VERDICTS[plain] };
    return { arrival, code: 'no-ceremony', text: 'refused: this run is not collecting key shares now' };
  };
  receiveVerdicts(state, known?.verdicts ?? items.map(unchecked));
}
