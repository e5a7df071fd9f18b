/* What the record is told of a generation, and what it is asked: that a token may exist outlives every worker. */
import { setTimeout as delay } from 'node:timers/promises';
import type { GenerationOutcome } from '../../src/contracts/activities';
import { TOKEN_NOT_IN_RECORD, orphanFinding } from '../../src/contracts/run-status';
import type { OwnAttempt } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { InvitationTarget, KeyRecord, RecipientKey, readOwnInvitation } from '../../src/keys';
import { isEncryptedOnlyTo, openToken } from '../../src/keys';
import type { Secret } from '../../src/secret';
import { currentExecution } from '../execution';
import { sealOperationToken } from '../tokens/operation-token';
import type { LedgerEntry, TokenLedger } from './token-ledger';
import { isOfSameRun, ledgerOf } from './token-ledger';

/** How often it is tried to write how an attempt ended. */
const MAX_WRITES = 3;
const WRITE_AGAIN_MS = 100;

/** What this run asked the holders for: a token of this kind for this cluster, as its invitation says. */
export interface Asked {
  readonly deployment: string;
  readonly invitation: Awaited<ReturnType<typeof readOwnInvitation<'ceremony'>>>['invitation'];
  readonly target: InvitationTarget;
}

/** For whom the token is that an attempt makes, and with what it is opened. */
export interface Wanted extends Asked {
  readonly record: KeyRecord;
  /** Of an operation token. */
  readonly uses: readonly TokenUse[];
  /** For whom the token is, where it is not for the run. */
  readonly recipient: RecipientKey | undefined;
}

function entryOf(
  { deployment, invitation: { kind, cid }, target: { cluster, clusterId } }: Asked,
  { id, mark }: OwnAttempt,
): Omit<LedgerEntry, 'state'> {
  const { ns, wid, rid } = currentExecution().run;
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
export async function noteLastShare(asked: Asked, attempt: OwnAttempt): Promise<void> {
  const execution = currentExecution();
  const noting = ledgerOf(execution)
    .begin({ ...entryOf(asked, attempt), state: 'under-way' })
    .then(
      () => undefined,
      (error: unknown) => (isRunbookError(error, 'STATE_DIVERGED') ? error : undefined),
    );
  const taken = await Promise.race([noting, delay(execution.timing.noteMs, undefined, { ref: false })]);
  if (taken) throw taken;
}

/** What the record has of this attempt of this run. */
export async function notedOf({ deployment, invitation: { cid }, target: { cluster } }: Asked, { id }: OwnAttempt) {
  const execution = currentExecution();
  const entries = await ledgerOf(execution).all(deployment);
  const own = { ...execution.run, cluster };
  return entries.find((each) => each.id === id && each.cid === cid && isOfSameRun(each, own));
}

/** Writes how an attempt ended. A record that fails once is no reason for an alarm. @returns whether it is written */
async function insist(write: (ledger: TokenLedger) => Promise<void>): Promise<boolean> {
  for (let tries = 1; tries <= MAX_WRITES; tries += 1) {
    const done = await write(ledgerOf(currentExecution())).then(
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

/**
 * No token came of an attempt: its note goes, also one that is written only now. Where the record cannot be written an alarm
 * too many follows the end of the run.
 */
export async function noteNoToken(asked: Asked, attempt: OwnAttempt): Promise<void> {
  await insist((ledger) => ledger.drop(entryOf(asked, attempt)));
}

/**
 * A token may exist that nobody holds: told here and now, and kept among the generated tokens. Where its attempt may still
 * be in the slot that is told too.
 */
export async function alarm(
  asked: Asked,
  attempt: OwnAttempt,
  ended: { readonly how: string; readonly isFree: boolean },
): Promise<GenerationOutcome> {
  const { invitation, target } = asked;
  const how = `attempt ${attempt.mark}: ${ended.how}`;
  // The ledger tells it also where it cannot be written.
  const isOrphan = await ledgerOf(currentExecution())
    .writeOrphan({ ...entryOf(asked, attempt), state: 'orphan', how })
    .catch(() => true);
  const made = isOrphan ? undefined : tokenIn(await notedOf(asked, attempt));
  if (made) return made;
  const left = ended.isFree ? [] : [attemptLeft(target.cluster, attempt)];
  return { next: 'again', findings: [orphanFinding(invitation.kind, target.cluster, how), ...left] };
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

/**
 * The token exists: it is noted before anything else, so that what can be said of it is not lost with this worker.
 *
 * @throws RunbookError TOKEN_ORPHANED where nobody can use it: nothing may try on by itself, each try would leave another
 */
export async function keepToken(
  wanted: Wanted,
  attempt: OwnAttempt,
  encoded: Secret,
  holders: readonly string[],
): Promise<GenerationOutcome> {
  const { cluster } = wanted.target;
  const received = await receive(wanted, encoded).catch(() => undefined);
  if (!received) {
    const how = 'it was made, and cannot be opened or sealed here';
    const { findings } = await alarm(wanted, attempt, { how, isFree: true });
    currentExecution().doubt.mayHaveSent = false;
    const [{ text, next } = { text: '', next: undefined }] = findings;
    throw new RunbookError('TOKEN_ORPHANED', text, { cluster, findings, outcomeKnown: true, ...(next && { next }) });
  }
  const state =
    'sealed' in received
      ? ({ state: 'alive', sealed: received.sealed, ...keptFor(wanted, holders) } as const)
      : ({ state: 'handed-over', encoded: received.encrypted } as const);
  const entry = { ...entryOf(wanted, attempt), ...state };
  const isNoted = await insist((ledger) => ledger.write(entry));
  return { next: 'token', ...received, findings: isNoted || !('sealed' in received) ? [] : [notNoted(cluster)] };
}

/** Takes the answer of the last share. Throws where nobody can use it: the token is then one that nobody holds. */
async function receive({ recipient, record, uses, invitation, target }: Wanted, encoded: Secret) {
  const text = encoded.reveal();
  if (!recipient) {
    const made = await openToken(record.keys, text);
    return { sealed: await sealOperationToken(target, uses, made, invitation.keepFor) };
  }
  if (await isEncryptedOnlyTo(recipient, text)) return { encrypted: text };
  throw new RunbookError('RESPONSE_INVALID', 'The encoded token is not encrypted to the recipient alone.');
}

/** Where the record keeps the token for a later run. */
function keptFor({ invitation: { keepFor }, uses }: Wanted, holders: readonly string[]) {
  if (keepFor === undefined) return {};
  const { wid, rid } = currentExecution().run;
  const now = Date.now();
  const until = new Date(now + keepFor * 1000).toISOString();
  return { kept: { until, uses: [...uses], holders: [...holders], wid, rid, at: new Date(now).toISOString() } };
}

/** The run holds the token, sealed, and deletes it; a run that ends without that leaves it to nobody. */
function notNoted(cluster: string): Finding {
  return {
    severity: 'critical',
    code: TOKEN_NOT_IN_RECORD,
    text: `The operation token of ${cluster} was generated, and the record could not be written afterwards.`,
    next: `This run deletes the token at its end, once the record answers again: see to that, and terminate nothing. A token that the report does not call deleted is alive, and nobody can read it: ask the service's vendor how to end it, or end all of them by disabling and re-enabling DR on ${cluster} when it is safe.`,
  };
}
