import type { Notification } from '../notifications';

/** A target that was not told. */
export interface NotificationFailure {
  /** Its name in the inventory. */
  readonly target: string;
  readonly kind: 'webhook' | 'slack' | 'pagerduty' | 'email';
  /** In a few words, without address, key or answer. */
  readonly why: string;
}

/** Tells people outside of the run. */
export interface NotificationActivities {
  /** Posts to every target of the inventory that wants the event. Never fails because a target is down. */
  notify(input: {
    readonly deployment: string;
    readonly notification: Notification;
  }): Promise<{ readonly told: number; readonly failed: readonly NotificationFailure[] }>;
}
