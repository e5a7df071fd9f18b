import { randomBytes } from 'node:crypto';
import type { GeneratedTokenKind, GenerationAttempt } from '../../src/vault';
import type { RunbookError } from '../../src/errors';
import { isRunbookError } from '../../src/errors';
import { Secret } from '../../src/secret';
import type { Slot } from './generation-slot';
import { CHANGE_TIMEOUT_MS } from '../read-act-confirm';

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
