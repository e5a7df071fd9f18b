import type { GeneratedTokenKind, GenerationAttempt } from '../../src/client';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { OpenedShare } from '../../src/secrets';
import type { Execution } from './execution';
import type { Slot } from './generation-slot';
import { cancelOwn, readAttempt, readOwn, startOwn } from './generation-slot';
import { CHANGE_TIMEOUT_MS } from './read-act-confirm';
import { countSets, provenBad, setsToTry } from './share-sets';

export type { AttemptKey } from './generation-slot';

/** Attempts that one burst may lose to leader changes and lost answers before it gives up. */
const MAX_RESTARTS = 6;
/** How often one share is given to one attempt that shows that it has not taken it. */
const MAX_GIVEN = 3;
/** Errors that say that the activity was cancelled: they stay what they are, and the ledger tells of the orphan. */
const CANCELLATIONS: ReadonlySet<unknown> = new Set(['CancelledFailure', 'AbortError']);

/** What is noted outside of the process while a burst is under way, so that a worker that dies tells what it left. */
export interface BurstNotes {
  /** An attempt of ours is in the slot: before any share is given to it. */
  started(nonce: string): Promise<void>;
  /** Right before a share that may complete the attempt is sent: from here on a token may exist. */
  lastShare(nonce: string): Promise<void>;
  /** The last share made nothing. */
  nothingMade(): Promise<void>;
  /** A token may exist that nobody holds, however the burst ends. */
  orphaned(): Promise<void>;
  /**
   * What earlier attempts that died may have left behind, judged by what is in the slot before this burst begins; `look`
   * gives undefined where that cannot be read.
   */
  earlier(look: () => Promise<GenerationAttempt | undefined>): Promise<readonly Finding[]>;
}

/** @typeParam T - what is made of the encoded token */
export interface Burst<K extends GeneratedTokenKind, T> extends Slot<K> {
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
  /** What people must know of a token that nobody holds. */
  readonly orphan: (how: string) => Finding;
}

type Orphaning = Pick<Burst<GeneratedTokenKind, unknown>, 'orphan' | 'notes'>;

export interface BurstResult<T> {
  readonly token: T;
  readonly attempts: number;
  readonly findings: readonly Finding[];
  readonly badShares: readonly string[];
}

/** What the burst has to tell, and whether a last share was given whose outcome is not settled yet. */
interface Course {
  readonly findings: Finding[];
  /** Whether this burst, or one before it, started an attempt. */
  started: boolean;
  lastShareInDoubt: boolean;
}

/** What became of one set of shares. */
type SetOutcome<T> =
  { readonly kind: 'token'; readonly token: T } | { readonly kind: 'rejected' } | { readonly kind: 'lost' };

/**
 * Turns shares into a token in one short burst (interface section 3, facts 5 and 11). The attempt is told from another's
 * by the fingerprint of our key; the nonce comes from the answer to our own start, or from a read that shows our
 * fingerprint. A lost attempt is started again with the same shares; one that comes back is cancelled, never continued.
 *
 * @throws RunbookError ATTEMPT_FOREIGN, SHARES_REJECTED, ATTEMPT_LOST
 */
export async function runBurst<K extends GeneratedTokenKind, T>(
  execution: Execution,
  burst: Burst<K, T>,
): Promise<BurstResult<T>> {
  const course: Course = { findings: [], started: burst.mayBeThere, lastShareInDoubt: false };
  try {
    const look = () => readAttempt(execution, burst).catch(() => undefined);
    course.findings.push(...(await burst.notes.earlier(look)));
    return await tryAllSets(execution, burst, course);
  } catch (error) {
    // The slot is the service's only one: whatever went wrong, ours does not stay in it.
    if (course.started) await cancelOwn(burst).catch(() => undefined);
    throw withOrphans(await settle(error, burst, course), course.findings);
  }
}

/** What ended the burst may have ended it between the last share and the look at what it did. */
async function settle(error: unknown, burst: Orphaning, course: Course): Promise<unknown> {
  if (!course.lastShareInDoubt) return error;
  try {
    await noteOrphan(burst, course, 'what the last share did could not be read');
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
  const { outcomeKnown, httpStatus, cluster, about, observed, needed, next } = error;
  return new RunbookError(error.code, `${error.message} ${orphaned.text}`, {
    retryable: false,
    outcomeKnown,
    httpStatus,
    cluster,
    about,
    findings,
    observed,
    needed,
    next: [next, orphaned.next].filter((each) => each !== undefined).join(' '),
  });
}

async function tryAllSets<K extends GeneratedTokenKind, T>(
  execution: Execution,
  burst: Burst<K, T>,
  course: Course,
): Promise<BurstResult<T>> {
  const rejected: (readonly OpenedShare[])[] = [];
  let attempts = 0;
  const sets = setsToTry(burst.shares, burst.threshold, burst.fits);
  for (const set of sets) {
    for (let restarts = 0; ; restarts += 1) {
      if (restarts > MAX_RESTARTS) throw lostAgainAndAgain(burst.cluster, restarts);
      attempts += 1;
      const outcome = await trySet(execution, burst, set, course);
      if (outcome.kind === 'token')
        return { token: outcome.token, attempts, findings: course.findings, badShares: provenBad(set, rejected) };
      if (outcome.kind === 'rejected') break;
    }
    rejected.push(set);
  }
  const { cluster, shares, threshold, fits } = burst;
  const bound = `${fits ? 'those that the groups allow, within ' : ''}the bound of one burst, `;
  const all = countSets(shares.length, threshold);
  const holders = shares.map((share) => share.holder).join(', ');
  throw new RunbookError(
    'SHARES_REJECTED',
    `${cluster} rejected ${rejected.length} ${rejected.length === 1 ? 'set' : 'sets'} of ${threshold} out of ${shares.length} key shares.`,
    {
      cluster,
      observed: `${rejected.length} of ${all} possible ${all === 1 ? 'set' : 'sets'} tried, ${sets.length < all ? bound : ''}and all rejected; holders: ${holders}`,
      needed: `${threshold} shares of this cluster's key`,
      next: 'At least one of these shares is wrong, and none is proven to be. A holder corrects his, or a further holder gives his: then subsets tell which.',
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
  if (nonce === undefined) return { kind: 'lost' };
  await burst.notes.started(nonce);
  for (const [progress, { share }] of set.slice(0, -1).entries()) {
    for (let given = 1; ; given += 1) {
      execution.throwIfCancelled();
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
  const nothingMade = async (): Promise<void> => {
    course.lastShareInDoubt = false;
    await burst.notes.nothingMade();
  };
  for (let given = 1; ; given += 1) {
    execution.throwIfCancelled();
    await burst.notes.lastShare(nonce);
    burst.lookForActiveNode();
    course.lastShareInDoubt = true;
    const answer = await give(burst, share, nonce);
    if (answer.kind === 'attempt' && answer.attempt.encodedToken !== undefined)
      return openOrLose(burst, answer.attempt.encodedToken, course);
    const mayHaveCompleted = answer.kind === 'attempt' || (answer.kind === 'unclear' && !answer.outcomeKnown);
    if (!mayHaveCompleted) await nothingMade();
    if (answer.kind === 'denied') throw answer.error;
    // Without the token the state decides what the share did. An attempt with another nonce is not this one.
    const seen = await readOwn(execution, burst);
    const isThis = seen?.nonce === nonce;
    // A threshold of one has no progress that could fall back.
    const fellBack = isThis && seen.progress === 0 && (progress > 0 || answer.kind === 'refused');
    if (mayHaveCompleted && (!isThis || fellBack)) {
      const how = isThis
        ? 'the connection closed at the last share and the progress fell back'
        : 'the answer to the last share was lost';
      await noteOrphan(burst, course, how);
      return { kind: 'lost' };
    }
    await nothingMade();
    if (fellBack && answer.kind === 'refused') return { kind: 'rejected' };
    if (!isThis || seen.progress !== progress || given === MAX_GIVEN) return { kind: 'lost' };
  }
}

type Given<K extends GeneratedTokenKind> =
  | { readonly kind: 'attempt'; readonly attempt: GenerationAttempt<K> }
  | { readonly kind: 'refused' }
  /** The service takes nothing from us. */
  | { readonly kind: 'denied'; readonly error: RunbookError }
  /** No clear answer. `outcomeKnown`: it is certain that the share did not arrive. */
  | { readonly kind: 'unclear'; readonly outcomeKnown: boolean };

async function give<K extends GeneratedTokenKind>(
  { endpoints, token }: Slot<K>,
  key: Secret<'key-share'>,
  nonce: string,
): Promise<Given<K>> {
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

async function openOrLose<K extends GeneratedTokenKind, T>(
  burst: Burst<K, T>,
  encoded: Secret<K>,
  course: Course,
): Promise<SetOutcome<T>> {
  try {
    const token = await burst.receive(encoded);
    course.lastShareInDoubt = false;
    return { kind: 'token', token };
  } catch {
    await noteOrphan(burst, course, 'the encoded token does not open with our key');
    return { kind: 'lost' };
  }
}

async function noteOrphan({ orphan, notes }: Orphaning, course: Course, how: string): Promise<void> {
  course.lastShareInDoubt = false;
  course.findings.push(orphan(how));
  await notes.orphaned();
}
