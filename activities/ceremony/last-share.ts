import type { GeneratedTokenKind, GenerationAttempt } from '../../src/vault';
import type { OwnAttempt } from '../../src/contracts/ceremony';
import { isRunbookError } from '../../src/errors';
import type { Execution } from '../execution';
import type { Slot } from './generation-slot';
import { cancelOwn, digestOf, isOurs, readAttempt } from './generation-slot';
import { endDoubt } from './give-share';

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
