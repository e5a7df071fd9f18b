import type { Notification } from '../../src/contracts/notifications';
import { findDeployment } from '../../src/inventory';
import { currentExecution } from '../execution';
import type { RunContext } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { messageOf } from './notification-texts';
import { tellTargets } from './notification-senders';
import type { NotificationFailure } from './notification-senders';

/** Posts to every target of the inventory that wants the event. Never fails because a target is down. */
export async function notify(input: {
  readonly deployment: string;
  readonly notification: Notification;
}): Promise<{ readonly told: number; readonly failed: readonly NotificationFailure[] }> {
  const context = currentExecution();
  const { run, signal, notificationBound } = context;
  const before = (): void => notificationBound.take(run.rid);
  return tellNow(context, input.deployment, input.notification, run, { signal, before });
}

/**
 * Tells the targets that want the event.
 *
 * @param options - `id` tells apart what one run, or none, has to say several times; `before` is called where there are any
 */
export async function tellNow(
  { inventory, log }: Pick<ActivityDependencies, 'inventory' | 'log'>,
  deployment: string,
  notification: Notification,
  run: RunContext,
  options: { readonly id?: string; readonly signal?: AbortSignal; readonly before?: () => void },
): Promise<{ readonly told: number; readonly failed: readonly NotificationFailure[] }> {
  const { id, signal = new AbortController().signal, before } = options;
  const message = messageOf(inventory, deployment, notification, run);
  const { notifications } = findDeployment(inventory, deployment);
  const targets = notifications.filter(({ events }) => events.includes(message.event));
  if (targets.length > 0) before?.();
  const failed = await tellTargets(
    log,
    targets,
    id === undefined ? message : { ...message, id: `${message.id}/${id}` },
    signal,
  );
  return { told: targets.length - failed.length, failed };
}
