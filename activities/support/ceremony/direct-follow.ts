import { setTimeout as delay } from 'node:timers/promises';
import type { GenerationAttempt } from '../../../src/client';
import type { DirectAttempt, DirectAttemptSeen } from '../../../src/contracts/activities';
import { isRunbookError } from '../../../src/errors';
import { endpointsOf } from '../ceremony-access';
import type { ClusterAccess } from '../clusters';
import { ceremonyToken } from '../clusters';
import type { Execution } from '../execution';
import { keyInWords } from './generation-slot';
import { LeaderlessTime } from './leaderless-time';

/** Between two looks at an attempt to which people give their shares. */
const FOLLOW_POLL_MS = 250;

/** Looks at the slot until it shows something else than `known`. What may pass is waited out. */
export async function followAttempt(
  execution: Execution,
  access: ClusterAccess,
  known: Pick<DirectAttempt, 'kind' | 'nonce' | 'fingerprint' | 'progress' | 'address' | 'seenAt'> & {
    readonly earlier: readonly string[];
    readonly budgetMs: number;
  },
): Promise<DirectAttemptSeen> {
  const deadline = Date.now() + known.budgetMs;
  const { signal } = execution;
  let { seenAt } = known;
  const leaderless = new LeaderlessTime();
  for (;;) {
    execution.throwIfCancelled();
    try {
      const { version } = await access.client.sys.health({ signal });
      const token = await ceremonyToken(access, version, known.kind, signal);
      const began = Date.now();
      const attempt = await endpointsOf(access, known.kind).readAttempt({ token, signal });
      const seen = judge(known, attempt);
      if (seen !== 'gone' && seen !== 'foreign') {
        seenAt = began;
        leaderless.reset();
      }
      execution.progress(inWords(attempt));
      if (seen !== 'unchanged' || Date.now() >= deadline) {
        const { nonce = '', progress, required } = attempt;
        const address = await activeNode(access, known.address, signal);
        const observed = inWords(attempt);
        const at = { seenAt: seenAt + leaderless.totalMs, lookedAt: began };
        return { seen, nonce, progress, required, address, observed, ...at };
      }
    } catch (error) {
      if (!isRunbookError(error) || signal.aborted) throw error;
      execution.progress(`cannot be read now: ${error.code}`);
      if (Date.now() >= deadline) {
        const { nonce, progress, address } = known;
        return {
          seen: 'unchanged',
          nonce,
          progress,
          required: 0,
          address,
          observed: error.code,
          seenAt: seenAt + leaderless.totalMs,
          lookedAt: Date.now(),
        };
      }
      await leaderless.look(access, signal);
    }
    await delay(FOLLOW_POLL_MS, undefined, { signal });
  }
}

function judge(
  { kind, nonce, fingerprint, progress, earlier }: Parameters<typeof followAttempt>[2],
  attempt: GenerationAttempt,
): DirectAttemptSeen['seen'] {
  if (!attempt.started) return 'gone';
  if (attempt.pgpFingerprint !== fingerprint) return 'foreign';
  if (attempt.nonce !== nonce)
    return kind === 'operation-token' || earlier.includes(attempt.nonce ?? '') ? 'reappeared' : 'foreign';
  if (attempt.progress > progress) return 'progress';
  return attempt.progress < progress ? 'rejected' : 'unchanged';
}

function inWords({ started, pgpFingerprint, progress, required }: GenerationAttempt): string {
  return started ? `${progress} of ${required} key shares, ${keyInWords(pgpFingerprint)}` : 'no attempt in the slot';
}

/** The address of the active node; `otherwise` where none can be found now. */
export async function activeNode(access: ClusterAccess, otherwise: string, signal: AbortSignal): Promise<string> {
  try {
    access.client.forgetActiveNode();
    return await access.client.activeNode({ signal });
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return otherwise;
  }
}
