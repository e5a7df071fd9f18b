import { randomBytes } from 'node:crypto';
import type { GeneratedTokenKind, GenerationAttempt } from '../../src/vault';
import type { OwnAttempt } from '../../src/contracts/ceremony';
import type { RunbookError } from '../../src/errors';
import { isRunbookError } from '../../src/errors';
import { Secret } from '../../src/secret';
import type { Execution } from '../execution';
import { CHANGE_TIMEOUT_MS } from '../read-act-confirm';
import type { Slot } from './generation-slot';
import { cancelOwn, digestOf, isOurs, readAttempt } from './generation-slot';

/** What the service said to a last share that gave no token. `not-sent`: it is certain that it did not arrive. */
export type LastAnswer = 'refused' | 'not-sent' | 'unknown';

/** Our attempt as it is seen after the last share. `waiting`: it holds shares. `reset`: it holds none. */
export type SeenAfter = 'waiting' | 'reset' | 'gone' | 'unreadable';

/**
 * What follows. `next-set`: these shares do not make a token together. `again`: no token came of it, the same shares make
 * another attempt. `make-useless`: a share that is under way must not complete it. `alarm`: a token may exist that nobody
 * holds.
 */
export type Next = 'next-set' | 'again' | 'make-useless' | 'alarm';

/** The core of a token generation: what the service answered, and what a look afterwards shows, say what follows. */
export const AFTER_LAST_SHARE: Readonly<Record<LastAnswer, Readonly<Record<SeenAfter, Next>>>> = {
  // A complete set that does not combine puts the attempt back to no share.
  refused: { waiting: 'again', reset: 'next-set', gone: 'again', unreadable: 'again' },
  'not-sent': { waiting: 'again', reset: 'again', gone: 'again', unreadable: 'again' },
  // An attempt that is there proves nothing by itself: what was sent may arrive after the look.
  unknown: { waiting: 'make-useless', reset: 'make-useless', gone: 'alarm', unreadable: 'alarm' },
};

/** How an attempt of the service is seen, beside the one that was given its last share. */
export function seenAs(slot: Slot, attempt: Pick<OwnAttempt, 'nonceDigest'>, seen: GenerationAttempt): SeenAfter {
  if (!isThis(slot, attempt, seen)) return 'gone';
  return seen.progress === 0 ? 'reset' : 'waiting';
}

/** Whether it is this very attempt of ours. */
export function isThis(slot: Slot, { nonceDigest }: Pick<OwnAttempt, 'nonceDigest'>, seen: GenerationAttempt): boolean {
  return isOurs(slot, seen) && digestOf(seen.nonce ?? '') === nonceDigest;
}

/** How a last share without a token ends. */
type Ended =
  { readonly next: 'next-set' | 'again'; readonly isFree: boolean } | { readonly next: 'alarm'; readonly how: string };

/**
 * Finds out by reads what the last share did, and frees the slot.
 *
 * @returns `isFree`: our attempt is certainly gone
 */
export async function settleLastShare(
  execution: Execution,
  slot: Slot,
  kind: GeneratedTokenKind,
  attempt: Pick<OwnAttempt, 'nonceDigest'>,
  answer: LastAnswer,
): Promise<Ended> {
  const seen = await readAttempt(execution, slot).catch((error: unknown) => {
    if (!isRunbookError(error) || execution.signal.aborted) throw error;
    return undefined;
  });
  const as = seen === undefined ? 'unreadable' : seenAs(slot, attempt, seen);
  const next = AFTER_LAST_SHARE[answer][as];
  if (next === 'next-set' || next === 'again') return { next, isFree: await cancelOwn(slot) };
  if (next === 'alarm' || seen === undefined) return { next: 'alarm', how: HOW[as] };
  const end = await endDoubt(slot, kind, seen);
  const isFree = await cancelOwn(slot);
  if (end === 'certain') return { next: 'again', isFree };
  return { next: 'alarm', how: end === 'gone' ? HOW.gone : HOW[as] };
}

const HOW: Readonly<Record<SeenAfter, string>> = {
  waiting: 'the answer to the last share was lost, and the share may have arrived late',
  reset: 'the connection closed at the last share, and the attempt is there at progress 0',
  gone: 'the answer to the last share was lost, and the attempt was not there afterwards',
  unreadable: 'what the last share did could not be read',
};

/** Bytes of a share of a 32-byte key: the longest that the service looks at. */
const SHARE_BYTES = 33;
/** How often an attempt is given a useless share, where what that did is not seen. */
const MAX_USELESS = 3;

type Calls = Pick<Slot, 'endpoints' | 'token'>;

/** What the service said to one share. */
type Given =
  | { readonly kind: 'attempt'; readonly attempt: GenerationAttempt }
  | { readonly kind: 'refused' }
  /** The service takes nothing from us. */
  | { readonly kind: 'denied'; readonly error: RunbookError }
  /** No clear answer. `outcomeKnown`: it is certain that the share did not arrive. */
  | { readonly kind: 'unclear'; readonly outcomeKnown: boolean };

export async function give({ endpoints, token }: Calls, key: Secret<'key-share'>, nonce: string): Promise<Given> {
  try {
    return {
      kind: 'attempt',
      attempt: await endpoints.update({ key, nonce }, { token, timeoutMs: CHANGE_TIMEOUT_MS }),
    };
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    if (error.code === 'PERMISSION_DENIED') return { kind: 'denied', error };
    return error.code === 'BAD_REQUEST' ? { kind: 'refused' } : { kind: 'unclear', outcomeKnown: error.outcomeKnown };
  }
}

/**
 * Makes certain that no share which is under way completes an attempt. A look at it proves nothing of that: what was sent
 * may arrive right after the look, and a cancellation is accepted whether the attempt was there or not. So it is given
 * random bytes in the place of its last share. The service looks whether they fit, and puts the attempt back to no share,
 * in one step: whatever arrives later finds too few.
 *
 * A look that shows fewer shares is no proof by itself: the service reads the nonce first and counts the shares then, and
 * the attempt may have ended in between. One that begins later shows whether it had.
 *
 * @returns `certain`: no token came of it, and of what is under way none will. `gone`: it is not there any more, and how
 *   it ended was not seen. `open`: not known; always so where one share suffices for a token
 */
export async function endDoubt(
  calls: Calls,
  kind: GeneratedTokenKind,
  seen: GenerationAttempt,
): Promise<'certain' | 'gone' | 'open'> {
  const { nonce, required } = seen;
  if (!seen.started || nonce === undefined) return 'gone';
  let { progress } = seen;
  let mayHaveDied = false;
  for (let given = 0; ; given += 1) {
    // A key of this program's own: the service forgets the attempt with its token, and so this one has made none. With a
    // recipient's key the service may have died over the token that it made, and left the attempt at no share.
    if (required <= 1) return 'open';
    if (progress < required - 1) return kind === 'operation-token' ? lookAgain(calls, seen) : 'open';
    if (given === MAX_USELESS) return 'open';
    const useless = new Secret('key-share', randomBytes(SHARE_BYTES).toString('hex'));
    const answer = await give(calls, useless, nonce);
    if (answer.kind === 'denied') return 'open';
    const now = await look(calls);
    if (now === undefined) continue;
    if (!now.started || now.nonce !== nonce) return 'gone';
    if (answer.kind === 'refused' && now.progress < required - 1)
      return kind !== 'operation-token' && mayHaveDied ? 'open' : lookAgain(calls, seen);
    // Taken, where the last share was expected: something had put the attempt back to no share.
    mayHaveDied ||= answer.kind === 'attempt' || (answer.kind === 'unclear' && required === 2);
    ({ progress } = now);
  }
}

async function lookAgain(calls: Calls, { nonce, required }: GenerationAttempt): Promise<'certain' | 'gone' | 'open'> {
  const now = await look(calls);
  if (now === undefined) return 'open';
  if (!now.started || now.nonce !== nonce) return 'gone';
  return now.progress < required - 1 ? 'certain' : 'open';
}

async function look({ endpoints, token }: Calls): Promise<GenerationAttempt | undefined> {
  try {
    return await endpoints.readAttempt({ token });
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    return undefined;
  }
}
