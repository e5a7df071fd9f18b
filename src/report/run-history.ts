import type { temporal } from '@temporalio/proto';
import { payloadConverter } from '../contracts/payload-converter';
import type { Attested } from '../contracts/run-facts';
import { ERROR_CODES } from '../errors';
import type { ActivityRecord, RunClose, RunTail, ShownFailure } from './run-record';
import { fieldsOf, shownError, textOf } from './run-record';

/*
 * What Temporal's history proves of a run: what activities were ordered and what came of them, for the activities that
 * act on such proof, and how a run was closed, for its report. Whoever may write to the namespace may have written it,
 * and releases differ, so nothing is assumed of its shape and nothing here throws.
 */

type Failure = temporal.api.failure.v1.IFailure;
type Event = temporal.api.history.v1.IHistoryEvent;
type History = temporal.api.history.v1.IHistory;

/** An activity from its events. */
export interface RecordedActivity extends ActivityRecord {
  readonly scheduledEventId: number;
}

/** What a history says, decoded once and in the order of its events. Times are epoch milliseconds. */
export interface RunHistory {
  readonly startedAt: number;
  readonly activities: readonly RecordedActivity[];
  readonly close?: RunClose;
  readonly lastEventAt: number;
  readonly eventCount: number;
}

/** Epoch milliseconds of a protobuf timestamp. */
export function timestampMs(timestamp: Event['eventTime']): number | undefined {
  if (timestamp === null || timestamp === undefined) return undefined;
  return Number(timestamp.seconds ?? 0) * 1000 + Math.floor((timestamp.nanos ?? 0) / 1e6);
}

/** The first of several payloads: every activity and run takes one value and gives one. A marker where it cannot be read. */
export function firstValue(payloads: temporal.api.common.v1.IPayloads | null | undefined): unknown {
  const first = payloads?.payloads?.[0];
  return first ? payloadConverter.fromPayload<unknown>(first) : undefined;
}

const TIMEOUT_NAMES = [
  'TIMEOUT',
  'START_TO_CLOSE_TIMEOUT',
  'SCHEDULE_TO_START_TIMEOUT',
  'SCHEDULE_TO_CLOSE_TIMEOUT',
  'HEARTBEAT_TIMEOUT',
];

function timeoutName(failure: Failure): string | undefined {
  const type: unknown = failure.timeoutFailureInfo?.timeoutType;
  if (!failure.timeoutFailureInfo) return undefined;
  const named = TIMEOUT_NAMES.find(
    (name) => typeof type === 'string' && type.endsWith(`TIMEOUT_TYPE_${name.replace(/_TIMEOUT$/, '')}`),
  );
  return (typeof type === 'number' ? TIMEOUT_NAMES[type] : named) ?? 'TIMEOUT';
}

function outcomeKnownByDefault(code: string): boolean {
  return Object.hasOwn(ERROR_CODES, code) && ERROR_CODES[code as keyof typeof ERROR_CODES].outcomeKnown;
}

/** The facts of a failure as Temporal recorded it. */
function shownFailure(failure: Failure | null | undefined): ShownFailure | undefined {
  if (!failure) return undefined;
  const application = failure.applicationFailureInfo;
  if (application) {
    const code = application.type ?? '';
    const known = fieldsOf(firstValue(application.details))['outcomeKnown'];
    return {
      ...shownError(code, failure.message ?? ''),
      outcomeKnown: typeof known === 'boolean' ? known : outcomeKnownByDefault(code),
    };
  }
  const timeout = timeoutName(failure);
  if (timeout !== undefined) {
    const outcomeKnown = timeout === 'SCHEDULE_TO_START_TIMEOUT' && !failure.cause;
    return { code: timeout, message: 'the time allowed is over', outcomeKnown };
  }
  if (failure.canceledFailureInfo) return { code: 'CANCELLED', message: 'cancelled', outcomeKnown: false };
  if (failure.terminatedFailureInfo) return { code: 'TERMINATED', message: 'terminated', outcomeKnown: false };
  return shownFailure(failure.cause) ?? { code: 'Error', message: 'a failure without a type', outcomeKnown: false };
}

/** What one event changes in the record of an activity. */
function changeOf(
  event: Event,
): { readonly scheduledEventId: unknown; readonly change: Partial<ActivityRecord> } | undefined {
  const at = timestampMs(event.eventTime) ?? 0;
  const started = event.activityTaskStartedEventAttributes;
  if (started) {
    const last = started.lastFailure ? timeoutName(started.lastFailure) : undefined;
    const workerLost = last === 'HEARTBEAT_TIMEOUT' || last === 'START_TO_CLOSE_TIMEOUT';
    const change = { startedAt: at, tries: Math.max(1, started.attempt ?? 1), workerLost };
    return { scheduledEventId: started.scheduledEventId, change };
  }
  const completed = event.activityTaskCompletedEventAttributes;
  if (completed) {
    const result = fieldsOf(firstValue(completed.result));
    return { scheduledEventId: completed.scheduledEventId, change: { closedAt: at, state: 'completed', result } };
  }
  const failed = event.activityTaskFailedEventAttributes ?? event.activityTaskTimedOutEventAttributes;
  if (failed) {
    const failure = shownFailure(failed.failure);
    const change = { closedAt: at, state: 'failed' as const, ...(failure && { failure }) };
    return { scheduledEventId: failed.scheduledEventId, change };
  }
  const cancelled = event.activityTaskCanceledEventAttributes;
  if (!cancelled) return undefined;
  return { scheduledEventId: cancelled.scheduledEventId, change: { closedAt: at, state: 'cancelled' } };
}

/** The activities of a run in the order in which they were scheduled. */
function activitiesOf(events: readonly Event[]): readonly RecordedActivity[] {
  const byScheduledId = new Map<number, RecordedActivity>();
  for (const event of events) {
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) {
      const scheduledEventId = Number(event.eventId ?? 0);
      byScheduledId.set(scheduledEventId, {
        type: scheduled.activityType?.name ?? 'unknown',
        scheduledEventId,
        input: fieldsOf(firstValue(scheduled.input)),
        scheduledAt: timestampMs(event.eventTime) ?? 0,
        state: 'running',
        tries: 1,
        workerLost: false,
        result: {},
      });
      continue;
    }
    const found = changeOf(event);
    const record = byScheduledId.get(Number(found?.scheduledEventId));
    if (found && record) byScheduledId.set(record.scheduledEventId, { ...record, ...found.change });
  }
  return [...byScheduledId.values()];
}

export function closeOf(event: Event): RunClose | undefined {
  const at = timestampMs(event.eventTime) ?? 0;
  if (event.workflowExecutionCompletedEventAttributes) return { how: 'completed', at };
  const failed = event.workflowExecutionFailedEventAttributes;
  if (failed) {
    const failure = shownFailure(failed.failure);
    return { how: 'failed', at, ...(failure && { failure }) };
  }
  const terminated = event.workflowExecutionTerminatedEventAttributes;
  if (terminated) {
    const reason = textOf(terminated.reason);
    const by = principalOf(event);
    return { how: 'terminated', at, ...(reason !== undefined && { reason }), ...(by && { by }) };
  }
  if (event.workflowExecutionCanceledEventAttributes) return { how: 'cancelled', at };
  if (event.workflowExecutionTimedOutEventAttributes) return { how: 'timed-out', at };
  if (event.workflowExecutionContinuedAsNewEventAttributes) return { how: 'continued', at };
  return undefined;
}

function principalOf(event: Event): Attested | undefined {
  const name = textOf(event.principal?.name);
  return name === undefined ? undefined : { name, how: 'principal' };
}

/** Decodes a history. Never throws on what events hold. */
export function readHistory(history: History): RunHistory {
  const events = history.events ?? [];
  const last = events.at(-1);
  const startedAt = timestampMs(events[0]?.eventTime) ?? 0;
  const close = last && closeOf(last);
  return {
    startedAt,
    activities: activitiesOf(events),
    ...(close && { close }),
    lastEventAt: timestampMs(last?.eventTime) ?? startedAt,
    eventCount: events.length,
  };
}

/** What the report of a closed run needs of its history; undefined of an open one. */
export function tailOf(history: History): RunTail | undefined {
  const { close, activities, eventCount } = readHistory(history);
  if (!close) return undefined;
  const ordered: Record<string, number> = {};
  for (const { type } of activities) ordered[type] = (ordered[type] ?? 0) + 1;
  return { close, ordered, events: eventCount };
}
