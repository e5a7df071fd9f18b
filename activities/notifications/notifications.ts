import { setTimeout as delay } from 'node:timers/promises';
import type { Notification } from '../../src/contracts/notifications';
import { isRunbookError } from '../../src/errors';
import type { NotificationTarget } from '../../src/inventory';
import { findDeployment } from '../../src/inventory';
import type { RunContext } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { currentExecution } from '../execution';
import { send } from './notification-senders';
import { messageOf } from './notification-texts';
import type { Message } from './notification-texts';

/** A target that was not told. */
interface NotificationFailure {
  /** Its name in the inventory. */
  readonly target: string;
  readonly kind: NotificationTarget['kind'];
  /** In a few words, without address, key or answer. */
  readonly why: string;
}

interface Told {
  readonly told: number;
  readonly failed: readonly NotificationFailure[];
}

/** Posts to every target of the inventory that wants the event. Never fails because a target is down. */
export async function notify(input: {
  readonly deployment: string;
  readonly notification: Notification;
}): Promise<Told> {
  const execution = currentExecution();
  execution.notificationBound.take(execution.run.rid);
  return tellNow(execution, input.deployment, input.notification, execution.run);
}

/**
 * Tells the targets that want the event.
 *
 * @param run - `id` tells apart what one run, or none, has to say several times
 */
export async function tellNow(
  { inventory, log, signal }: Pick<ActivityDependencies, 'inventory' | 'log'> & { readonly signal?: AbortSignal },
  deployment: string,
  notification: Notification,
  run: RunContext & { readonly id?: string },
): Promise<Told> {
  const worded = messageOf(inventory, deployment, notification, run);
  const message = run.id === undefined ? worded : { ...worded, id: `${worded.id}/${run.id}` };
  const { notifications } = findDeployment(inventory, deployment);
  const targets = notifications.filter(({ events }) => events.includes(message.event));
  const results = await Promise.all(
    targets.map(async (target): Promise<NotificationFailure | undefined> => {
      const why = await tell(target, message, signal ?? new AbortController().signal);
      if (why === undefined) return undefined;
      const { event, workflowId } = message;
      log.warn({ target: target.name, event, workflowId, why }, 'notification not delivered');
      return { target: target.name, kind: target.kind, why };
    }),
  );
  const failed = results.filter((result) => result !== undefined);
  return { told: targets.length - failed.length, failed };
}

const TRIES = 2;
const PAUSE_MS = 500;

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
