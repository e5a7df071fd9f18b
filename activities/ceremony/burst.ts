import type { GeneratedTokenKind, GenerationAttempt } from '../../src/vault';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { OpenedShare } from '../../src/keys';
import type { Execution } from '../execution';
import type { Slot } from './generation-slot';
import { cancelOwn, readAttempt, readOwn, startOwn } from './generation-slot';
import { endDoubt, give } from './give-share';
import type { RejectedSets } from './share-sets';
import { MAX_SETS, MAX_SETS_OF_EPOCH, countSets, provenBad, setsToTry } from './share-sets';

export type { AttemptKey } from './generation-slot';

/** Attempts that one burst may lose to leader changes and lost answers before it gives up. */
const MAX_RESTARTS = 6;
/** How often one share is given to one attempt that shows that it has not taken it. */
const MAX_GIVEN = 3;
/** Errors that say that the activity was cancelled: they stay what they are, and the ledger tells of the orphan. */
const CANCELLATIONS: ReadonlySet<unknown> = new Set(['CancelledFailure', 'AbortError']);

/** What is noted outside of the process while a burst is under way, so that a worker that dies tells what it left. */
export interface BurstNotes {
  /** An attempt of ours is in the slot. Remembered alone: whatever cannot be written, it is cancelled as ours. */
  mine(nonce: string): void;
  /** As {@link mine}, noted: before any share is given to it. */
  started(nonce: string): Promise<void>;
  /** Right before a share that may complete the attempt is sent: from here on a token may exist. */
  lastShare(nonce: string): Promise<void>;
  /** The last share made nothing. */
  nothingMade(): Promise<void>;
  /** What {@link lastShare} said does not hold: the share was not sent. Another attempt of Temporal may have read it. */
  notSent(): Promise<void>;
  /**
   * A token may exist that nobody holds, however the burst ends. `how`: what happened, in words for people. `certain`: the
   * service said that it made it.
   */
  orphaned(how: string, certain?: boolean): Promise<void>;
  /** Whether this attempt, which is in the slot, has certainly made no token. */
  stillWaits(attempt: GenerationAttempt): boolean;
  /** Whether an alarm that may be a false one is about this attempt. */
  doubts(attempt: GenerationAttempt): boolean;
  /** This attempt has made no token, and will make none: an alarm about it is taken back. */
  takenBack(attempt: GenerationAttempt): Promise<void>;
  /** Judges what earlier attempts that died may have left behind by what `look` tells through {@link takenBack}. */
  earlier(look: () => Promise<unknown>): Promise<void>;
  /** What the run must be told. */
  readonly alarms: readonly Finding[];
}

/** @typeParam T - what is made of the encoded token */
interface Burst<K extends GeneratedTokenKind, T> extends Slot<K> {
  readonly kind: K;
  /**
   * False where an attempt with our key that is there before we started any must be somebody else's: a recipient may use
   * the same key by hand.
   */
  readonly mayBeThere: boolean;
  readonly shares: readonly OpenedShare[];
  readonly threshold: number;
  /** Whether the shares of these holders may make a token together; any may where it is not given. */
  readonly fits?: ((holders: readonly string[]) => boolean) | undefined;
  /**
   * The next call looks for the active node anew. A last share that finds none was certainly not sent; one that goes to
   * a node which was the active one until now leaves a doubt.
   */
  readonly lookForActiveNode: () => void;
  /** Takes the answer of the last share. Throws where nobody can use it: the token is then one that nobody holds. */
  readonly receive: (encoded: Secret<K>) => Promise<T>;
  readonly notes: BurstNotes;
  readonly rejected: RejectedSets;
  /** Epoch ms: the holders gave their shares for the time until then. */
  readonly usableUntil: number;
}

interface BurstResult<T> {
  readonly token: T;
  readonly attempts: number;
  readonly badShares: readonly string[];
}

interface Course {
  /** Whether this burst, or one before it, started an attempt. */
  started: boolean;
  /** Nonce of the attempt whose last share was given, and whose outcome is not settled yet. */
  inDoubt: string | undefined;
  /** By nonce: how many of the shares before the last one were given again while the first copy may be under way. */
  readonly copies: Map<string, Set<number>>;
  /** An answer to its last share was lost: it may end in a token late, however often it is seen to wait. */
  unheard: boolean;
}

/** What became of one set of shares. */
type SetOutcome<T> =
  { readonly kind: 'token'; readonly token: T } | { readonly kind: 'rejected' } | { readonly kind: 'lost' };

/**
 * Turns shares into a token in one short burst (interface section 3, facts 5 and 11). The attempt is told from another's
 * by the fingerprint of our key; the nonce comes from the answer to our own start, or from a read that shows our
 * fingerprint. A lost attempt is started again with the same shares; one that comes back is cancelled, never continued.
 * Before one is cancelled whose last share may be under way, that share is made useless ({@link endDoubt}).
 *
 * @throws RunbookError ATTEMPT_FOREIGN, SHARES_REJECTED, SHARE_SETS_USED_UP, ATTEMPT_LOST
 */
export async function runBurst<K extends GeneratedTokenKind, T>(
  execution: Execution,
  asked: Burst<K, T>,
): Promise<BurstResult<T>> {
  const course: Course = { started: asked.mayBeThere, inDoubt: undefined, unheard: false, copies: new Map() };
  const { notes } = asked;
  const burst: Burst<K, T> = {
    ...asked,
    beforeCancel: async (attempt) => {
      const isInDoubt = attempt.nonce !== undefined && attempt.nonce === course.inDoubt;
      if (!isInDoubt && !notes.doubts(attempt)) return;
      const underWay = sharesUnderWay(course, attempt.nonce);
      if ((await endDoubt(asked, asked.kind, attempt, underWay)) !== 'certain') return;
      await notes.takenBack(attempt);
      if (isInDoubt) await nothingMade(notes, course);
    },
  };
  try {
    await notes.earlier(async () => {
      const seen = await readAttempt(execution, burst).catch(() => undefined);
      if (seen) await burst.beforeCancel?.(seen);
    });
    return await tryAllSets(execution, burst, course);
  } catch (error) {
    // Whoever took this one's place settles what it left, in the slot and in the ledger.
    if (await execution.mayBeGivenUp()) throw error;
    // The slot is the service's only one: whatever went wrong, ours does not stay in it.
    if (course.started) await cancelOwn(burst).catch(() => undefined);
    throw withOrphans(await settle(error, notes, course), notes.alarms);
  }
}

/** What ended the burst may have ended it between the last share and the look at what it did. */
async function settle(error: unknown, notes: BurstNotes, course: Course): Promise<unknown> {
  if (course.inDoubt === undefined) return error;
  try {
    const how = course.unheard
      ? 'the answer to the last share was lost, and nothing shows that the attempt ended without a token'
      : 'what the last share did could not be read';
    await noteOrphan(notes, course, how);
    return error;
  } catch (noting) {
    return noting;
  }
}

/** A failed burst has no result in which findings could travel; Temporal must not try on over them either. */
function withOrphans(error: unknown, findings: readonly Finding[]): unknown {
  const [orphaned] = findings;
  if (!orphaned) return error;
  if (!isRunbookError(error)) {
    if (typeof error === 'object' && error !== null && 'name' in error && CANCELLATIONS.has(error.name)) return error;
    return new RunbookError('TOKEN_ORPHANED', `A defect of this program ended the burst. ${orphaned.text}`, {
      findings,
      next: orphaned.next,
    });
  }
  return error.with({
    message: `${error.message} ${orphaned.text}`,
    retryable: false,
    findings,
    next: [error.next, orphaned.next].filter((each) => each !== undefined).join(' '),
  });
}

async function tryAllSets<K extends GeneratedTokenKind, T>(
  execution: Execution,
  burst: Burst<K, T>,
  course: Course,
): Promise<BurstResult<T>> {
  const { cluster, shares, threshold, fits } = burst;
  const rejected = [...burst.rejected.among(shares)];
  let attempts = 0;
  const untried = (names: readonly string[]) => (fits?.(names) ?? true) && !burst.rejected.has(shares, names);
  const sets = setsToTry(shares, threshold, untried).slice(0, Math.max(0, MAX_SETS_OF_EPOCH - burst.rejected.count));
  for (const set of sets) {
    for (let restarts = 0; ; restarts += 1) {
      if (restarts > MAX_RESTARTS) throw lostAgainAndAgain(burst.cluster, restarts);
      attempts += 1;
      const outcome = await trySet(execution, burst, set, course);
      if (outcome.kind === 'token') return { token: outcome.token, attempts, badShares: provenBad(set, rejected) };
      if (outcome.kind === 'rejected') break;
    }
    rejected.push(set);
    await burst.rejected.note(set);
  }
  const bound = `${fits ? 'those that the groups allow, ' : ''}at most ${MAX_SETS} in one burst and ${MAX_SETS_OF_EPOCH} in one epoch, `;
  const all = countSets(shares.length, threshold);
  const holders = shares.map((share) => share.holder).join(', ');
  const allTried = burst.rejected.count >= MAX_SETS_OF_EPOCH;
  throw new RunbookError(
    allTried ? 'SHARE_SETS_USED_UP' : 'SHARES_REJECTED',
    `${cluster} rejected ${rejected.length} ${rejected.length === 1 ? 'set' : 'sets'} of ${threshold} out of ${shares.length} key shares.`,
    {
      cluster,
      observed: `${rejected.length} of ${all} possible ${all === 1 ? 'set' : 'sets'} tried, ${rejected.length < all ? bound : ''}and all rejected; holders: ${holders}`,
      needed: `${threshold} shares of this cluster's key`,
      next: allTried
        ? 'This invitation has tried all the sets that it may: the run asks the holders again with a new invitation. Each looks for the share of this very cluster first.'
        : 'At least one of these shares is wrong, and none is proven to be. A holder corrects his, or a further holder gives his: then subsets tell which. No set is tried twice.',
    },
  );
}

function lostAgainAndAgain(cluster: string, times: number): RunbookError {
  return new RunbookError('ATTEMPT_LOST', `The generation attempt on ${cluster} was lost ${times} times.`, {
    retryable: false,
    cluster,
    observed: 'the attempt disappears between the shares',
    needed: 'an active node that stays active for a few seconds',
    next: 'Find out why the active node changes, then retry: no holder is asked again.',
  });
}

async function trySet<K extends GeneratedTokenKind, T>(
  execution: Execution,
  burst: Burst<K, T>,
  set: readonly OpenedShare[],
  course: Course,
): Promise<SetOutcome<T>> {
  const { nonce } = await startOwn(
    execution,
    burst,
    () => course.started,
    () => (course.started = true),
  );
  if (nonce !== undefined) burst.notes.mine(nonce);
  // Ours was seen to wait, and may have been completed before it was cancelled: what was given to it may arrive late.
  if (course.inDoubt !== undefined)
    await noteOrphan(burst.notes, course, 'the answer to the last share was lost, and the share may have arrived late');
  if (nonce === undefined) return { kind: 'lost' };
  await burst.notes.started(nonce);
  for (const [progress, { share }] of set.slice(0, -1).entries()) {
    for (let given = 1; ; given += 1) {
      await mayGive(execution, burst);
      const answer = await give(burst, share, nonce);
      if (answer.kind === 'denied') throw answer.error;
      if (answer.kind === 'attempt') {
        // Earlier than we count: somebody else gave our attempt a share.
        if (answer.attempt.encodedToken !== undefined) return openOrLose(burst, answer.attempt.encodedToken, course);
        if (answer.attempt.progress === progress + 1) break;
      }
      // Without a clear answer the state decides what the share did. An attempt with another nonce is not this one.
      const seen = await readOwn(execution, burst);
      if (seen?.nonce !== nonce) return { kind: 'lost' };
      if (seen.progress === progress + 1) break;
      if (seen.progress !== progress || given === MAX_GIVEN) return { kind: 'lost' };
      if (answer.kind === 'unclear' && !answer.outcomeKnown)
        course.copies.set(nonce, new Set([...(course.copies.get(nonce) ?? []), progress]));
    }
  }
  const last = set.at(-1);
  return last === undefined
    ? { kind: 'lost' }
    : giveLast(execution, burst, last, { nonce, progress: set.length - 1 }, course);
}

/** The share that completes the attempt: its answer holds the token, and nothing else ever will. */
async function giveLast<K extends GeneratedTokenKind, T>(
  execution: Execution,
  burst: Burst<K, T>,
  { share }: OpenedShare,
  { nonce, progress }: { readonly nonce: string; readonly progress: number },
  course: Course,
): Promise<SetOutcome<T>> {
  const { notes } = burst;
  for (let given = 1; ; given += 1) {
    await mayGive(execution, burst);
    await notes.lastShare(nonce);
    await execution.throwIfGivenUp().catch(async (error: unknown): Promise<never> => {
      if (course.inDoubt === undefined) await notes.notSent().catch(() => undefined);
      throw error;
    });
    burst.lookForActiveNode();
    course.inDoubt = nonce;
    const answer = await give(burst, share, nonce);
    if (answer.kind === 'attempt' && answer.attempt.encodedToken !== undefined)
      return openOrLose(burst, answer.attempt.encodedToken, course);
    course.unheard ||= answer.kind === 'attempt' || (answer.kind === 'unclear' && !answer.outcomeKnown);
    if (!course.unheard) await nothingMade(notes, course);
    if (answer.kind === 'denied') throw answer.error;
    // Without the token the state decides what the share did. An attempt with another nonce is not this one.
    let seen = await readOwn(execution, burst);
    // The service reads the nonce before it counts the shares: the attempt may have ended in between.
    if (course.unheard && seen?.nonce === nonce && seen.progress < progress) seen = await readOwn(execution, burst);
    const isThis = seen?.nonce === nonce;
    if (course.unheard && !(seen && isThis && notes.stillWaits(seen))) {
      const how = isThis
        ? 'the connection closed at the last share, and the attempt is there at progress 0'
        : 'the answer to the last share was lost, and the attempt was not there afterwards';
      await noteOrphan(notes, course, how);
      return { kind: 'lost' };
    }
    // While it waits for this very share, one whose answer was lost may be under way still.
    const waits = isThis && seen?.progress === progress;
    const mayComplete = waits || (isThis && sharesUnderWay(course, nonce) > progress);
    if (!(course.unheard && mayComplete)) await nothingMade(notes, course);
    if (answer.kind === 'refused' && isThis && seen?.progress === 0) return { kind: 'rejected' };
    if (!waits || given === MAX_GIVEN) return { kind: 'lost' };
  }
}

/** Shares of an attempt that may still arrive: the last one, and copies of those before it. */
function sharesUnderWay({ copies }: Course, nonce: string | undefined): number {
  return 1 + (nonce === undefined ? 0 : (copies.get(nonce)?.size ?? 0));
}

async function nothingMade(notes: BurstNotes, course: Course): Promise<void> {
  settled(course);
  await notes.nothingMade();
}

/** @throws RunbookError KEY_RECORD_MISSING where the time for which the holders gave their shares is over */
async function mayGive(
  execution: Execution,
  { cluster, usableUntil }: Pick<Burst<GeneratedTokenKind, unknown>, 'cluster' | 'usableUntil'>,
): Promise<void> {
  await execution.throwIfGivenUp();
  if (Date.now() < usableUntil) return;
  throw new RunbookError('KEY_RECORD_MISSING', 'The time for which the holders gave their key shares is over.', {
    retryable: false,
    cluster,
    observed: `over since ${new Date(usableUntil).toISOString()}`,
    needed: 'key shares that may still be used',
    next: 'The run asks the holders again with a new invitation.',
  });
}

async function openOrLose<K extends GeneratedTokenKind, T>(
  burst: Burst<K, T>,
  encoded: Secret<K>,
  course: Course,
): Promise<SetOutcome<T>> {
  try {
    const token = await burst.receive(encoded);
    settled(course);
    return { kind: 'token', token };
  } catch {
    await noteOrphan(burst.notes, course, 'the encoded token does not open with our key', true);
    return { kind: 'lost' };
  }
}

async function noteOrphan(notes: BurstNotes, course: Course, how: string, certain = false): Promise<void> {
  settled(course);
  await notes.orphaned(how, certain);
}

function settled(course: Course): void {
  course.inDoubt = undefined;
  course.unheard = false;
}
