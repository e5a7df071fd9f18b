import type { RunbookName } from './names';
import type { ReadinessResult } from './readiness';
import type { RunOutcome } from './run-facts';
import type { Waiting } from './run-status';

/** What people outside of a run are told. */
export const NOTIFICATION_EVENTS = [
  'started',
  'waiting-for-people',
  'reminder',
  'escalation',
  'stand-by-called',
  'parked',
  'outage-started',
  'service-ready',
  'protected-again',
  'critical-finding',
  'finished',
  'readiness-changed',
  'readiness-overdue',
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

type ReadinessVerdicts = Pick<ReadinessResult, 'switchover' | 'failover'>;

/**
 * What one notification is about. The activity puts it into words of its own: it takes names and lists from the inventory,
 * and quotes the rest at the end. Never holds a secret.
 */
export interface Notification {
  readonly event: NotificationEvent;
  readonly severity: NotificationSeverity;
  readonly runbook: RunbookName;
  /** Counts the notifications of a run, from 1: a target that gets one twice can tell. */
  readonly number: number;
  /** What it is about, the same for a matter and its end: `outage`, `wait:gate:plan`, `run`. */
  readonly subject: string;
  /** Epoch milliseconds of workflow time. */
  readonly at: number;
  /** `started`: the runbook that this one took over. */
  readonly tookOver?: RunbookName;
  /** No cluster serves clients. */
  readonly inOutage?: boolean;
  /** The run holds clients off a cluster that could serve them. */
  readonly clientsHeld?: boolean;
  /** `readiness-changed`: the verdicts, and those of the check before. */
  readonly readiness?: ReadinessVerdicts & { readonly before?: ReadinessVerdicts };
  /** `reminder`, `escalation`: since when it is waited for; `readiness-overdue`: the last check. Epoch milliseconds. */
  readonly since?: number;
  /** `protected-again`: who streams from whom. */
  readonly streaming?: { readonly secondary: string; readonly primary: string };
  /** `critical-finding`: its code. */
  readonly finding?: string;
  /** What the run has to say beside that: quoted, and cut to 120 characters. */
  readonly words?: string;
  /** What is waited for, and from whom. */
  readonly waiting?: Waiting;
  readonly outcome?: RunOutcome;
  /** What people still have to do after the run. */
  readonly leftToDo?: readonly string[];
}
