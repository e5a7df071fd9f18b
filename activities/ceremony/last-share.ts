import type { GenerationAttempt } from '../../src/vault';
import type { OwnAttempt } from '../../src/contracts/ceremony';
import type { RunbookError } from '../../src/errors';
import { isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { Execution } from '../execution';
import { CHANGE_TIMEOUT_MS } from '../deadline';

import type { Slot } from './generation-slot';
import { cancelOwn, digestOf, isOurs, readAttempt } from './generation-slot';

/** What the service said to a last share that gave no token. `not-sent`: it is certain that it did not arrive. */
export type LastAnswer = 'refused' | 'not-sent' | 'unknown';

/** Our attempt as it is seen after the last share. `waiting`: it holds shares. `reset`: it holds none. */
export type SeenAfter = 'waiting' | 'reset' | 'gone' | 'unreadable';

/**
 * What follows. `next-set`: these shares do not make a token together. `again`: no token came of it, the same shares make
 * another attempt. `alarm`: a token may exist that nobody holds.
 */
export type Next = 'next-set' | 'again' | 'alarm';

/** The core of a token generation: what the service answered, and what a look afterwards shows, say what follows. */
export const AFTER_LAST_SHARE: Readonly<Record<LastAnswer, Readonly<Record<SeenAfter, Next>>>> = {
  // A complete set that does not combine puts the attempt back to no share.
  refused: { waiting: 'again', reset: 'next-set', gone: 'again', unreadable: 'again' },
  'not-sent': { waiting: 'again', reset: 'again', gone: 'again', unreadable: 'again' },
  // An attempt that is there proves nothing: what was sent may arrive after the look.
  unknown: { waiting: 'alarm', reset: 'alarm', gone: 'alarm', unreadable: 'alarm' },
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
type Ended = { readonly isFree: boolean } & (
  { readonly next: 'next-set' | 'again' } | { readonly next: 'alarm'; readonly how: string }
);

/**
 * Finds out by reads what the last share did, and frees the slot.
 *
 * @returns `isFree`: our attempt is certainly gone
 */
export async function settleLastShare(
  execution: Execution,
  slot: Slot,
  attempt: Pick<OwnAttempt, 'nonceDigest'>,
  answer: LastAnswer,
): Promise<Ended> {
  const seen = await readAttempt(execution, slot).catch((error: unknown) => {
    if (!isRunbookError(error) || execution.signal.aborted) throw error;
    return undefined;
  });
  const as = seen === undefined ? 'unreadable' : seenAs(slot, attempt, seen);
  const next = AFTER_LAST_SHARE[answer][as];
  // Also after an alarm: what is there could be completed later.
  const isFree = await cancelOwn(slot);
  return next === 'alarm' ? { next, how: HOW[as], isFree } : { next, isFree };
}

const HOW: Readonly<Record<SeenAfter, string>> = {
  waiting: 'the answer to the last share was lost; the attempt was seen waiting, and the share may have arrived late',
  reset:
    'the answer to the last share was lost; the attempt was seen at progress 0, and the share may have arrived late',
  gone: 'the answer to the last share was lost, and the attempt was not there afterwards',
  unreadable: 'what the last share did could not be read',
};

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
