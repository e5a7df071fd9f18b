import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { isRunbookError } from '../../src/errors';
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
