/* What the record is told of a generation, and what it is asked: that a token may exist outlives every worker. */
import { setTimeout as delay } from 'node:timers/promises';
import type { GenerationOutcome } from '../../src/contracts/activities';
import { orphanFinding } from '../../src/contracts/alarms';
import type { OwnAttempt } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import { isRunbookError } from '../../src/errors';
import type { GeneratedTokenKind } from '../../src/vault';
import type { ActivityContext } from '../execution';
import type { LedgerEntry } from './token-ledger';
import { isOfSameRun, ledgerOf } from './token-ledger';

/** How often the entry of a token that was made is written, where that fails. */
const MAX_WRITES = 3;
const WRITE_AGAIN_MS = 100;
/** For how long the last share waits for its note in the record, ms. */
const NOTE_WAIT_MS = 5_000;

/** Which token of which run an attempt is for. */
export interface Subject {
  readonly kind: GeneratedTokenKind;
  readonly deployment: string;
  readonly cluster: string;
  readonly clusterId: string;
  readonly cid: string;
  readonly execution: ActivityContext;
}

export function entryOf(
  { kind, deployment, cluster, clusterId, cid, execution }: Subject,
  { id, mark }: OwnAttempt,
): Omit<LedgerEntry, 'state'> {
  const { ns, wid, rid } = execution.run;
  return {
    ...({ version: 1 } as const),
    ...(kind === 'operation-token' ? {} : { kind }),
    ...{ id, mark, deployment, cluster, clusterId, ns, wid, rid, cid },
    at: new Date().toISOString(),
  };
}

/**
 * Notes that the last share is about to be given. A record that cannot be written holds no token back, longer than a while:
 * while its run is open, the run knows.
 *
 * @throws RunbookError STATE_DIVERGED where the record has another token there: then nothing is given
 */
export async function noteLastShare(subject: Subject, attempt: OwnAttempt): Promise<void> {
  const noting = ledgerOf(subject.execution)
    .begin({ ...entryOf(subject, attempt), state: 'under-way' })
    .then(
      () => undefined,
      (error: unknown) => (isRunbookError(error, 'STATE_DIVERGED') ? error : undefined),
    );
  const taken = await Promise.race([noting, delay(NOTE_WAIT_MS, undefined, { ref: false })]);
  if (taken) throw taken;
}

/** What the record has of this attempt of this run. */
export async function notedOf({ deployment, cluster, cid, execution }: Subject, { id }: OwnAttempt) {
  const entries = await ledgerOf(execution).all(deployment);
  const own = { ...execution.run, cluster };
  return entries.find((each) => each.id === id && each.cid === cid && isOfSameRun(each, own));
}

/** Notes a token that was made. A record that fails once is no reason for an alarm about a token that the run holds. */
export async function noteToken(execution: ActivityContext, entry: LedgerEntry): Promise<boolean> {
  for (let tries = 1; tries <= MAX_WRITES; tries += 1) {
    const done = await ledgerOf(execution)
      .write(entry)
      .then(
        () => true,
        () => false,
      );
    if (done) return true;
    await delay(tries * WRITE_AGAIN_MS);
  }
  return false;
}

export function tokenIn(noted: LedgerEntry | undefined): GenerationOutcome | undefined {
  if (noted?.sealed !== undefined) return { next: 'token', sealed: noted.sealed, findings: [] };
  return noted?.encoded === undefined ? undefined : { next: 'token', encrypted: noted.encoded, findings: [] };
}

/** No token came of an attempt: its entry goes. Where it cannot be written now an alarm too many follows the end of the run. */
export async function noteNoToken(subject: Subject, attempt: OwnAttempt): Promise<void> {
  const noted = await notedOf(subject, attempt).catch(() => undefined);
  if (noted?.state !== 'under-way') return;
  await ledgerOf(subject.execution)
    .settle(noted, undefined)
    .catch(() => undefined);
}

/**
 * A token may exist that nobody holds: told here and now, and kept among the generated tokens. Where its attempt may still
 * be in the slot that is told too.
 */
export async function alarm(
  subject: Subject,
  attempt: OwnAttempt,
  ended: { readonly how: string; readonly isFree: boolean },
): Promise<GenerationOutcome> {
  const how = `attempt ${attempt.mark}: ${ended.how}`;
  // The ledger tells it also where it cannot be written.
  const isOrphan = await ledgerOf(subject.execution)
    .writeOrphan({ ...entryOf(subject, attempt), state: 'orphan', how })
    .catch(() => true);
  const made = isOrphan ? undefined : tokenIn(await notedOf(subject, attempt));
  if (made) return made;
  const left = ended.isFree ? [] : [attemptLeft(subject.cluster, attempt)];
  return { next: 'again', findings: [orphanFinding(subject.kind, subject.cluster, how), ...left] };
}

export function attemptLeft(
  cluster: string,
  attempt: OwnAttempt | undefined,
  why = 'it was not seen to be gone',
): Finding {
  const which = attempt === undefined ? 'A generation attempt' : `The generation attempt ${attempt.mark}`;
  return {
    severity: 'critical',
    code: 'attempt-not-cancelled',
    text: `${which} of this run may still be in the slot of ${cluster}: ${why}. Who gives its last key share makes a token that nobody waits for.`,
    next: `No holder gives a share to it any more. Once ${cluster} answers: \`vault operator generate-root -status\` (for an operation token with \`-dr-token\`), and cancel it with \`-cancel\` where it is that of this run.`,
  };
}
