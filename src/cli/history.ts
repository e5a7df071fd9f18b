import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import { payloadConverter } from '../contracts/payload-converter';
import { RunbookError } from '../errors';

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

/** A run's Workflow ID, and its Run ID where not the newest run is meant. */
export interface RunReference {
  readonly workflowId: string;
  readonly runId?: string;
}

/** @throws RunbookError `NOT_FOUND` in place of the client's own error. */
export function asNotFound(error: unknown, { workflowId }: RunReference): unknown {
  if (!(error instanceof WorkflowNotFoundError)) return error;
  return new RunbookError('NOT_FOUND', `There is no run with the Workflow ID "${workflowId}".`, {
    next: '"runbook list" shows the runs of this namespace.',
    cause: error,
  });
}

/** All events of a run. */
export async function fetchEvents(client: Client, run: RunReference): Promise<readonly HistoryEvent[]> {
  try {
    const { events } = await client.workflow.getHandle(run.workflowId, run.runId).fetchHistory();
    return events ?? [];
  } catch (error) {
    throw asNotFound(error, run);
  }
}

/** The value of an event's one argument; what cannot be decoded becomes the marker of the converter. */
function firstValue(payloads: temporal.api.common.v1.IPayloads | null | undefined): unknown {
  const [first] = payloads?.payloads ?? [];
  return first === undefined ? undefined : payloadConverter.fromPayload<unknown>(first);
}

/** Results of the completed activities of a type, or of the types that are wanted, oldest first. */
export function activityResults(
  events: readonly HistoryEvent[],
  type: string | ((name: string) => boolean),
): unknown[] {
  const wanted = typeof type === 'string' ? (name: string) => name === type : type;
  const scheduled = new Set(
    events.flatMap((event) => {
      const attributes = event.activityTaskScheduledEventAttributes;
      return wanted(attributes?.activityType?.name ?? '') ? [String(event.eventId)] : [];
    }),
  );
  return events.flatMap((event) => {
    const attributes = event.activityTaskCompletedEventAttributes;
    return attributes && scheduled.has(String(attributes.scheduledEventId)) ? [firstValue(attributes.result)] : [];
  });
}

/** A signal as the history holds it. */
export interface SignalEvent {
  readonly eventId: string;
  /** Counts the signals of this name in this run, from 1. */
  readonly arrival: number;
  readonly input: unknown;
}

/** The signals of a name, oldest first. */
export function signalEvents(events: readonly HistoryEvent[], name: string): SignalEvent[] {
  return events
    .filter((event) => event.workflowExecutionSignaledEventAttributes?.signalName === name)
    .map((event, index) => ({
      eventId: String(event.eventId),
      arrival: index + 1,
      input: firstValue(event.workflowExecutionSignaledEventAttributes?.input),
    }));
}
