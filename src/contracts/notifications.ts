import type { RunbookName } from './names';
import type { ReadinessResult } from './readiness';
import type { RunOutcome } from './run-facts';
import type { Waiting } from './run-status';

/** The events about which people outside a run are notified. */
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
  'service-alarm',
  'service-alarm-over',
  'over',
] as const;
export type NotificationEvent = (typeof NOTIFICATION_EVENTS)[number];

/** What `walSampler` and the workers notice between runs. `no-samples`: about the sampler itself. */
export const SERVICE_ALARMS = ['no-primary', 'two-primaries', 'not-streaming', 'no-samples'] as const;
export type ServiceAlarmKind = (typeof SERVICE_ALARMS)[number];

/** What a sample showed of a cluster. */
export const SEEN = [
  'primary',
  'streams',
  'secondary',
  'silent',
  'comparing',
  'not-in-step',
  'not-connected',
  'no-heartbeat',
  'no-role',
] as const;
export type Seen = (typeof SEEN)[number];

/** A `service-alarm`, or its end. */
export interface ServiceAlarm {
  readonly kind: ServiceAlarmKind;
  /** Not for a performance set, and not for `not-streaming`. */
  readonly drSet?: string | undefined;
  /** The clusters that it concerns, as they were seen last. */
  readonly seen: readonly { readonly cluster: string; readonly how: Seen }[];
  /** `two-primaries`: the one that was seen as the only primary last. */
  readonly primary?: string | undefined;
  /** The run that works on it: open before, or started because of it. */
  readonly run?: { readonly runbook: RunbookName; readonly started: boolean } | undefined;
  /** `no-samples`: runs of the sampler begin, but none completes. */
  readonly runsFail?: boolean | undefined;
}

/** `critical` is meant to wake somebody. */
type NotificationSeverity = 'info' | 'warning' | 'critical';

/** The notification settings of the workers' inventory, as far as a run needs them. */
export interface NotificationFacts {
  /** The events that some target wants. For any other, nothing is sent and nothing is recorded. */
  readonly events: readonly NotificationEvent[];
  /** The events after which some target must be told when their subject is over; absent in runs of an earlier worker. */
  readonly opens?: readonly NotificationEvent[];
  readonly remindAfterMs: number;
  readonly escalateAfterMs: number;
}

type ReadinessVerdicts = Pick<ReadinessResult, 'switchover' | 'failover'>;

/**
 * What one notification is about. The activity words it: it takes names and lists from the inventory, and quotes the rest at the
 * end. Never contains a secret.
 */
export interface Notification {
  readonly event: NotificationEvent;
  readonly severity: NotificationSeverity;
  readonly runbook: RunbookName;
  /** Counts the notifications of a run, from 1, so that a target can recognize duplicates. */
  readonly number: number;
  /** What it is about, the same for the beginning and the end of something: `outage`, `wait:gate:plan`, `run`. */
  readonly subject: string;
  /** Subjects that are over with this: their incidents are closed. */
  readonly closes?: readonly string[];
  /** Epoch milliseconds of workflow time. */
  readonly at: number;
  /** As the run's input says: quoted, and cut. */
  readonly ticket?: string | undefined;
  /** The incident at PagerDuty in which this lands, as the run's input says. */
  readonly incidentKey?: string | undefined;
  /** From which cluster to which the role of the primary moves, as far as the plan says. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** As the run's input says: quoted, and cut to 120 characters. */
  readonly reason?: string | undefined;
  readonly requestedBy?: string | undefined;
  /** `started`: the runbook that this one took over. */
  readonly tookOver?: RunbookName;
  /** No cluster serves clients. */
  readonly inOutage?: boolean;
  /** The run keeps clients out of a cluster that could serve them. */
  readonly clientsHeld?: boolean;
  /** `readiness-changed`: the verdicts, and those of the check before. */
  readonly readiness?: ReadinessVerdicts & { readonly before?: ReadinessVerdicts };
  /** `service-alarm`, `service-alarm-over`. */
  readonly alarm?: ServiceAlarm;
  /**
   * `reminder`, `escalation`: since when the run waits; `readiness-overdue`: the last check; `service-alarm`: the first
   * bad sample, or the last sample of all. Epoch milliseconds.
   */
  readonly since?: number;
  /** `protected-again`: which secondary streams from which primary. */
  readonly streaming?: { readonly secondary: string; readonly primary: string };
  /** `critical-finding`: its code. */
  readonly finding?: string;
  /** What the run adds to that: quoted, and cut to 120 characters. */
  readonly words?: string;
  /** What is waited for, and from whom. */
  readonly waiting?: Waiting;
  readonly outcome?: RunOutcome;
  /** What people still have to do after the run. */
  readonly leftToDo?: readonly string[];
}
