import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { NotificationTarget } from '../../src/inventory';
import { send } from './notification-senders';
import type { Message } from './notification-texts';

/** A target that was not told. */
export interface NotificationFailure {
  /** Its name in the inventory. */
  readonly target: string;
  readonly kind: 'webhook' | 'slack' | 'pagerduty' | 'email';
  /** In a few words, without address, key or answer. */
  readonly why: string;
}

const TRIES = 2;
const PAUSE_MS = 500;

/** Tells each target. Never fails because one is down: gives those that were not told. */
export async function tellTargets(
  log: Logger,
  targets: readonly NotificationTarget[],
  message: Message,
  signal: AbortSignal,
): Promise<readonly NotificationFailure[]> {
  const results = await Promise.all(
    targets.map(async (target): Promise<NotificationFailure | undefined> => {
      const why = await tell(target, message, signal);
      if (why === undefined) return undefined;
      log.warn(
        { target: target.name, event: message.event, workflowId: message.workflowId, why },
        'notification not delivered',
      );
      return { target: target.name, kind: target.kind, why };
    }),
  );
  return results.filter((result) => result !== undefined);
}

/** One target more tells at once: Temporal would tell all of them again. Gives why it was not told. */
async function tell(target: NotificationTarget, message: Message, signal: AbortSignal): Promise<string | undefined> {
  for (let tries = 1; ; tries += 1) {
    try {
      await send(target, message, signal);
      return undefined;
    } catch (error) {
      if (!isRunbookError(error)) return 'a defect of this program';
      if (tries === TRIES || !error.retryable || signal.aborted) return error.message;
      await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** So many at once of one run, and one more each minute. */
const MOST_AT_ONCE = 30;
const ONE_MORE_MS = 60_000;
const MOST_RUNS = 1_000;

/**
 * Bounds how much one run tells through this worker. Whoever writes to the namespace can start further runs: each is
 * bounded, not all of them together, or a flood of theirs would silence the alarms of the others.
 */
export class NotificationBound {
  readonly #told = new Map<string, { readonly count: number; readonly at: number }>();

  /** @throws RunbookError PRECONDITION_FAILED where this run told too much */
  take(runId: string): void {
    const now = performance.now();
    const before = this.#told.get(runId);
    const freed = before === undefined ? 0 : Math.floor((now - before.at) / ONE_MORE_MS);
    const count = Math.max(0, (before?.count ?? 0) - freed);
    if (count >= MOST_AT_ONCE)
      throw new RunbookError('PRECONDITION_FAILED', 'This run told too much in a short time; nobody was told this.', {
        observed: `${count} notifications`,
        needed: `fewer than ${MOST_AT_ONCE}, of which one is forgotten each minute`,
        next: 'Look at the run itself.',
      });
    // Put anew, so that the first of the map is the one that told nothing for longest.
    this.#told.delete(runId);
    this.#told.set(runId, { count: count + 1, at: before === undefined ? now : before.at + freed * ONE_MORE_MS });
    const [oldest] = this.#told.keys();
    if (this.#told.size > MOST_RUNS && oldest !== undefined) this.#told.delete(oldest);
  }
}
