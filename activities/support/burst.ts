import type { GeneratedTokenKind, GenerationAttempt, GenerationEndpoints } from '../../src/client';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { OpenedShare } from '../../src/secrets';
import type { Execution } from './execution';
import { CHANGE_TIMEOUT_MS, awaitState } from './read-act-confirm';

/** Attempts that one burst may lose to leader changes and lost answers before it gives up. */
const MAX_RESTARTS = 6;
/** Sets of shares that are tried where the service rejects some: the stated upper bound. */
const MAX_SUBSETS = 20;
const READ_BUDGET_MS = 30_000;
/** Errors that say that the activity was cancelled: they stay what they are, and the ledger tells of the orphan. */
const CANCELLATIONS: ReadonlySet<unknown> = new Set(['CancelledFailure', 'AbortError']);
/** Between two reads while there is no active node: a burst is short, and the outage waits for it. */
const READ_POLL_MS = 100;

/** The OpenPGP key to which the service encrypts the token, and by which our attempt is told from another's. */
export interface AttemptKey {
  /** Base64 of the binary public key. */
  readonly pgpPublicKey: string;
  /** Lower-case hexadecimal. */
  readonly pgpFingerprint: string;
}

/** @typeParam T - what is made of the encoded token */
export interface Burst<K extends GeneratedTokenKind, T> {
  readonly endpoints: GenerationEndpoints<K>;
  readonly cluster: string;
  readonly key: AttemptKey;
  /**
   * False where an attempt with our key that is there before we started any must be somebody else's: a recipient may use
   * the same key by hand.
   */
  readonly mayBeThere: boolean;
  readonly shares: readonly OpenedShare[];
  readonly threshold: number;
  /** X-Vault-Token of the calls, where the service asks for one. */
  readonly token: Secret | undefined;
  /** Takes the answer of the last share. Throws where nobody can use it: the token is then one that nobody holds. */
  readonly receive: (encoded: Secret<K>) => Promise<T>;
  /** Called as soon as a token may exist that nobody holds, however the burst ends. */
  readonly onOrphan: () => Promise<void>;
  /** What people must know of such a token. */
  readonly orphan: (how: string) => Finding;
  /** What earlier attempts left behind, to be told with the result. */
  readonly findings: readonly Finding[];
}

/** The part of a burst that its calls need. */
type Calling<K extends GeneratedTokenKind> = Pick<Burst<K, unknown>, 'endpoints' | 'cluster' | 'key' | 'token'>;
type Orphaning = Pick<Burst<GeneratedTokenKind, unknown>, 'orphan' | 'onOrphan'>;

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
 * fingerprint. A lost attempt is started again with the same shares.
 *
 * @throws RunbookError ATTEMPT_FOREIGN, SHARES_REJECTED, ATTEMPT_LOST
 */
export async function runBurst<K extends GeneratedTokenKind, T>(
  execution: Execution,
  burst: Burst<K, T>,
): Promise<BurstResult<T>> {
  const course: Course = { findings: [...burst.findings], started: burst.mayBeThere, lastShareInDoubt: false };
  try {
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
function withOrphans(error: unknown, [orphaned]: readonly Finding[]): unknown {
  if (!orphaned) return error;
  if (!isRunbookError(error)) {
    if (typeof error === 'object' && error !== null && 'name' in error && CANCELLATIONS.has(error.name)) return error;
    return new RunbookError('TOKEN_ORPHANED', `A defect of this program ended the burst. ${orphaned.text}`, {
      next: orphaned.next,
    });
  }
  const { outcomeKnown, httpStatus, cluster, observed, needed, next } = error;
  return new RunbookError(error.code, `${error.message} ${orphaned.text}`, {
    retryable: false,
    outcomeKnown,
    httpStatus,
    cluster,
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
  for (const set of setsOf(burst.shares, burst.threshold).slice(0, MAX_SUBSETS)) {
    for (let restarts = 0; ; restarts += 1) {
      if (restarts > MAX_RESTARTS) {
        throw new RunbookError(
          'ATTEMPT_LOST',
          `The generation attempt on ${burst.cluster} was lost ${restarts} times.`,
          {
            retryable: false,
            cluster: burst.cluster,
            observed: 'the attempt disappears between the shares',
            needed: 'an active node that stays active for a few seconds',
            next: 'Find out why the active node changes, then retry: no holder is asked again.',
          },
        );
      }
      attempts += 1;
      const outcome = await trySet(execution, burst, set, course);
      if (outcome.kind === 'token')
        return { token: outcome.token, attempts, findings: course.findings, badShares: provenBad(set, rejected) };
      if (outcome.kind === 'rejected') break;
    }
    rejected.push(set);
  }
  throw new RunbookError(
    'SHARES_REJECTED',
    `${burst.cluster} rejected ${rejected.length} sets of ${burst.threshold} out of ${burst.shares.length} key shares.`,
    {
      cluster: burst.cluster,
      observed: `${rejected.length} ${rejected.length === 1 ? 'set' : 'sets'} of shares rejected; holders: ${burst.shares.map((share) => share.holder).join(', ')}`,
      needed: `${burst.threshold} shares of this cluster's key`,
      next: 'One of these shares is wrong. A holder corrects his, or a further holder gives his: then subsets tell which.',
    },
  );
}

async function trySet<K extends GeneratedTokenKind, T>(
  execution: Execution,
  burst: Burst<K, T>,
  set: readonly OpenedShare[],
  course: Course,
): Promise<SetOutcome<T>> {
  const started = await startOwn(execution, burst, course);
  let nonce = started.nonce;
  for (const [index, share] of set.entries()) {
    for (let tries = 1; ; tries += 1) {
      if (nonce === undefined) return { kind: 'lost' };
      execution.throwIfCancelled();
      const last = index === set.length - 1;
      course.lastShareInDoubt = last;
      const answer = await give(burst, share.share, nonce);
      course.lastShareInDoubt = last && mayHaveCompleted(answer);
      if (answer.kind === 'denied') throw answer.error;
      if (answer.kind === 'attempt') {
        if (answer.attempt.encodedToken !== undefined) return openOrLose(burst, answer.attempt, course);
        if (!last && answer.attempt.progress === index + 1) break;
      }
      // Without a clear answer the state decides what the share did.
      const seen = await readOwn(execution, burst);
      course.lastShareInDoubt = false;
      if (!seen) {
        if (last && mayHaveCompleted(answer)) await noteOrphan(burst, course, 'the answer to the last share was lost');
        return { kind: 'lost' };
      }
      nonce = seen.nonce;
      if (!last && seen.progress === index + 1) break;
      if (last && seen.progress === 0 && set.length > 1) {
        if (answer.kind === 'refused') return { kind: 'rejected' };
        if (mayHaveCompleted(answer))
          await noteOrphan(burst, course, 'the connection closed at the last share and the progress fell back');
        return { kind: 'lost' };
      }
      if (last && set.length === 1 && answer.kind === 'refused') return { kind: 'rejected' };
      if (seen.progress !== index || tries === 3) return { kind: 'lost' };
    }
  }
  return { kind: 'lost' };
}

/** Starts our attempt. An attempt of ours that is there already is cancelled first; another's never. */
async function startOwn<K extends GeneratedTokenKind>(
  execution: Execution,
  burst: Calling<K>,
  course: Course,
): Promise<GenerationAttempt<K>> {
  const { endpoints, key, cluster } = burst;
  const options = { token: burst.token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS };
  for (let tries = 0; ; tries += 1) {
    execution.throwIfCancelled();
    const present = await readAttempt(execution, burst);
    if (present.started) {
      if (present.pgpFingerprint !== key.pgpFingerprint || !course.started) {
        throw new RunbookError('ATTEMPT_FOREIGN', `Somebody else's generation attempt is under way on ${cluster}.`, {
          cluster,
          observed: `attempt with ${present.pgpFingerprint ? `key ${present.pgpFingerprint}` : 'a one-time password'}, progress ${present.progress} of ${present.required}`,
          needed: 'the free slot, or our own attempt',
          next: 'Find out whose it is. When it has ended or was cancelled by its owner, retry.',
        });
      }
      if (tries >= MAX_RESTARTS) {
        throw new RunbookError('ATTEMPT_LOST', `The attempt in the slot of ${cluster} cannot be cancelled.`, {
          retryable: false,
          cluster,
          observed: `still there after ${tries} cancellations`,
          needed: 'a free slot',
          next: `Look at ${cluster}, then retry: no holder is asked again.`,
        });
      }
      await tolerate(() => endpoints.cancelAttempt(options));
      continue;
    }
    course.started = true;
    try {
      return await endpoints.startAttempt({ pgpKey: key.pgpPublicKey }, options);
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      const own = await readOwn(execution, burst);
      if (own) return own;
      // A fixed refusal, such as a missing right, does not go away by itself.
      if ((error.outcomeKnown && !error.retryable && error.code !== 'BAD_REQUEST') || tries >= MAX_RESTARTS)
        throw error;
    }
  }
}

type Given<K extends GeneratedTokenKind> =
  | { readonly kind: 'attempt'; readonly attempt: GenerationAttempt<K> }
  | { readonly kind: 'refused' }
  /** The service takes nothing from us. */
  | { readonly kind: 'denied'; readonly error: RunbookError }
  /** No clear answer. `outcomeKnown`: it is certain that the share did not arrive. */
  | { readonly kind: 'unclear'; readonly outcomeKnown: boolean };

/** Whether the share may have completed the attempt without telling us the token. */
function mayHaveCompleted(answer: Given<GeneratedTokenKind>): boolean {
  return answer.kind === 'attempt' || (answer.kind === 'unclear' && !answer.outcomeKnown);
}

async function give<K extends GeneratedTokenKind>(
  burst: Calling<K>,
  key: Secret<'key-share'>,
  nonce: string,
): Promise<Given<K>> {
  try {
    const attempt = await burst.endpoints.update({ key, nonce }, { token: burst.token, timeoutMs: CHANGE_TIMEOUT_MS });
    return { kind: 'attempt', attempt };
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    if (error.code === 'PERMISSION_DENIED') return { kind: 'denied', error };
    return error.code === 'BAD_REQUEST' ? { kind: 'refused' } : { kind: 'unclear', outcomeKnown: error.outcomeKnown };
  }
}

async function openOrLose<K extends GeneratedTokenKind, T>(
  burst: Burst<K, T>,
  attempt: GenerationAttempt<K>,
  course: Course,
): Promise<SetOutcome<T>> {
  if (attempt.encodedToken === undefined) return { kind: 'lost' };
  try {
    const token = await burst.receive(attempt.encodedToken);
    course.lastShareInDoubt = false;
    return { kind: 'token', token };
  } catch {
    await noteOrphan(burst, course, 'the encoded token does not open with our key');
    return { kind: 'lost' };
  }
}

/** Our attempt as the service shows it now; undefined where none of ours is under way. */
async function readOwn<K extends GeneratedTokenKind>(
  execution: Execution,
  burst: Calling<K>,
): Promise<GenerationAttempt<K> | undefined> {
  const seen = await readAttempt(execution, burst);
  return seen.started && seen.pgpFingerprint === burst.key.pgpFingerprint ? seen : undefined;
}

function readAttempt<K extends GeneratedTokenKind>(
  execution: Execution,
  burst: Calling<K>,
): Promise<GenerationAttempt<K>> {
  return awaitState(execution, {
    read: () => burst.endpoints.readAttempt({ token: burst.token, signal: execution.signal }),
    until: () => true,
    budgetMs: READ_BUDGET_MS,
    pollMs: READ_POLL_MS,
    describe: () => 'read',
    needed: `the generation attempt of ${burst.cluster} can be read`,
    cluster: burst.cluster,
  });
}

/** Frees the single slot, where the attempt in it is ours. */
async function cancelOwn<K extends GeneratedTokenKind>(burst: Calling<K>): Promise<void> {
  await tolerate(async () => {
    const seen = await burst.endpoints.readAttempt({ token: burst.token });
    if (seen.started && seen.pgpFingerprint === burst.key.pgpFingerprint)
      await burst.endpoints.cancelAttempt({ token: burst.token });
  });
}

async function tolerate(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'PERMISSION_DENIED') throw error;
  }
}

async function noteOrphan({ orphan, onOrphan }: Orphaning, course: Course, how: string): Promise<void> {
  course.lastShareInDoubt = false;
  course.findings.push(orphan(how));
  await onOrphan();
}

/** Every set of `size` shares, the earliest holders first. */
function setsOf(shares: readonly OpenedShare[], size: number): (readonly OpenedShare[])[] {
  if (size === 0) return [[]];
  return shares.flatMap((share, index) => setsOf(shares.slice(index + 1), size - 1).map((rest) => [share, ...rest]));
}

/** A rejected set that has one share outside of a set that worked: that share is bad, since the others are good. */
function provenBad(good: readonly OpenedShare[], rejected: readonly (readonly OpenedShare[])[]): string[] {
  const bad = new Set<string>();
  for (const set of rejected) {
    const outside = set.filter((share) => !good.includes(share));
    if (outside.length === 1 && outside[0]) bad.add(outside[0].holder);
  }
  return [...bad];
}
