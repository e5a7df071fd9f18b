import type { RunOutcome } from './run-facts';
import type { Waiting } from './run-status';

/** What people outside of a run are told. */
export const NOTIFICATION_EVENTS = [
  'started',
  'waiting-for-people',
  'reminder',
  'escalation',
  'stand-by-called',
  'holders-too-few',
  'parked',
  'outage-started',
  'service-ready',
  'protected-again',
  'critical-finding',
  'finished',
] as const;
export type NotificationEvent = (typeof NOTIFICATION_EVENTS)[number];

/** `critical` is meant to wake somebody. */
export type NotificationSeverity = 'info' | 'warning' | 'critical';

/** What the workers' inventory says of notifications, as far as a run has to know it. */
export interface NotificationFacts {
  /** The events that some target wants: for any other nothing is sent, and nothing is recorded. */
  readonly events: readonly NotificationEvent[];
  readonly remindAfterMs: number;
  readonly escalateAfterMs: number;
}

/** What one notification says, before it is put into the form of its target. Never holds a secret. */
export interface Notification {
  readonly event: NotificationEvent;
  readonly severity: NotificationSeverity;
  readonly runbook: string;
  /** Counts the notifications of a run, from 1: a target that gets one twice can tell. */
  readonly number: number;
  /** What it is about, the same for a matter and its end: `outage`, `wait:gate:plan`, `run`. */
  readonly subject: string;
  /** One sentence: what happened. */
  readonly text: string;
  /** Epoch milliseconds of workflow time. */
  readonly at: number;
  /** What is waited for, and from whom. */
  readonly waiting?: Waiting;
  readonly outcome?: RunOutcome;
  /** What people still have to do after the run. */
  readonly leftToDo?: readonly string[];
}
