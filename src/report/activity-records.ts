import type { temporal } from '@temporalio/proto';
import type { ReplicationKind } from '../contracts/runbook-inputs';
import { ERROR_CODES } from '../errors';
import type { Fields } from './history-values';
import { fieldsOf, firstValue, listOf, numberOf, payloadValue, textOf, timestampMs } from './history-values';

type Failure = temporal.api.failure.v1.IFailure;
type Event = temporal.api.history.v1.IHistoryEvent;

/** Why an activity or a run failed, as far as it may be shown. */
export interface FailureFacts {
  /** A code of the error family, or the name of what happened. */
  readonly code: string;
  readonly message: string;
  /** Whether it is certain that the call had no effect, or that its effect is known. */
  readonly outcomeKnown: boolean;
}

/** The step that an activity served. */
export interface StepPosition {
  readonly name: string;
  readonly number: number;
  readonly attempt: number;
}

/** One activity from its events. Times are epoch milliseconds of the server's clock. */
export interface ActivityRecord {
  readonly type: string;
  readonly scheduledEventId: number;
  readonly input: Fields;
  readonly step?: StepPosition;
  /** Facts of the run since the activity before. */
  readonly facts: readonly unknown[];
  readonly scheduledAt: number;
  /** When the last attempt began; the history holds it only once the activity is closed. */
  readonly startedAt?: number;
  readonly closedAt?: number;
  readonly state: 'running' | 'completed' | 'failed' | 'cancelled';
  /** Attempts that Temporal made. */
  readonly tries: number;
  /** Whether the attempt before the last one ended because its worker was lost, not because the service failed. */
  readonly workerLost: boolean;
  readonly result: Fields;
  readonly failure?: FailureFacts;
}

const TIMEOUT_NAMES = [
  'TIMEOUT',
  'START_TO_CLOSE_TIMEOUT',
  'SCHEDULE_TO_START_TIMEOUT',
  'SCHEDULE_TO_CLOSE_TIMEOUT',
  'HEARTBEAT_TIMEOUT',
];
const HEARTBEAT_TIMEOUT = 4;
const START_TO_CLOSE_TIMEOUT = 1;

function timeoutType(failure: Failure): number | undefined {
  const type: unknown = failure.timeoutFailureInfo?.timeoutType;
  if (typeof type === 'number') return type;
  const named = TIMEOUT_NAMES.findIndex(
    (name) => typeof type === 'string' && type.endsWith(`TIMEOUT_TYPE_${name.replace(/_TIMEOUT$/, '')}`),
  );
  return failure.timeoutFailureInfo ? Math.max(named, 0) : undefined;
}

function outcomeKnownByDefault(code: string): boolean {
  return Object.hasOwn(ERROR_CODES, code) && ERROR_CODES[code as keyof typeof ERROR_CODES].outcomeKnown;
}

const WITHHELD = 'not one of this program’s errors; its message stays in the history';

/**
 * What may be shown of an error. Only messages of our own codes, which are upper case, are known to be redacted: a
 * parser's message, for one, quotes what it parsed. Of any other error the name alone is shown.
 */
export function shownError(code: string, message: string): { readonly code: string; readonly message: string } {
  if (/^[A-Z][A-Z0-9_]{2,59}$/.test(code)) return { code, message };
  return { code: /^[A-Za-z][A-Za-z0-9_]{0,59}$/.test(code) ? code : 'Error', message: WITHHELD };
}

/** The facts of a failure as Temporal recorded it. */
export function failureFacts(failure: Failure | null | undefined): FailureFacts | undefined {
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
  const timeout = timeoutType(failure);
  if (timeout !== undefined) {
    const last = failureFacts(failure.cause);
    const name = TIMEOUT_NAMES[timeout] ?? 'TIMEOUT';
    return {
      code: name,
      message: last
        ? `the time allowed is over; the last try ended with ${last.code}: ${last.message}`
        : 'the time allowed is over',
      outcomeKnown: name === 'SCHEDULE_TO_START_TIMEOUT' && last === undefined,
    };
  }
  if (failure.canceledFailureInfo) return { code: 'CANCELLED', message: 'cancelled', outcomeKnown: false };
  if (failure.terminatedFailureInfo) return { code: 'TERMINATED', message: 'terminated', outcomeKnown: false };
  return failureFacts(failure.cause) ?? { code: 'Error', message: 'a failure without a type', outcomeKnown: false };
}

function stepPosition(step: Fields): StepPosition | undefined {
  const name = textOf(step['name']);
  const number = numberOf(step['number']);
  return name === undefined || number === undefined
    ? undefined
    : { name, number, attempt: numberOf(step['attempt']) ?? 1 };
}

interface OpenRecord {
  record: ActivityRecord;
}

/** Collects activities from the events of one history, in the order in which they were scheduled. */
export class ActivityCollector {
  readonly #byScheduledId = new Map<number, OpenRecord>();

  /** Takes what the event says of an activity; ignores every other event. */
  add(event: Event): void {
    const at = timestampMs(event.eventTime) ?? 0;
    const scheduled = event.activityTaskScheduledEventAttributes;
    if (scheduled) {
      const input = fieldsOf(firstValue(scheduled.input));
      const scheduledEventId = Number(event.eventId ?? 0);
      const header = scheduled.header?.fields?.['step'];
      const told = fieldsOf(header && payloadValue(header));
      const step = stepPosition(told);
      this.#byScheduledId.set(scheduledEventId, {
        record: {
          type: scheduled.activityType?.name ?? 'unknown',
          scheduledEventId,
          input,
          ...(step && { step }),
          facts: listOf(told['facts']),
          scheduledAt: at,
          state: 'running',
          tries: 1,
          workerLost: false,
          result: {},
        },
      });
      return;
    }
    const started = event.activityTaskStartedEventAttributes;
    if (started) {
      const last = started.lastFailure ? timeoutType(started.lastFailure) : undefined;
      this.#update(started.scheduledEventId, {
        startedAt: at,
        tries: Math.max(1, started.attempt ?? 1),
        workerLost: last === HEARTBEAT_TIMEOUT || last === START_TO_CLOSE_TIMEOUT,
      });
      return;
    }
    const completed = event.activityTaskCompletedEventAttributes;
    if (completed) {
      this.#update(completed.scheduledEventId, {
        closedAt: at,
        state: 'completed',
        result: fieldsOf(firstValue(completed.result)),
      });
      return;
    }
    const failed = event.activityTaskFailedEventAttributes ?? event.activityTaskTimedOutEventAttributes;
    if (failed) {
      const failure = failureFacts(failed.failure);
      this.#update(failed.scheduledEventId, { closedAt: at, state: 'failed', ...(failure && { failure }) });
      return;
    }
    const cancelled = event.activityTaskCanceledEventAttributes;
    if (cancelled) this.#update(cancelled.scheduledEventId, { closedAt: at, state: 'cancelled' });
  }

  #update(scheduledEventId: unknown, change: Partial<ActivityRecord>): void {
    const open = this.#byScheduledId.get(Number(scheduledEventId));
    if (open) open.record = { ...open.record, ...change };
  }

  activities(): readonly ActivityRecord[] {
    return [...this.#byScheduledId.values()].map(({ record }) => record);
  }
}

/** The kind of replication that an activity was told. */
export function kindOf({ input }: Pick<ActivityRecord, 'input'>): ReplicationKind {
  return input['kind'] === 'performance' ? 'performance' : 'dr';
}

/** When an activity began, as far as the history tells. */
export function beganAt(activity: ActivityRecord): number {
  return activity.tries > 1 ? activity.scheduledAt : (activity.startedAt ?? activity.scheduledAt);
}
