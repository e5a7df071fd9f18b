import type { GeneratedTokenKind, GenerationAttempt, GenerationEndpoints } from '../../src/vault';
import { attemptMark } from '../../src/contracts/ceremony';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { Execution } from '../execution';
import { CHANGE_TIMEOUT_MS, awaitState } from '../read-act-confirm';

/** Cancellations and starts that may fail in a row before the slot counts as unusable. */
const MAX_TRIES = 6;
const READ_BUDGET_MS = 30_000;
/** Between two reads while there is no active node: a burst is short, and the outage waits for it. */
const READ_POLL_MS = 100;

/** The OpenPGP key to which the service encrypts the token, and by which our attempt is told from another's. */
export interface AttemptKey {
  /** Base64 of the binary public key. */
  readonly pgpPublicKey: string;
  /** Lower-case hexadecimal. */
  readonly pgpFingerprint: string;
}

/** The single slot of a cluster, as one burst sees it. */
export interface Slot<K extends GeneratedTokenKind = GeneratedTokenKind> {
  readonly endpoints: GenerationEndpoints<K>;
  readonly cluster: string;
  readonly key: AttemptKey;
  /** Fingerprints of keys that earlier rounds of this run used here: an attempt with one of them is ours too. */
  readonly earlierKeys: ReadonlySet<string>;
  /** Given where somebody else may use the same key by hand: then the key says nothing, and only the nonce does. */
  readonly isOwnNonce?: ((nonce: string) => boolean) | undefined;
  /** X-Vault-Token of the calls, where the service asks for one. */
  readonly token: Secret | undefined;
  /** Told of each attempt of ours before it is cancelled: afterwards nobody can find out what came of it. */
  readonly beforeCancel?: ((attempt: GenerationAttempt) => Promise<void>) | undefined;
}

/**
 * Starts our attempt. An attempt of ours that is there already is cancelled first; another's never.
 *
 * @param mayBeThere - false where an attempt with our key must be somebody else's
 * @param onStart - called before the first request that starts one
 * @throws RunbookError ATTEMPT_FOREIGN, ATTEMPT_LOST
 */
export async function startOwn<K extends GeneratedTokenKind>(
  execution: Execution,
  slot: Slot<K>,
  mayBeThere: () => boolean,
  onStart: () => void,
): Promise<GenerationAttempt<K>> {
  const { endpoints, key, cluster } = slot;
  const options = { token: slot.token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS };
  for (let tries = 0; ; tries += 1) {
    execution.throwIfCancelled();
    const present = await readAttempt(execution, slot);
    await execution.throwIfGivenUp();
    if (present.started) {
      const { pgpFingerprint = '', nonce = '' } = present;
      const ours = slot.isOwnNonce
        ? slot.isOwnNonce(nonce)
        : slot.earlierKeys.has(pgpFingerprint) || (pgpFingerprint === key.pgpFingerprint && mayBeThere());
      if (!ours) throw foreignAttempt(cluster, present);
      if (tries >= MAX_TRIES) {
        throw new RunbookError('ATTEMPT_LOST', `The attempt in the slot of ${cluster} cannot be cancelled.`, {
          retryable: false,
          cluster,
          observed: `still there after ${tries} cancellations`,
          needed: 'a free slot',
          next: `Look at ${cluster}, then retry: no holder is asked again.`,
        });
      }
      await tolerate(async () => {
        await slot.beforeCancel?.(present);
        await endpoints.cancelAttempt(options);
      });
      continue;
    }
    onStart();
    try {
      return await endpoints.startAttempt({ pgpKey: key.pgpPublicKey }, options);
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      const own = await readOwn(execution, slot);
      // A start that was refused for certain made no attempt: one with the very same key is then somebody else's.
      if (own && !(slot.isOwnNonce && error.outcomeKnown)) return own;
      // A fixed refusal, such as a missing right, does not go away by itself.
      if ((error.outcomeKnown && !error.retryable && error.code !== 'BAD_REQUEST') || tries >= MAX_TRIES) throw error;
    }
  }
}

/** Our attempt as the service shows it now; undefined where none of ours is under way. */
export async function readOwn<K extends GeneratedTokenKind>(
  execution: Execution,
  slot: Slot<K>,
): Promise<GenerationAttempt<K> | undefined> {
  const seen = await readAttempt(execution, slot);
  return seen.started && seen.pgpFingerprint === slot.key.pgpFingerprint ? seen : undefined;
}

export async function readAttempt<K extends GeneratedTokenKind>(
  execution: Execution,
  { endpoints, token, cluster }: Pick<Slot<K>, 'endpoints' | 'token' | 'cluster'>,
): Promise<GenerationAttempt<K>> {
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

/** Frees the single slot, where the attempt in it is ours. */
export async function cancelOwn<K extends GeneratedTokenKind>(slot: Slot<K>): Promise<void> {
  const { endpoints, token, key, isOwnNonce, beforeCancel } = slot;
  await tolerate(async () => {
    const seen = await endpoints.readAttempt({ token });
    const { started, pgpFingerprint, nonce = '' } = seen;
    const ours = started && pgpFingerprint === key.pgpFingerprint && (isOwnNonce?.(nonce) ?? true);
    if (!ours) return;
    await beforeCancel?.(seen);
    await endpoints.cancelAttempt({ token });
  });
}

/** Whose key an attempt has, as people compare it: in groups of four. Anything that is no fingerprint is not repeated. */
export function keyInWords(pgpFingerprint: string | undefined): string {
  if (pgpFingerprint === undefined) return 'a one-time password';
  const isFingerprint = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(pgpFingerprint);
  return isFingerprint ? `key ${(pgpFingerprint.match(/.{4}/g) ?? []).join(' ')}` : 'a key whose fingerprint is odd';
}

/** Somebody else's attempt is in the slot: it is never cancelled without people deciding it. */
function foreignAttempt(cluster: string, { nonce = '', pgpFingerprint, progress, required }: GenerationAttempt) {
  const mark = attemptMark(nonce);
  return new RunbookError('ATTEMPT_FOREIGN', `Somebody else's generation attempt is under way on ${cluster}.`, {
    cluster,
    about: mark,
    observed: `attempt ${mark} with ${keyInWords(pgpFingerprint)}, ${progress} of ${required} key shares given`,
    needed: 'the free slot, or our own attempt',
    next: `Find out whose it is: the owner's key has this fingerprint, and his tool shows a nonce that begins with ${mark}. When it has ended or he cancelled it, retry. Where nobody claims it, two people may decide to cancel it.`,
  });
}

async function tolerate(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'PERMISSION_DENIED') throw error;
  }
}
