import { createHash } from 'node:crypto';
import type { GeneratedTokenKind, GenerationAttempt, GenerationEndpoints } from '../../src/vault';
import { attemptMark } from '../../src/contracts/ceremony';
import type { OwnAttempt } from '../../src/contracts/ceremony';
import { isRunbookError, orElse, RunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { Execution } from '../execution';
import { awaitState } from '../read-act-confirm';
import { CHANGE_TIMEOUT_MS } from '../timing';

/** Cancellations and starts that may fail in a row before the slot counts as unusable. */
const MAX_TRIES = 6;
const READ_BUDGET_MS = 30_000;
/** Pause between two reads while there is no active node: short, because the outage waits for the burst. */
const READ_POLL_MS = 100;

/** The single generation slot of a cluster, from the view of one token generation. */
export interface Slot {
  readonly endpoints: GenerationEndpoints<GeneratedTokenKind>;
  readonly cluster: string;
  readonly kind: GeneratedTokenKind;
  /**
   * The OpenPGP key to which the service encrypts the token: base64 of the binary public key. Used for a start only.
   */
  readonly pgpPublicKey: string;
  /** Fingerprint of that key, lower-case hexadecimal. It distinguishes our attempt from somebody else's. */
  readonly pgpFingerprint: string;
  /**
   * Digests of the nonces of the attempts that we started; every start adds one. Set if somebody else may use the same
   * key manually, such as the recipient of a root token: then only the nonce identifies our attempt.
   */
  readonly nonces: Set<string> | undefined;
  /** X-Vault-Token of the calls, if the service requires one. */
  readonly token: Secret | undefined;
}

/** SHA-256 of a nonce: the nonce itself is never shown. */
export function digestOf(nonce: string): string {
  return createHash('sha256').update(nonce).digest('base64url');
}

/** Whether the present attempt is ours: by the fingerprint of our key and, if that does not suffice, by its nonce. */
function isOurs({ pgpFingerprint, nonces }: Slot, seen: GenerationAttempt): boolean {
  const { started, nonce = '' } = seen;
  return started && seen.pgpFingerprint === pgpFingerprint && (nonces?.has(digestOf(nonce)) ?? true);
}

/** Whether it is exactly this attempt of ours. */
export function isThis(slot: Slot, { nonceDigest }: Pick<OwnAttempt, 'nonceDigest'>, seen: GenerationAttempt): boolean {
  return isOurs(slot, seen) && digestOf(seen.nonce ?? '') === nonceDigest;
}

/**
 * Starts our attempt. Cancels an earlier attempt of ours first; never cancels somebody else's.
 *
 * @throws RunbookError ATTEMPT_FOREIGN, ATTEMPT_LOST
 */
export async function startOwn(execution: Execution, slot: Slot): Promise<GenerationAttempt> {
  const { endpoints, pgpPublicKey, pgpFingerprint, cluster } = slot;
  const options = { token: slot.token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS };
  for (let tries = 0; ; tries += 1) {
    execution.throwIfCancelled();
    const present = await readAttempt(execution, slot);
    await execution.assertCurrentAttempt();
    if (present.started) {
      if (!isOurs(slot, present)) throw foreignAttempt(slot, present);
      if (tries >= MAX_TRIES) throw notCancellable(cluster, tries);
      await endpoints.cancelAttempt(options).catch((error: unknown) => {
        if (!isRunbookError(error) || error.code === 'PERMISSION_DENIED') throw error;
      });
      continue;
    }
    try {
      return ours(slot, await endpoints.startAttempt({ pgpKey: pgpPublicKey }, options));
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      const seen = await readAttempt(execution, slot);
      const isOfKey = seen.started && seen.pgpFingerprint === pgpFingerprint;
      // A start that was certainly refused created no attempt: one with the same key is then somebody else's.
      if (isOfKey && !(slot.nonces && error.outcomeKnown)) return ours(slot, seen);
      // A permanent refusal, such as a missing right, does not go away by itself.
      if ((error.outcomeKnown && !error.retryable && error.code !== 'BAD_REQUEST') || tries >= MAX_TRIES) throw error;
    }
  }
}

function ours({ nonces }: Slot, attempt: GenerationAttempt): GenerationAttempt {
  if (attempt.nonce !== undefined) nonces?.add(digestOf(attempt.nonce));
  return attempt;
}

function notCancellable(cluster: string, tries: number): RunbookError {
  return new RunbookError('ATTEMPT_LOST', `The attempt in the slot of ${cluster} cannot be cancelled.`, {
    retryable: false,
    cluster,
    observed: `still there after ${tries} cancellations`,
    needed: 'a free slot',
    next: `Check ${cluster}, then retry. No holder is asked again.`,
  });
}

export async function readAttempt(
  execution: Execution,
  { endpoints, token, cluster }: Pick<Slot, 'endpoints' | 'token' | 'cluster'>,
): Promise<GenerationAttempt> {
  return awaitState(execution, {
    read: () => endpoints.readAttempt({ token, signal: execution.signal }),
    until: () => true,
    budgetMs: READ_BUDGET_MS,
    pollMs: READ_POLL_MS,
    describe: () => 'read',
    needed: `the generation attempt of ${cluster} can be read`,
    cluster,
  });
}

/**
 * Frees the single slot, if the attempt in it is ours.
 *
 * @returns false if an attempt of ours may still be there
 */
export async function cancelOwn(slot: Slot): Promise<boolean> {
  const { endpoints, token } = slot;
  try {
    if (!isOurs(slot, await endpoints.readAttempt({ token }))) return true;
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    // A cluster that is no longer a DR secondary has no such attempt.
    return error.code === 'BAD_REQUEST';
  }
  return endpoints.cancelAttempt({ token, timeoutMs: CHANGE_TIMEOUT_MS }).then(
    () => true,
    (error: unknown) => {
      if (!isRunbookError(error)) throw error;
      return false;
    },
  );
}

/** The service's answer to a last share that gave no token. `not-sent`: it certainly did not arrive. */
type LastAnswer = 'refused' | 'not-sent' | 'unknown';

/** The state of our attempt after the last share. `waiting`: it holds shares. `reset`: it holds none. */
type SeenAfter = 'waiting' | 'reset' | 'gone' | 'unreadable';

/**
 * The core of a token generation: the service's answer and the state afterwards determine what follows. `next-set`:
 * these shares do not make a token together. `again`: no token was generated; use the same shares for another attempt.
 * `alarm`: a token may exist that nobody holds.
 */
const AFTER_LAST_SHARE = {
  // A complete set that does not combine resets the attempt to no shares.
  refused: { waiting: 'again', reset: 'next-set', gone: 'again', unreadable: 'again' },
  'not-sent': { waiting: 'again', reset: 'again', gone: 'again', unreadable: 'again' },
  // A present attempt proves nothing: the share that was sent may arrive after the read.
  unknown: { waiting: 'alarm', reset: 'alarm', gone: 'alarm', unreadable: 'alarm' },
} as const satisfies Readonly<Record<LastAnswer, Readonly<Record<SeenAfter, string>>>>;

const HOW: Readonly<Record<SeenAfter, string>> = {
  waiting: 'the answer to the last share was lost; the attempt was still waiting, and the share may have arrived late',
  reset: 'the answer to the last share was lost; the attempt was at progress 0, and the share may have arrived late',
  gone: 'the answer to the last share was lost, and the attempt was gone afterwards',
  unreadable: 'the effect of the last share could not be read',
};

/**
 * Determines by reads what the last share did, and frees the slot.
 *
 * @returns `how` it ended, for an alarm; `isFree`: our attempt is certainly gone
 */
export async function settleLastShare(
  execution: Execution,
  slot: Slot,
  attempt: Pick<OwnAttempt, 'nonceDigest'>,
  answer: LastAnswer,
) {
  const seen = await readAttempt(execution, slot).catch(orElse(execution.signal, () => undefined));
  const there = seen && (isThis(slot, attempt, seen) ? (seen.progress === 0 ? 'reset' : 'waiting') : 'gone');
  const as: SeenAfter = there ?? 'unreadable';
  // Cancel even after an alarm: a present attempt could be completed later.
  return { next: AFTER_LAST_SHARE[answer][as], how: HOW[as], isFree: await cancelOwn(slot) };
}

/**
 * The key of an attempt as text, its fingerprint in groups of four. Never quotes anything that is not a fingerprint.
 */
function keyText(pgpFingerprint: string | undefined): string {
  if (pgpFingerprint === undefined) return 'a one-time password';
  const isFingerprint = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(pgpFingerprint);
  return isFingerprint ? `key ${(pgpFingerprint.match(/.{4}/g) ?? []).join(' ')}` : 'a key with an invalid fingerprint';
}

/** The command that cancels an attempt that nobody claims. */
export function cancelCommand(kind: GeneratedTokenKind): string {
  return `vault operator generate-root ${kind === 'operation-token' ? '-dr-token ' : ''}-cancel`;
}

/** The error if the attempt in the slot is not known to be ours. This program never cancels such an attempt. */
function foreignAttempt(
  { cluster, kind, pgpFingerprint: wanted }: Slot,
  { nonce = '', pgpFingerprint, progress, required }: GenerationAttempt,
) {
  const mark = attemptMark(nonce);
  const observed = `attempt ${mark} with ${keyText(pgpFingerprint)}, ${progress} of ${required} key shares given`;
  const shown = `shows a nonce that begins with ${mark}. They finish or cancel it, then retry.`;
  const cancel = `run \`${cancelCommand(kind)}\`, then retry.`;
  const { message, next } =
    pgpFingerprint === wanted
      ? {
          message: `A generation attempt with the recipient's key is under way on ${cluster}, but this run did not start it.`,
          next: `Ask the recipient whether they started it manually. If so, their tool ${shown} Otherwise it may belong to a worker of this run that ended before it could report it: ${cancel}`,
        }
      : {
          message: `Somebody else's generation attempt is under way on ${cluster}.`,
          next: `Find out whose it is: the owner's key has this fingerprint, and their tool ${shown} If nobody claims it, ${cancel}`,
        };
  return new RunbookError('ATTEMPT_FOREIGN', message, {
    ...{ cluster, observed, next },
    needed: 'a free slot, or our own attempt',
  });
}
