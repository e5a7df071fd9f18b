import type { Notification } from '../../src/contracts/notifications';
import { findDeployment } from '../../src/inventory';
import { currentExecution } from '../execution';
import { messageOf } from './notification-texts';
import { tellTargets } from './tell-targets';
import type { NotificationFailure } from './tell-targets';

/** Posts to every target of the inventory that wants the event. Never fails because a target is down. */
export async function notify(input: {
  readonly deployment: string;
  readonly notification: Notification;
}): Promise<{ readonly told: number; readonly failed: readonly NotificationFailure[] }> {
  const { deployment, notification } = input;
  const { inventory, run, signal, log, notificationBound } = currentExecution();
  const message = messageOf(inventory, deployment, notification, run);
  const targets = findDeployment(inventory, deployment).notifications.filter((target) =>
    target.events.includes(message.event),
  );
  if (targets.length > 0) notificationBound.take(run.rid);
  const failed = await tellTargets(log, targets, message, signal);
  return { told: targets.length - failed.length, failed };
}
