import type { temporal } from '@temporalio/proto';
import type { Principal } from '../../src/contracts/run-facts';
import { changeWindow } from '../../src/contracts/runbook-inputs';
import { SIGNALS, UPDATES_FROM, withinBounds } from '../../src/contracts/signals';
import type { SignalName } from '../../src/contracts/signals';
import { RunbookError } from '../../src/errors';
import { firstValue, timestampMs } from '../../src/report/run-history';
import { textOf } from '../../src/report/run-record';
import type { RunContext } from '../../src/keys';
import { currentExecution } from '../execution';

type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

/** A signal as the server recorded it. */
export interface ArrivedSignal {
  /** Counts the signals of this name in this run, from 1. */
  readonly arrival: number;
  /** Number of its event in the run's history. */
  readonly eventId: number;
  /** Any value: not validated yet. */
  readonly content: unknown;
  /** The event's time, epoch ms. */
  readonly at: number;
  /** Who sent it; undefined if the server records no senders: its authentication is off, or it is older than 1.31. */
  readonly principal: Principal | undefined;
}

type Numbered = readonly [arrival: number, event: HistoryEvent];

/**
 * What people sent to a run, read from the run's own history. So nothing unvalidated is copied into the input of an
 * activity, where it would be recorded once more. Handlers get no event ID: the n-th signal of a name that a run handled
 * is the n-th event of that name in its history (rule 18).
 */
export class ArrivedSignals {
  #events: Promise<readonly HistoryEvent[]> | undefined;

  /**
   * The signals of these numbers, in this order.
   *
   * @param signal - `unknown` for signals whose names no runbook knows
   * @throws RunbookError DOCUMENT_INVALID if the history contains no such signal
   */
  async of(signal: SignalName | 'unknown', arrivals: readonly number[]): Promise<readonly ArrivedSignal[]> {
    const events = new Map(await this.#named(signal));
    return arrivals.map((arrival) => {
      const event = events.get(arrival);
      if (event === undefined) throw noSuchSignal();
      return arrivedSignal([arrival, event]);
    });
  }

  /** Every signal and every update of a name that is in the history now, earliest first. */
  async every(signal: SignalName): Promise<readonly ArrivedSignal[]> {
    return (await this.#named(signal)).map(arrivedSignal).toSorted((one, other) => one.at - other.at);
  }

  /** The window that the run was started with, epoch ms. */
  async window(): Promise<{ readonly notBefore?: number; readonly notAfter?: number }> {
    const started = (await this.#all())[0]?.workflowExecutionStartedEventAttributes;
    const input = (firstValue(started?.input) ?? {}) as { readonly window?: unknown };
    const { data } = changeWindow.safeParse(input.window);
    if (!data) return {};
    const { notBefore, notAfter } = data;
    return { ...(notBefore === undefined ? {} : { notBefore: Date.parse(notBefore) }), notAfter: Date.parse(notAfter) };
  }

  /** When the server recorded the newest event, epoch ms. */
  async newest(): Promise<number> {
    return timestampMs((await this.#all()).at(-1)?.eventTime) ?? 0;
  }

  async #named(wanted: SignalName | 'unknown'): Promise<readonly Numbered[]> {
    const events = await this.#all();
    const signals = events.filter(({ workflowExecutionSignaledEventAttributes: signaled }) => {
      const name = signaled?.signalName;
      return wanted === 'unknown' ? typeof name === 'string' && !KNOWN.has(name) : name === wanted;
    });
    // Only updates that the run accepted: the others leave no event.
    const updates = events.filter((event) => updateInput(event)?.name === wanted);
    return [...numbered(signals, 0), ...numbered(updates, UPDATES_FROM)];
  }

  #all(): Promise<readonly HistoryEvent[]> {
    return (this.#events ??= ownHistory().then(({ events }) => events ?? []));
  }
}

const KNOWN: ReadonlySet<string> = new Set(Object.values(SIGNALS));

function numbered(events: readonly HistoryEvent[], from: number): Numbered[] {
  return events.map((event, index) => [from + index + 1, event]);
}

/**
 * The history of this activity's run, read from Temporal.
 *
 * @throws RunbookError TEMPORAL_UNAVAILABLE, which is retryable: nothing was sent to any cluster
 */
export async function ownHistory(): Promise<temporal.api.history.v1.IHistory> {
  const { temporal, run } = currentExecution();
  try {
    return await temporal.workflow.getHandle(run.wid, run.rid).fetchHistory();
  } catch (error) {
    throw new RunbookError('TEMPORAL_UNAVAILABLE', "The run's own history cannot be read.", {
      retryable: true,
      observed: `Temporal did not return the history of the run (${error instanceof Error ? error.name : 'no error'})`,
      needed: 'the history of the run, which shows what people sent and what was started',
      next: 'Nothing was sent to the cluster. Check Temporal, then retry.',
    });
  }
}

/** The first event of a run: how it was started, and by whom. Undefined if the server does not return it. */
export async function startOf({ ns: namespace, wid, rid }: RunContext): Promise<HistoryEvent | undefined> {
  const { connection } = currentExecution().temporal;
  const { history } = await connection.workflowService.getWorkflowExecutionHistory({
    namespace,
    execution: { workflowId: wid, runId: rid },
    maximumPageSize: 1,
  });
  return history?.events?.[0];
}

function arrivedSignal([arrival, event]: Numbered): ArrivedSignal {
  const update = updateInput(event);
  const sent = update?.args ?? event.workflowExecutionSignaledEventAttributes?.input;
  return {
    arrival,
    eventId: Number(event.eventId ?? 0),
    content: firstValue({ payloads: withinBounds(sent?.payloads ?? []) }),
    at: timestampMs(event.eventTime) ?? Date.now(),
    // The event of an update is written for the worker that accepted it.
    principal: update ? undefined : principalOf(event),
  };
}

function updateInput(event: HistoryEvent): temporal.api.update.v1.IInput | null | undefined {
  return event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest?.input;
}

function principalOf({ principal }: HistoryEvent): Principal | undefined {
  const name = textOf(principal?.name);
  return name === undefined ? undefined : { type: textOf(principal?.type) ?? '', name };
}

/** The refusal of a document that is not in the history of this run. */
function noSuchSignal(): RunbookError {
  return new RunbookError(
    'DOCUMENT_INVALID',
    'The document is refused: the history of this run contains no such signal with this content.',
  );
}

/** A signal, by its name and its number among those of that name; `unknown`: signals whose names no runbook knows. */
interface NumberedSignal {
  readonly signal: SignalName | 'unknown';
  readonly arrival: number;
}

/**
 * The events of signals with key shares in plain text, which must be purged. Nothing of their content leaves the worker.
 */
export async function readSignalEvents({ signals }: { readonly signals: readonly NumberedSignal[] }) {
  const arrived = new ArrivedSignals();
  const events = signals.map(async ({ signal, arrival }) => {
    const [{ eventId } = { eventId: 0 }] = await arrived.of(signal, [arrival]);
    return { signal, arrival, eventId };
  });
  return { events: await Promise.all(events) };
}
