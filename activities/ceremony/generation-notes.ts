/* Notes about a generation in the record: the knowledge that a token may exist must outlive every worker. */
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
import type { LedgerEntry, TokenLedger } from '../tokens/token-ledger';
import { isOfSameRun, ledgerOf } from '../tokens/token-ledger';

/** Attempts to write how a generation attempt ended. */
const MAX_WRITES = 3;
const WRITE_AGAIN_MS = 100;

/** What this run asked the holders for: by its invitation, a token of this kind for this cluster. */
export interface Asked {
  readonly deployment: string;
  readonly invitation: Awaited<ReturnType<typeof readOwnInvitation<'ceremony'>>>['invitation'];
  readonly target: InvitationTarget;
}

/** The token that an attempt generates: who it is for, and the keys that open it. */
export interface Wanted extends Asked {
  readonly record: KeyRecord;
  /** Uses of an operation token. */
  readonly uses: readonly TokenUse[];
  /** The person who receives the token, if it is not for the run. */
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
 * Notes that the last share is about to be given. A record that cannot be written delays the token only briefly: while
 * the run is open, the run itself knows.
 *
 * @throws RunbookError STATE_DIVERGED if the record has another token under this ID: then the share is not given
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

/** The record's entry for this attempt of this run. */
export async function notedOf({ deployment, invitation: { cid }, target: { cluster } }: Asked, { id }: OwnAttempt) {
  const execution = currentExecution();
  const entries = await ledgerOf(execution).all(deployment);
  const own = { ...execution.run, cluster };
  return entries.find((each) => each.id === id && each.cid === cid && isOfSameRun(each, own));
}

/**
 * Writes how an attempt ended; retries, because one failed write is no reason for an alarm. @returns whether it is
 * written
 */
async function writeWithRetries(write: (ledger: TokenLedger) => Promise<void>): Promise<boolean> {
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
 * An attempt made no token: removes its note, even one that is being written only now. If the record cannot be written,
 * an unnecessary alarm follows the end of the run.
 */
export async function noteNoToken(asked: Asked, attempt: OwnAttempt): Promise<void> {
  await writeWithRetries((ledger) => ledger.drop(entryOf(asked, attempt)));
}

/**
 * A token may exist that nobody holds: reports it at once, and adds it to the generated tokens. Also reports if its
 * attempt may still be in the slot.
 */
export async function alarm(
  asked: Asked,
  attempt: OwnAttempt,
  ended: { readonly how: string; readonly isFree: boolean },
): Promise<GenerationOutcome> {
  const { invitation, target } = asked;
  const how = `attempt ${attempt.mark}: ${ended.how}`;
  // The ledger sends the alarm even if it cannot write the entry.
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
  why = 'nothing confirms that it is gone',
): Finding {
  const which = attempt === undefined ? 'A generation attempt' : `The generation attempt ${attempt.mark}`;
  return {
    severity: 'critical',
    code: 'attempt-not-cancelled',
    text: `${which} of this run may still be in the slot of ${cluster}: ${why}. The person who gives its last key share generates a token that no run waits for.`,
    next: `Make sure that no holder gives it another share. When ${cluster} answers, run \`vault operator generate-root -status\` (for an operation token, with \`-dr-token\`). If the attempt is the one of this run, cancel it with \`-cancel\`.`,
  };
}

/**
 * The token exists: notes it before anything else, so that the knowledge is not lost with this worker.
 *
 * @throws RunbookError TOKEN_ORPHANED if nobody can use it. Nothing may retry automatically: each try would leave
 * another
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
    const how = 'it was generated, and cannot be opened or sealed here';
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
  const isNoted = await writeWithRetries((ledger) => ledger.write(entry));
  return { next: 'token', ...received, findings: isNoted || !('sealed' in received) ? [] : [notNoted(cluster)] };
}

/** Receives the token. Throws if nobody can use it: it is then a token that nobody holds. */
async function receive({ recipient, record, uses, invitation, target }: Wanted, encoded: Secret) {
  const text = encoded.reveal();
  if (!recipient) {
    const made = await openToken(record.keys, text);
    return { sealed: await sealOperationToken(target, uses, made, invitation.keepFor) };
  }
  if (await isEncryptedOnlyTo(recipient, text)) return { encrypted: text };
  throw new RunbookError('RESPONSE_INVALID', 'The encoded token is not encrypted to the recipient only.');
}

/** The reservation of a token that the record keeps for a later run. */
function keptFor({ invitation: { keepFor }, uses }: Wanted, holders: readonly string[]) {
  if (keepFor === undefined) return {};
  const { wid, rid } = currentExecution().run;
  const now = Date.now();
  const until = new Date(now + keepFor * 1000).toISOString();
  return { kept: { until, uses: [...uses], holders: [...holders], wid, rid, at: new Date(now).toISOString() } };
}

/** The run holds the sealed token and deletes it. If the run ends without doing so, nobody else can. */
function notNoted(cluster: string): Finding {
  return {
    severity: 'critical',
    code: TOKEN_NOT_IN_RECORD,
    text: `The operation token of ${cluster} was generated, but the record could not be written afterwards.`,
    next: `Make the record answer again, and do not terminate this run: it then deletes the token when it ends. If the report does not show the token as deleted, it is still valid and nobody can read it. Ask the service's vendor how to revoke it, or revoke all operation tokens by disabling and re-enabling DR on ${cluster} when it is safe.`,
  };
}
