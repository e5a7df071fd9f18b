import { isDeepStrictEqual } from 'node:util';
import { getClient } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import type { Attested, Principal } from '../../src/contracts/run-facts';
import { changeWindow } from '../../src/contracts/runbook-inputs';
import { SIGNALS, UPDATES_FROM, isUndecodable } from '../../src/contracts/signals';
import type { SignalName } from '../../src/contracts/signals';
import { RunbookError, isRunbookError } from '../../src/errors';
import { firstValue, timestampMs } from '../../src/report/run-history';
import { textOf } from '../../src/report/run-record';
import type { RunContext } from '../../src/keys';
import { currentExecution } from '../execution';

type SignaledEvent = temporal.api.history.v1.IHistoryEvent;

/** A signal as the server recorded it. */
export interface ArrivedSignal {
  /** Counts the signals of this name in this run, from 1. */
  readonly arrival: number;
  /** Number of its event in the run's history. */
  readonly eventId: number;
  /** Anything at all: nobody looked at it yet. */
  readonly content: unknown;
  /** The event's time, epoch ms. */
  readonly at: number;
  /** Who sent it; undefined where the server records no senders: authentication is off, or older than 1.31. */
  readonly principal: Principal | undefined;
}

/**
 * What people sent to a run, read where it arrived: in the run's own history. So nothing that was not looked at yet is
 * copied into the input of an activity, where it would be recorded once more. Handlers get no event ID: the n-th signal
 * of a name that a run handled is the n-th event of that name in its history (rule 18).
 */
export class ArrivedSignals {
  readonly #run: RunContext;
  #events: Promise<readonly SignaledEvent[]> | undefined;

  constructor(run: RunContext) {
    this.#run = run;
  }

  /**
   * @param signal - `unknown` for those of names that no runbook knows
   * @throws RunbookError DOCUMENT_INVALID where the history holds no such signal
   */
  async of(signal: SignalName | 'unknown', arrival: number): Promise<ArrivedSignal> {
    const isUpdate = arrival > UPDATES_FROM;
    const events = await (isUpdate ? this.#updates(signal) : this.#signals(signal));
    const event = events[isUpdate ? arrival - UPDATES_FROM - 1 : arrival - 1];
    if (!event) throw noSuchSignal();
    return arrivedSignal(event, arrival);
  }

  /** Every signal of a name that is in the history now, and every update, the earliest first. */
  async every(signal: SignalName): Promise<readonly ArrivedSignal[]> {
    const signals = (await this.#signals(signal)).map((event, index) => arrivedSignal(event, index + 1));
    const updates = (await this.#updates(signal)).map((event, index) => arrivedSignal(event, UPDATES_FROM + index + 1));
    return [...signals, ...updates].toSorted((one, other) => one.at - other.at);
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

  async #signals(signal: SignalName | 'unknown'): Promise<readonly SignaledEvent[]> {
    return (await this.#all()).filter(({ workflowExecutionSignaledEventAttributes: signaled }) => {
      const name = signaled?.signalName;
      return signal === 'unknown' ? typeof name === 'string' && !KNOWN.has(name) : name === signal;
    });
  }

  /** Those that the run accepted: the others left no event. */
  async #updates(name: string): Promise<readonly SignaledEvent[]> {
    return (await this.#all()).filter((event) => updateInput(event)?.name === name);
  }

  /** The named ones, in the order of their arrival. */
  async all(signal: SignalName, arrivals: readonly number[]): Promise<readonly ArrivedSignal[]> {
    return Promise.all(arrivals.map((arrival) => this.of(signal, arrival)));
  }

  /**
   * The principal on the event of one signal whose content is known.
   *
   * @throws RunbookError DOCUMENT_INVALID where no such signal with this content is in the history
   */
  async senderOf(signal: SignalName, arrival: number, input: unknown): Promise<Principal | undefined> {
    const { content, principal } = await this.of(signal, arrival);
    if (!sameContent(content, input)) throw noSuchSignal();
    return principal;
  }

  #all(): Promise<readonly SignaledEvent[]> {
    return (this.#events ??= historyOf(getClient(), this.#run).then(({ events }) => events ?? []));
  }
}

/**
 * The history of a run, read from Temporal.
 *
 * @throws RunbookError TEMPORAL_UNAVAILABLE, which may pass: nothing was sent to any cluster
 */
export async function historyOf(
  client: Pick<Client, 'workflow'>,
  { wid, rid }: RunContext,
): Promise<temporal.api.history.v1.IHistory> {
  try {
    return await client.workflow.getHandle(wid, rid).fetchHistory();
  } catch (error) {
    throw new RunbookError('TEMPORAL_UNAVAILABLE', "The run's own history cannot be read.", {
      retryable: true,
      observed: `Temporal did not give the history of the run (${error instanceof Error ? error.name : 'no error'})`,
      needed: 'the history of the run, which says what people sent and what was begun',
      next: 'Nothing was sent to the cluster. Look at Temporal, then retry.',
    });
  }
}

/** Whether two contents of signals say the same, wherever their objects were made. */
export function sameContent(one: unknown, other: unknown): boolean {
  const plain = (content: unknown): unknown => JSON.parse(JSON.stringify(content ?? null));
  return isDeepStrictEqual(plain(one), plain(other));
}

const KNOWN: ReadonlySet<string> = new Set(Object.values(SIGNALS));

function arrivedSignal(event: SignaledEvent, arrival: number): ArrivedSignal {
  return {
    arrival,
    eventId: Number(event.eventId ?? 0),
    content: firstValue(updateInput(event)?.args ?? event.workflowExecutionSignaledEventAttributes?.input),
    at: timestampMs(event.eventTime) ?? Date.now(),
    // The event of an update is written for the worker that accepted it.
    principal: updateInput(event) ? undefined : principalOf(event),
  };
}

function updateInput(event: SignaledEvent): temporal.api.update.v1.IInput | null | undefined {
  return event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest?.input;
}

function principalOf({ principal }: SignaledEvent): Principal | undefined {
  const name = textOf(principal?.name);
  return name === undefined ? undefined : { type: textOf(principal?.type) ?? '', name };
}

function noSuchSignal(): RunbookError {
  return new RunbookError(
    'DOCUMENT_INVALID',
    'The document is refused: the history of this run holds no such signal with this content.',
  );
}

/** What becomes of something that a person sent, as its receipt says it. */
export interface Verdict {
  readonly accepted: boolean;
  readonly code: string;
  readonly text: string;
  readonly by?: Attested;
}

/** A verdict on the signal of this number. */
export interface JudgedSignal extends Verdict {
  readonly arrival: number;
}

/**
 * Judges what people sent, each where it arrived. What cannot be read, or is no valid document, is refused with the
 * reason.
 *
 * @param judge - throws RunbookError where a document does not verify
 */
export async function judgeArrived<More>(
  signals: readonly ArrivedSignal[],
  judge: (signal: ArrivedSignal) => Promise<Verdict & More>,
): Promise<(JudgedSignal & Partial<More>)[]> {
  const verdicts: (JudgedSignal & Partial<More>)[] = [];
  for (const signal of signals) {
    const { arrival, content } = signal;
    const refuse = (code: string, text: string) =>
      verdicts.push({ arrival, accepted: false, code, text } as JudgedSignal & Partial<More>);
    if (isUndecodable(content)) {
      refuse('undecodable', `the payload could not be read (encoding ${content.undecodable}); send JSON`);
      continue;
    }
    try {
      verdicts.push({ arrival, ...(await judge(signal)) });
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      refuse('refused', error.message);
    }
  }
  return verdicts;
}

/** A signal by its name and its number among those of this name; `unknown`: those of names that no runbook knows. */
export interface NumberedSignal {
  readonly signal: SignalName | 'unknown';
  readonly arrival: number;
}

/**
 * The events of signals with key shares in plain text: those that are to be purged. Nothing of what they say leaves the
 * worker.
 */
export async function readSignalEvents({ signals }: { readonly signals: readonly NumberedSignal[] }): Promise<{
  readonly events: readonly (NumberedSignal & { readonly eventId: number })[];
}> {
  const arrived = new ArrivedSignals(currentExecution().run);
  const events = signals.map(async ({ signal, arrival }) => {
    const { eventId } = await arrived.of(signal, arrival);
    return { signal, arrival, eventId };
  });
  return { events: await Promise.all(events) };
}
