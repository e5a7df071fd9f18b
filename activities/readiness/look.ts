import { setTimeout as delay } from 'node:timers/promises';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { codeOf, unread } from './point';
import type { Question } from './point';

/** What every reading is given. */
export interface Look {
  readonly dependencies: ActivityDependencies;
  readonly clusters: Clusters;
  readonly signal: AbortSignal;
  /** Of the worker, epoch ms. */
  readonly now: number;
}

/** What one reading may take, ms. All of them run at the same time. */
const POINT_MS = 8_000;

/** @throws {TooSlow}, or what `read` throws; the caller's own cancellation is thrown on */
export async function within<T>(
  look: Look,
  read: (signal: AbortSignal) => Promise<T>,
  limitMs: number = POINT_MS,
): Promise<T> {
  const ended = new AbortController();
  const signal = AbortSignal.any([look.signal, AbortSignal.timeout(limitMs)]);
  const reading = read(signal);
  // Whatever does not heed the signal is left behind.
  const tooSlow = delay(limitMs + 250, undefined, { signal: ended.signal }).then(
    () => {
      throw new TooSlow(limitMs);
    },
    () => new Promise<never>(() => undefined),
  );
  try {
    return await Promise.race([reading, tooSlow]);
  } catch (error) {
    if (look.signal.aborted) throw error;
    throw signal.aborted ? new TooSlow(limitMs) : error;
  } finally {
    ended.abort();
    reading.catch(() => undefined);
  }
}

/** A reading took longer than it may. */
export class TooSlow extends Error {
  constructor(limitMs: number) {
    super(`no answer within ${limitMs / 1_000} s`);
    this.name = 'TooSlow';
  }
}

/**
 * Reads and judges some points. A reading that fails or takes too long gives `not-checkable` points with the code of the
 * error, one for each question: never nothing, and never `ok`.
 */
export async function inspect<T>(
  look: Look,
  questions: readonly Question[],
  read: (signal: AbortSignal) => Promise<T>,
  judge: (found: T) => readonly ReadinessPoint[],
): Promise<ReadinessPoint[]> {
  try {
    return [...judge(await within(look, read))];
  } catch (error) {
    if (look.signal.aborted) throw error;
    const code = error instanceof TooSlow ? error.message : codeOf(error);
    return questions.flatMap((question) => unread(question, code));
  }
}
