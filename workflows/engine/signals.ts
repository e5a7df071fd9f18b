import { condition, defineSignal, defineUpdate, setDefaultSignalHandler, setHandler } from '@temporalio/workflow';
import { plainSecretIn } from '../../src/contracts/plain-shares';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { Finding } from '../../src/contracts/run-facts';
import {
  MANY_SIGNALS,
  SEND_AGAIN,
  SIGNALS,
  UPDATES,
  UPDATES_FROM,
  nameIn,
  unwrapDocument,
} from '../../src/contracts/signals';
import type { InboxItem, SignalName, UpdateName } from '../../src/contracts/signals';
import { inParallel } from './failures';
import { Allowance, Backlog, WINDOW_MS } from './flood';
import { refusePlainShares, refuseShares } from './verdicts';
import type { RunState } from './run-state';

/** Unknown signals that get their own receipt. The others are only counted. */
const UNKNOWN_RECEIPTS = 50;
/** Signals of one kind whose names are read: more than deploy/dynamic-config.yaml lets the server take. */
const NAMES_READ = 2_500;
/** Unknown signals that are searched for shares in plain text. */
const UNKNOWN_SEARCHED = 200;
const MAX_UPDATE = 16 * 1024;

const DESCRIPTIONS: Record<SignalName, string> = {
  share:
    "A key holder gives the envelope that `runbook share --print`, or the holder's page, made. Never a key share in plain text.",
  approve: 'An approver approves or rejects a gate: the output of `runbook approve --print`.',
  decide: 'An operator decides what happens with a parked step: the output of `runbook decide --print`.',
  pause: 'Pause the run before its next step: the output of `runbook pause --print`.',
  resume: 'Let a paused run continue: the output of `runbook resume --print`.',
  takeOver: 'A failover takes this run over: the output of `runbook start drFailover --take-over --print`.',
  abort: 'End the run at its next safe point and clean up: the output of `runbook abort --print`.',
};

const NEXT_IN_FLOOD =
  'Find out who sends them, and take away their right to signal. `runbook approve` and `runbook decide` switch to updates on their own.';

/** Kinds of what waits: by signal name; with an unknown name; a seeming key share in plain text, without its content. */
type Kind = SignalName | 'unknown' | 'plain';
type Processor = (items: readonly InboxItem[]) => Promise<void>;

/** Checked in parallel: their checks take different time, and none may delay a decision inside an outage. */
const LANES: readonly (readonly Kind[])[] = [
  ['share'],
  ['approve'],
  ['decide'],
  ['pause', 'resume', 'abort', 'takeOver', 'unknown'],
  ['plain'],
];

/**
 * What arrives by signal and update. Handlers only append, because one that throws fails the whole run. The pump, started before
 * the first await of the runbook, passes each signal to the processor of its name.
 */
export class Signals {
  /** By kind, so that asking whether something waits costs nothing. It is asked again after each signal of a flood. */
  readonly #waiting = new Map<Kind, InboxItem[]>();
  readonly #processors = new Map<Kind, Processor>();
  /** Processors of names that have no other processor. */
  readonly #otherwise = new Map<Kind, Processor>();
  readonly #allowance = new Allowance();
  /** What arrived faster than the run looks at it, by signal name. */
  readonly #backlogs = new Map<SignalName, Backlog>();
  /** Signals of each name that are not checked, because more arrived than a run checks. */
  readonly #unread = new Map<InboxItem['signal'], number>();
  /** Findings about floods. A handler only notes them, and the pump reports them at once. */
  readonly #floodFindings: Finding[] = [];
  readonly #arrivals = new Map<Kind, number>();
  readonly #updates = new Map<UpdateName, number>();
  #total = 0;
  #closing = false;

  /** Registers every handler. The default one comes last, because it would swallow signals that came before the first task. */
  registerHandlers(): void {
    for (const name of Object.values(SIGNALS)) {
      setHandler(defineSignal<[unknown]>(name), (input: unknown) => this.#append(name, input), {
        description: DESCRIPTIONS[name],
      });
    }
    for (const name of UPDATES) {
      setHandler(defineUpdate<number, [unknown]>(name), (input: unknown) => this.#appendUpdate(name, input), {
        validator: (input: unknown) => this.#refuseUpdate(name, input),
        description: `Like the signal ${name}, for a run to which the server accepts no more signals. Returns its number.`,
      });
    }
    setDefaultSignalHandler((name: string, ...args: unknown[]) => this.#appendUnknown(name, args));
  }

  /** Sets the processor for the signals of a name. Approvals without a processor wait. */
  on(name: SignalName, processor: Processor | undefined): void {
    if (processor) this.#processors.set(name, processor);
    else this.#processors.delete(name);
  }

  /** Removes and returns all items of one kind. */
  take(kind: Kind): readonly InboxItem[] {
    const taken = this.#waiting.get(kind) ?? [];
    this.#waiting.delete(kind);
    return taken;
  }

  /** Processes every signal until {@link close}. */
  async pump(state: RunState): Promise<void> {
    this.#otherwise.set('share', (items) => refuseShares(state, items));
    this.#otherwise.set('plain', (items) => refusePlainShares(state, items));
    this.#otherwise.set('unknown', async (items) => {
      for (const { arrival, input } of items) {
        const text = `no runbook has a signal ${String(input)}`;
        state.receipt({ signal: 'unknown', arrival, verdict: 'refused', code: 'unknown-signal', text });
      }
    });
    await inParallel([
      this.#reportFloods(state),
      this.#lookAtBacklogs(),
      ...LANES.map((lane) => this.#pumpLane(state, lane)),
    ]);
  }

  /** Everything that still waits gets a receipt, and the pump ends. */
  close(state: RunState): void {
    this.on('approve', async (items) => {
      for (const { arrival } of items) {
        const text = 'no gate waits for an approval any more';
        state.receipt({ signal: 'approve', arrival, verdict: 'refused', code: 'no-gate-open', text });
      }
    });
    for (const [name, backlog] of this.#backlogs) this.#leaveUnread(name, backlog.clear());
    const unread = [...this.#unread].map(([name, count]) => `${count} ${name}`);
    if (unread.length > 0) {
      state.finding({
        severity: 'warning',
        code: 'signals-not-looked-at',
        text: `Signals that this run refused unread: ${unread.join(', ')}.`,
        next: NEXT_IN_FLOOD,
      });
    }
    this.#closing = true;
  }

  /** What arrived while the report was written is not in it. The status of the ended run shows what became of it. */
  refuseLate(state: RunState): void {
    for (const { signal, arrival } of [...this.#waiting.keys()].flatMap((kind) => this.take(kind))) {
      const text = 'refused: the run has ended';
      state.receipt({ signal, arrival, verdict: 'refused', code: 'run-ended', text });
    }
    state.show();
  }

  async #pumpLane(state: RunState, lane: readonly Kind[]): Promise<void> {
    const processorOf = (kind: Kind) => this.#processors.get(kind) ?? this.#otherwise.get(kind);
    const waits = () => lane.some((kind) => this.#waiting.has(kind) && processorOf(kind) !== undefined);
    for (;;) {
      await condition(() => waits() || this.#closing);
      if (!waits()) return;
      for (const kind of lane) {
        // Asked only now: while another signal was processed, a ceremony or a gate may have ended.
        const processor = processorOf(kind);
        const items = processor ? this.take(kind) : [];
        if (processor && items.length > 0) await processor(items);
      }
      state.show();
    }
  }

  async #reportFloods(state: RunState): Promise<void> {
    for (;;) {
      await condition(() => this.#floodFindings.length > 0 || this.#closing);
      const finding = this.#floodFindings.shift();
      if (!finding) return;
      if (finding.severity === 'critical') state.alarm(finding);
      else state.finding(finding);
    }
  }

  /** A timer runs only while something waits: a run that nobody floods has none of its events. */
  async #lookAtBacklogs(): Promise<void> {
    const isOver = () => this.#closing;
    for (;;) {
      await condition(() => isOver() || [...this.#backlogs.values()].some(({ isEmpty }) => !isEmpty));
      if (isOver() || (await condition(isOver, WINDOW_MS, { summary: 'look at further messages of a flood' }))) return;
      for (const [signal, backlog] of this.#backlogs)
        for (const { arrival, input, receivedAt } of backlog.take()) this.#lookAt(signal, arrival, input, receivedAt);
    }
  }

  #append(signal: SignalName, input: unknown): void {
    const arrival = this.#count(signal);
    // The name is a claim here. It only limits how many signals are checked, so that one person's flood leaves room for the others.
    const name = arrival > NAMES_READ ? '' : (nameIn(input) ?? '');
    if (this.#allowance.has(signal, name, false)) {
      this.#allowance.count(signal, name);
      this.#lookAt(signal, arrival, input);
      return;
    }
    const backlog = this.#backlogs.get(signal);
    if (!backlog)
      this.#floodFindings.push({
        severity: 'warning',
        code: 'too-many-signals',
        text: `More signals ${signal} arrived than this run checks at once, in total or in one person's name. From now on it looks at 20 every nine seconds: as many in each name, the newest and the first ones.`,
        next: NEXT_IN_FLOOD,
      });
    const waiting = backlog ?? new Backlog();
    this.#backlogs.set(signal, waiting);
    this.#leaveUnread(signal, waiting.add({ signal, arrival, receivedAt: Date.now(), input, name }));
  }

  #lookAt(signal: SignalName, arrival: number, input: unknown, receivedAt = Date.now()): void {
    // What is sent as a share has its own checks, which know envelopes.
    const plain = signal === 'share' ? undefined : plainSecretIn(input);
    // Of a plain secret, only its kind is kept.
    this.#put(plain ? 'plain' : signal, signal, arrival, plain ?? input, receivedAt);
  }

  /** A name is shown if it looks like a typo. Anything else could be somebody's secret. */
  #appendUnknown(name: string, args: readonly unknown[]): void {
    const arrival = this.#count('unknown');
    const plain = arrival > UNKNOWN_SEARCHED ? undefined : plainSecretIn([name, args]);
    if (arrival > UNKNOWN_SEARCHED) this.#leaveUnread('unknown');
    else if (plain) this.#put('plain', 'unknown', arrival, plain);
    else if (arrival > UNKNOWN_RECEIPTS) this.#leaveUnread('unknown');
    else this.#put('unknown', 'unknown', arrival, /^[A-Za-z][A-Za-z-]{0,24}$/.test(name) ? name : '(not shown)');
  }

  #leaveUnread(signal: InboxItem['signal'], count = 1): void {
    if (count > 0) this.#unread.set(signal, (this.#unread.get(signal) ?? 0) + count);
  }

  /** A refused update leaves no event. So malformed and excessive updates cost the run nothing. */
  #refuseUpdate(name: UpdateName, input: unknown): void {
    const document = unwrapDocument(input);
    const size = typeof document === 'string' ? document.length : (JSON.stringify(document) ?? '').length;
    if (size > MAX_UPDATE) throw new TypeError('refused: larger than 16 KiB');
    const by = nameIn(input);
    if (by === undefined) throw new TypeError(`refused: not a document made by \`runbook ${name}\``);
    const plain = plainSecretIn(input);
    if (plain) throw new TypeError(ENVELOPE_VERDICTS[plain]);
    if (!this.#allowance.has(`update ${name}`, by, true))
      throw new TypeError(`refused: this run has checked its maximum, in total or in this name; ${SEND_AGAIN}`);
  }

  #appendUpdate(signal: UpdateName, input: unknown): number {
    // Not in the validator, which a replay does not run.
    this.#allowance.count(`update ${signal}`, nameIn(input) ?? '');
    const arrival = Math.max(UPDATES_FROM, this.#updates.get(signal) ?? 0) + 1;
    this.#updates.set(signal, arrival);
    this.#put(signal, signal, arrival, input);
    return arrival;
  }

  /** @returns the number of the signal among those of its name */
  #count(signal: InboxItem['signal']): number {
    const arrival = (this.#arrivals.get(signal) ?? 0) + 1;
    this.#arrivals.set(signal, arrival);
    this.#total += 1;
    if (this.#total === MANY_SIGNALS)
      this.#floodFindings.push({
        severity: 'critical',
        code: 'signal-flood',
        text: `This run received ${MANY_SIGNALS} signals. The server accepts 2,000 (10,000 without deploy/dynamic-config.yaml) and refuses every further one, even from people whom the run waits for.`,
        next: NEXT_IN_FLOOD,
      });
    return arrival;
  }

  #put(kind: Kind, signal: InboxItem['signal'], arrival: number, input?: unknown, receivedAt = Date.now()): void {
    const item = { signal, arrival, receivedAt, input };
    const waiting = this.#waiting.get(kind);
    if (waiting) waiting.push(item);
    else this.#waiting.set(kind, [item]);
  }
}
