import type { temporal } from '@temporalio/proto';
import type { Attested } from '../contracts/run-facts';
import type { SignalName } from '../contracts/signals';
import { isUndecodable, SIGNALS } from '../contracts/signals';
import type { ActivityRecord, FailureFacts } from './activity-records';
import { ActivityCollector, failureFacts } from './activity-records';
import type { Fields } from './history-values';
import { fieldsOf, firstValue, payloadValue, textOf, timestampMs } from './history-values';

type Event = temporal.api.history.v1.IHistoryEvent;

/** How and when a run closed. */
export interface RunClose {
  readonly how: 'completed' | 'failed' | 'terminated' | 'cancelled' | 'timed-out' | 'continued';
  readonly at: number;
  readonly result: Fields;
  readonly failure?: FailureFacts;
  /** What the person who terminated the run gave as the reason. */
  readonly reason?: string;
  readonly by?: Attested;
}

/** A signal as the server recorded it. Its input is not even decoded. */
export interface SignalRecord {
  readonly signal: SignalName | 'unknown';
  readonly arrival: number;
  readonly at: number;
  readonly sender?: Attested;
}

/** What a history says, decoded once and in the order of its events. Times are epoch milliseconds. */
export interface RunRecord {
  readonly runbook: string;
  readonly input: Fields;
  /** The encoding's name, where the start input could not be read. */
  readonly inputUndecodable?: string;
  readonly requestedBy?: Attested;
  readonly startedAt: number;
  readonly activities: readonly ActivityRecord[];
  readonly signals: readonly SignalRecord[];
  /** The memo with all upserts applied. */
  readonly memo: Fields;
  readonly close?: RunClose;
  readonly lastEventId: number;
  readonly lastEventAt: number;
  readonly eventCount: number;
}

function principalOf(event: Event): Attested | undefined {
  const name = textOf(event.principal?.name);
  return name === undefined ? undefined : { name, how: 'principal' };
}

/**
 * Who asked for the run: the principal of the start event, else what the input claims. A handed-over run is started by
 * a worker, whose principal says nothing about the person.
 */
function requesterOf(event: Event, input: Fields): Attested | undefined {
  const handedOver = Boolean(event.workflowExecutionStartedEventAttributes?.parentWorkflowExecution?.workflowId);
  const principal = handedOver ? undefined : principalOf(event);
  const claimed = textOf(input['requestedBy']);
  return principal ?? (claimed === undefined ? undefined : { name: claimed, how: 'claimed' });
}

function closeOf(event: Event): RunClose | undefined {
  const at = timestampMs(event.eventTime) ?? 0;
  const completed = event.workflowExecutionCompletedEventAttributes;
  if (completed) return { how: 'completed', at, result: fieldsOf(firstValue(completed.result)) };
  const failed = event.workflowExecutionFailedEventAttributes;
  if (failed) {
    const failure = failureFacts(failed.failure);
    return { how: 'failed', at, result: {}, ...(failure && { failure }) };
  }
  const terminated = event.workflowExecutionTerminatedEventAttributes;
  if (terminated) {
    const reason = textOf(terminated.reason);
    const by = principalOf(event);
    return { how: 'terminated', at, result: {}, ...(reason !== undefined && { reason }), ...(by && { by }) };
  }
  if (event.workflowExecutionCanceledEventAttributes) return { how: 'cancelled', at, result: {} };
  if (event.workflowExecutionTimedOutEventAttributes) return { how: 'timed-out', at, result: {} };
  if (event.workflowExecutionContinuedAsNewEventAttributes) return { how: 'continued', at, result: {} };
  return undefined;
}

type MemoFields = Readonly<Record<string, temporal.api.common.v1.IPayload>> | null | undefined;

function memoOf(fields: MemoFields): Fields {
  return Object.fromEntries(Object.entries(fields ?? {}).map(([name, payload]) => [name, payloadValue(payload)]));
}

const OWN_SIGNALS = new Set<string>(Object.values(SIGNALS));

function isOwnSignal(name: string): name is SignalName {
  return OWN_SIGNALS.has(name);
}

class SignalCollector {
  readonly records: SignalRecord[] = [];
  readonly #counts = new Map<string, number>();

  add(event: Event): void {
    const signaled = event.workflowExecutionSignaledEventAttributes;
    if (!signaled) return;
    const name = signaled.signalName ?? '';
    const signal = isOwnSignal(name) ? name : 'unknown';
    const arrival = (this.#counts.get(signal) ?? 0) + 1;
    this.#counts.set(signal, arrival);
    const sender = principalOf(event);
    this.records.push({ signal, arrival, at: timestampMs(event.eventTime) ?? 0, ...(sender && { sender }) });
  }
}

/** Decodes a history. Never throws on what events hold. */
export function readHistory(history: temporal.api.history.v1.IHistory): RunRecord {
  const events = history.events ?? [];
  const activities = new ActivityCollector();
  const signals = new SignalCollector();
  let memo: Fields = {};
  let close: RunClose | undefined;
  let start: Event = {};
  let input: unknown;
  for (const event of events) {
    const started = event.workflowExecutionStartedEventAttributes;
    if (started) {
      start = event;
      input = firstValue(started.input);
      memo = memoOf(started.memo?.fields);
    }
    const upserted = event.workflowPropertiesModifiedEventAttributes?.upsertedMemo?.fields;
    if (upserted) memo = { ...memo, ...memoOf(upserted) };
    activities.add(event);
    signals.add(event);
    close = closeOf(event) ?? close;
  }
  const last = events.at(-1);
  const startedAt = timestampMs(start.eventTime) ?? timestampMs(events[0]?.eventTime) ?? 0;
  const requestedBy = requesterOf(start, fieldsOf(input));
  return {
    runbook: textOf(start.workflowExecutionStartedEventAttributes?.workflowType?.name) ?? 'unknown',
    input: isUndecodable(input) ? {} : fieldsOf(input),
    ...(isUndecodable(input) && { inputUndecodable: input.undecodable }),
    ...(requestedBy && { requestedBy }),
    startedAt,
    activities: activities.activities(),
    signals: signals.records,
    memo,
    ...(close && { close }),
    lastEventId: Number(last?.eventId ?? events.length),
    lastEventAt: timestampMs(last?.eventTime) ?? startedAt,
    eventCount: events.length,
  };
}
