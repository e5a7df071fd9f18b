import { defaultPayloadConverter } from '@temporalio/common';
import type { temporal } from '@temporalio/proto';
import type { RunFact } from '../../../src/contracts/run-facts';

type Payload = temporal.api.common.v1.IPayload;

/** All times of these tests are milliseconds after this one. */
export const START = Date.parse('2026-11-21T01:00:00.000Z');

export interface FailureSpecification {
  readonly code: string;
  readonly message: string;
  readonly details?: unknown;
}

/** One activity as a test describes it; without `endedAt` it still runs. */
export interface ActivitySpecification {
  readonly type: string;
  readonly step?: { readonly name: string; readonly number: number; readonly attempt?: number };
  readonly input?: object;
  readonly facts?: readonly RunFact[];
  readonly scheduledAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  readonly tries?: number;
  readonly lastFailure?: 'heartbeat' | 'application';
  readonly result?: unknown;
  readonly failure?: FailureSpecification;
  readonly timedOut?: { readonly type: number; readonly lastFailure?: FailureSpecification };
  readonly cancelled?: boolean;
}

/** An event with plain numbers where the client has Long: the reader takes both. */
type WrittenEvent = Readonly<Record<string, unknown>>;

interface Entry {
  /** When the event enters the history, and what its time says: a start is written when the activity closes. */
  readonly writtenAt: number;
  readonly at: number;
  readonly event: (idOf: (key: object) => number) => WrittenEvent;
  readonly key: object;
}

function payload(value: unknown): Payload {
  return defaultPayloadConverter.toPayload(value);
}

const payloads = (value: unknown) => ({ payloads: [payload(value)] });

/** A payload that no converter reads. */
export function undecodablePayload(encoding: string, content: string): Payload {
  return { metadata: { encoding: Buffer.from(encoding) }, data: Buffer.from(content) };
}

function applicationFailure({ code, message, details }: FailureSpecification): temporal.api.failure.v1.IFailure {
  return {
    message,
    applicationFailureInfo: { type: code, ...(details !== undefined && { details: payloads(details) }) },
  };
}

function timestamp(at: number) {
  const absolute = START + at;
  return { seconds: Math.floor(absolute / 1000), nanos: (absolute % 1000) * 1e6 };
}

/** Builds histories in the shape in which the client hands them out, from what happened when. */
export class HistoryBuilder {
  readonly #entries: Entry[] = [];

  #add(at: number, event: (idOf: (key: object) => number) => WrittenEvent, key: object = {}, writtenAt = at): this {
    this.#entries.push({ writtenAt, at, event, key });
    return this;
  }

  started(
    workflowType: string,
    input: unknown,
    options: { readonly principal?: string; readonly inputPayload?: Payload; readonly parent?: string } = {},
  ): this {
    return this.#add(0, () => ({
      ...(options.principal !== undefined && { principal: { type: 'jwt', name: options.principal } }),
      workflowExecutionStartedEventAttributes: {
        workflowType: { name: workflowType },
        input: { payloads: [options.inputPayload ?? payload(input)] },
        identity: '17@host',
        ...(options.parent !== undefined && { parentWorkflowExecution: { workflowId: options.parent } }),
      },
    }));
  }

  activity(specification: ActivitySpecification): this {
    const { type, step, input, facts, scheduledAt, endedAt, tries, lastFailure, result, failure } = specification;
    const key = {};
    const told = { attempt: 1, originalRunId: 'run', ...step, ...(facts && { facts }) };
    const scheduled = {
      activityType: { name: type },
      input: payloads(input ?? {}),
      ...(step && { header: { fields: { step: payload(told) } } }),
    };
    this.#add(scheduledAt, () => ({ activityTaskScheduledEventAttributes: scheduled }), key);
    if (endedAt === undefined) return this;
    const startedAt = specification.startedAt ?? scheduledAt + 5;
    this.#add(
      startedAt,
      (idOf) => ({
        activityTaskStartedEventAttributes: {
          scheduledEventId: idOf(key),
          attempt: tries ?? 1,
          ...(lastFailure === 'heartbeat' && {
            lastFailure: { message: 'lost', timeoutFailureInfo: { timeoutType: 4 } },
          }),
          ...(lastFailure === 'application' && {
            lastFailure: applicationFailure({ code: 'SERVICE_UNAVAILABLE', message: 'restarting' }),
          }),
        },
      }),
      {},
      endedAt,
    );
    return this.#add(endedAt, (idOf) => {
      const scheduledEventId = idOf(key);
      if (failure)
        return { activityTaskFailedEventAttributes: { scheduledEventId, failure: applicationFailure(failure) } };
      if (specification.timedOut) {
        const { type: timeoutType, lastFailure: cause } = specification.timedOut;
        const timeout = { timeoutFailureInfo: { timeoutType }, ...(cause && { cause: applicationFailure(cause) }) };
        return { activityTaskTimedOutEventAttributes: { scheduledEventId, failure: timeout } };
      }
      if (specification.cancelled) return { activityTaskCanceledEventAttributes: { scheduledEventId } };
      return { activityTaskCompletedEventAttributes: { scheduledEventId, result: payloads(result ?? {}) } };
    });
  }

  /** An activity that judges signals: it belongs to no step. */
  judgement(type: string, at: number, result: unknown): this {
    return this.activity({ type, scheduledAt: at - 10, endedAt: at, result });
  }

  signal(
    name: string,
    at: number,
    input: unknown,
    options: { readonly principal?: string; readonly inputPayload?: Payload } = {},
  ): this {
    return this.#add(at, () => ({
      ...(options.principal !== undefined && { principal: { type: 'jwt', name: options.principal } }),
      workflowExecutionSignaledEventAttributes: {
        signalName: name,
        input: { payloads: [options.inputPayload ?? payload(input)] },
        identity: 'somebody@somewhere',
      },
    }));
  }

  memo(at: number, memo: Readonly<Record<string, unknown>>): this {
    const fields = Object.fromEntries(Object.entries(memo).map(([name, value]) => [name, payload(value)]));
    return this.#add(at, () => ({ workflowPropertiesModifiedEventAttributes: { upsertedMemo: { fields } } }));
  }

  completed(at: number, result: unknown): this {
    return this.#add(at, () => ({ workflowExecutionCompletedEventAttributes: { result: payloads(result) } }));
  }

  failed(at: number, failure: FailureSpecification): this {
    return this.#add(at, () => ({ workflowExecutionFailedEventAttributes: { failure: applicationFailure(failure) } }));
  }

  terminated(at: number, reason: string, principal?: string): this {
    return this.#add(at, () => ({
      ...(principal !== undefined && { principal: { type: 'jwt', name: principal } }),
      workflowExecutionTerminatedEventAttributes: { reason, identity: 'somebody@somewhere' },
    }));
  }

  /** The history; with `until`, as it was at that time: what closed later still runs. */
  build(until = Infinity): temporal.api.history.v1.IHistory {
    const entries = this.#entries
      .filter(({ writtenAt }) => writtenAt <= until)
      .toSorted((one, other) => one.writtenAt - other.writtenAt);
    const ids = new Map(entries.map(({ key }, index) => [key, index + 1]));
    const idOf = (key: object): number => ids.get(key) ?? 0;
    const events = entries.map(({ at, event }, index) => ({
      eventId: index + 1,
      eventTime: timestamp(at),
      ...event(idOf),
    }));
    return { events } as unknown as temporal.api.history.v1.IHistory;
  }

  /** The times at which something was written, in order. */
  times(): readonly number[] {
    return [...new Set(this.#entries.map(({ writtenAt }) => writtenAt))].toSorted((one, other) => one - other);
  }
}
