import { createHash } from 'node:crypto';
import type { temporal } from '@temporalio/proto';
import type { Report } from '../contracts/report';
import { payloadConverter } from '../contracts/payload-converter';
import { ERROR_CODES } from '../errors';
import type { ActivityRecord, RunClose, RunTail, ShownFailure } from './run-record';
import { fieldsOf, shownError, textOf } from './run-record';

/*
 * What Temporal's history proves about a run: its activities and their outcomes, for activities that act on such proof, and
 * how the run was closed, for its report. Anybody who can write to the namespace may have written the history, and releases
 * differ, so this code assumes nothing about its shape and never throws.
 */

type Failure = temporal.api.failure.v1.IFailure;
type Event = temporal.api.history.v1.IHistoryEvent;
type History = temporal.api.history.v1.IHistory;

/** An activity, read from its events. */
export interface RecordedActivity extends ActivityRecord {
  readonly scheduledEventId: number;
}

/** A history, decoded once and in the order of its events. Times are epoch milliseconds. */
export interface RunHistory {
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

/** The first of several payloads: every activity and run takes and returns one value. A marker if it cannot be decoded. */
export function firstValue(payloads: temporal.api.common.v1.IPayloads | null | undefined): unknown {
  const first = payloads?.payloads?.[0];
  return first ? payloadConverter.fromPayload<unknown>(first) : undefined;
}

/** Indexed by the number of the timeout type. */
const TIMEOUT_NAMES = ['', 'START_TO_CLOSE', 'SCHEDULE_TO_START', 'SCHEDULE_TO_CLOSE', 'HEARTBEAT'];

function timeoutName({ timeoutFailureInfo: info }: Failure): string | undefined {
  return info ? `${TIMEOUT_NAMES[info.timeoutType ?? 0] ?? ''}_TIMEOUT`.replace(/^_/, '') : undefined;
}

/** The facts of a failure as Temporal recorded it. */
function shownFailure(failure: Failure | null | undefined): ShownFailure | undefined {
  if (!failure) return undefined;
  const application = failure.applicationFailureInfo;
  if (application) {
    const code = application.type ?? '';
    const usual = Object.hasOwn(ERROR_CODES, code) && ERROR_CODES[code as keyof typeof ERROR_CODES].outcomeKnown;
    const known = fieldsOf(firstValue(application.details))['outcomeKnown'];
    return { ...shownError(code, failure.message ?? ''), outcomeKnown: typeof known === 'boolean' ? known : usual };
  }
  const timeout = timeoutName(failure);
  if (timeout !== undefined) {
    const outcomeKnown = timeout === 'SCHEDULE_TO_START_TIMEOUT' && !failure.cause;
    return { code: timeout, message: 'the time limit was exceeded', outcomeKnown };
  }
  return shownFailure(failure.cause) ?? { code: 'Error', message: 'a failure without a type', outcomeKnown: false };
}

/** The change that one event makes to the record of an activity. */
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

function closeOf(event: Event): RunClose | undefined {
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
    const name = textOf(event.principal?.name);
    const by = name === undefined ? {} : { by: { name, how: 'principal' as const } };
    return { how: 'terminated', at, ...(reason !== undefined && { reason }), ...by };
  }
  if (event.workflowExecutionCanceledEventAttributes) return { how: 'cancelled', at };
  if (event.workflowExecutionTimedOutEventAttributes) return { how: 'timed-out', at };
  if (event.workflowExecutionContinuedAsNewEventAttributes) return { how: 'continued', at };
  return undefined;
}

/** Decodes a history. Never throws, whatever its events contain. */
export function readHistory(history: History): RunHistory {
  const events = history.events ?? [];
  const last = events.at(-1);
  const close = last && closeOf(last);
  return {
    activities: activitiesOf(events),
    ...(close && { close }),
    lastEventAt: timestampMs(last?.eventTime) ?? 0,
    eventCount: events.length,
  };
}

/** What the report of a closed run needs from its history; undefined for an open run. */
export function tailOf(history: History): RunTail | undefined {
  const { close, activities, eventCount } = readHistory(history);
  if (!close) return undefined;
  const ordered: Record<string, number> = {};
  for (const { type } of activities) ordered[type] = (ordered[type] ?? 0) + 1;
  return { close, ordered, events: eventCount };
}

/** The members of principal and attributes that count, at any depth: a new member of a later server does not change the digest. */
const MEMBERS: ReadonlySet<string> = new Set(
  `acceptedRequest activityId activityType applicationFailureInfo attempt cause data details failure identity input
  lastFailure message meta name originalExecutionRunId outcome parentWorkflowExecution payloads reason result runId
  scheduledEventId signalName startedEventId success timerId type updateId workflowExecution workflowId workflowType`.split(
    /\s+/,
  ),
);

/** Members in the order of their names, numbers as decimal strings, bytes as base64. */
function canonical(value: unknown): unknown {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null || 'unsigned' in value) return String(value);
  return Object.entries(value)
    .filter(([name, member]) => MEMBERS.has(name) && member !== null && member !== undefined)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, member]) => [name, canonical(member)]);
}

function lineOf({ eventId, eventType, eventTime, principal, ...event }: Event): string {
  const [, attributes] = Object.entries(event).find(([name, value]) => name.endsWith('EventAttributes') && value) ?? [];
  const time = `${String(eventTime?.seconds ?? 0)}.${String(eventTime?.nanos ?? 0).padStart(9, '0')}`;
  return `${JSON.stringify([String(eventId), String(eventType), time, canonical(principal ?? {}), canonical(attributes ?? {})])}\n`;
}

/**
 * SHA-256 over the events of a run, in a form that every later read of the same history reproduces: for each event one line
 * of JSON and a line feed, `[ID, type, time, principal, attributes]`. ID and type are decimal strings, and time is
 * `seconds.nanoseconds` with nine digits. Principal and attributes contain the members of `MEMBERS`: each object as a list
 * of `[name, value]` in the order of the names, numbers as decimal strings, bytes as base64.
 */
export function digestOf({ events }: History): NonNullable<Report['history']> {
  const hash = createHash('sha256');
  for (const event of events ?? []) hash.update(lineOf(event));
  return { events: events?.length ?? 0, sha256: hash.digest('hex') };
}

/** Where each rendering puts its mark for a later verification. Text that people wrote never appears there. */
const MARK_IN_HTML = /<meta name="report" content="replication-runbooks-report:([\w-]+)">/;
const MARK_IN_MARKDOWN = /<!-- replication-runbooks-report:([\w-]+) -->\s*$/;

/** The mark of a report, in characters that no rendering changes; undefined if the report contains no digest. */
export function markOf({ namespace, workflowId, runId, history }: Report): string | undefined {
  const mark = history && JSON.stringify({ namespace, workflowId, runId, history });
  return mark && `replication-runbooks-report:${Buffer.from(mark).toString('base64url')}`;
}

/** The mark in a rendered report, unverified; the caller checks it. */
export function markIn(text: string): unknown {
  const [, mark] = (text.trimStart().startsWith('<') ? MARK_IN_HTML : MARK_IN_MARKDOWN).exec(text) ?? [];
  return mark === undefined ? undefined : JSON.parse(Buffer.from(mark, 'base64url').toString('utf8'));
}
