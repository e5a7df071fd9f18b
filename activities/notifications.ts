import { setTimeout as delay } from 'node:timers/promises';
import type { NotificationActivities, NotificationFailure } from '../src/contracts/activities';
import { isRunbookError } from '../src/errors';
import type { NotificationTarget } from '../src/inventory';
import { findDeployment } from '../src/inventory';
import type { ActivityDependencies } from './dependencies';
import { execute } from './support/execution';
import { send } from './support/notifications/notification-senders';
import type { Message } from './support/notifications/notification-texts';
import { messageOf } from './support/notifications/notification-texts';

const TRIES = 2;
const PAUSE_MS = 500;

/** Tells people outside of the run. Not part of the interface of the service. */
export function createNotificationActivities({ inventory, log }: ActivityDependencies): NotificationActivities {
  return {
    notify: execute(async ({ deployment, notification }, { run, signal }) => {
      const targets = findDeployment(inventory, deployment).notifications.filter((target) =>
        target.events.includes(notification.event),
      );
      const message = messageOf(deployment, notification, run, inventory.temporal.uiAddress);
      const results = await Promise.all(
        targets.map(async (target): Promise<NotificationFailure | undefined> => {
          const why = await tell(target, message, signal);
          if (why === undefined) return undefined;
          log.warn(
            { target: target.name, event: message.event, workflowId: run.wid, why },
            'notification not delivered',
          );
          return { target: target.name, kind: target.kind, why };
        }),
      );
      const failed = results.filter((result) => result !== undefined);
      return { told: targets.length - failed.length, failed };
    }),
  };
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
