import { defineSignal, defineUpdate, setDefaultSignalHandler, setHandler } from '@temporalio/workflow';
import type { NumberedSignal } from '../../activities/approvals/arrived-signals';
import { holdsKeyShare, textHoldsKeyShare } from '../../src/contracts/plain-shares';
import type { SignalRecord } from '../../src/report/run-record';
import { SIGNALS, UPDATES, UPDATES_FROM, nameIn, unwrapDocument } from '../../src/contracts/signals';
import type { InboxItem, SignalName, UpdateName } from '../../src/contracts/signals';

/** Unknown signals that get a receipt of their own; the rest is only counted. */
const UNKNOWN_RECEIPTS = 50;
/**
 * Signals of one name that are looked at in a run, and of these with one person's name on them, as far as it was read for
 * that; the rest is only counted. A turn of the run must stay short, also where it replays 10,000 signals.
 */
const LOOKED_AT = { perSignal: 200, perName: 40, namesRead: 1_000 };
/** One more in so many ms: a run hears people again once nobody floods it any more. */
const ONE_MORE_MS = 5 * 60_000;
const MAX_UPDATE = 16 * 1024;
const SIGNALS_KEPT = 1_000;
/** The server takes 10,000 signals for a run: people are warned at a fifth. */
const MANY_SIGNALS = 2_000;

const DESCRIPTIONS: Record<SignalName, string> = {
  share:
    "A key holder gives the envelope that `runbook share --print`, or the holder's page, made. Never a key share in plain text.",
  approve:
    'An approver approves or rejects a gate: what `runbook approve --print` printed; or the JSON object of the current details, where the inventory lets you claim who you are.',
  decide:
    'An operator decides what happens with a parked step: what `runbook decide --print` printed; or the JSON object of the current details, where the inventory lets you claim who you are.',
  pause: 'Hold the run before its next step: what `runbook pause --print` printed.',
  resume: 'Let a paused run go on: what `runbook resume --print` printed.',
  takeOver: 'A failover takes this run over: what `runbook start drFailover --take-over --print` printed.',
  decline: 'A key holder cannot give a share now: what `runbook decline --print` printed. Stand-by holders are asked.',
  abort: 'End the run at its next safe point and clean up: what `runbook abort --print` printed.',
};

/**
 * What arrived by signal and was not looked at yet. Handlers only append: they never await and never throw, because a
 * throwing handler fails the whole run.
 */
export class SignalInbox {
  /** By name, so that asking whether something waits costs nothing: after each signal of a flood it is asked again. */
  readonly #waiting = new Map<SignalName, InboxItem[]>();
  readonly #since = Date.now();
  readonly #lookedAt = new Map<string, number>();
  readonly #beyond = new Map<SignalName, number>();
  readonly #updates = new Map<UpdateName, number>();
  #total = 0;
  #unknown: { readonly name: string; readonly arrival: number }[] = [];
  #unknownCount = 0;
  #plain: NumberedSignal[] = [];
  /** The first ones of a flood, for the report: it must stay small enough to be a result. */
  readonly came: SignalRecord[] = [];
  readonly #arrivals = new Map<SignalName, number>();

  /** Registers every handler; the default one last, since it would swallow signals that came before the first task. */
  registerHandlers(): void {
    for (const name of Object.values(SIGNALS)) {
      setHandler(defineSignal<[unknown]>(name), (input: unknown) => this.#append(name, input), {
        description: DESCRIPTIONS[name],
      });
    }
    for (const name of UPDATES) {
      setHandler(defineUpdate<number, [unknown]>(name), (input: unknown) => this.#appendUpdate(name, input), {
        validator: (input: unknown) => this.#refuseUpdate(name, input),
        description: `As the signal ${name}, where the server takes no signal any more. Gives its number.`,
      });
    }
    setDefaultSignalHandler((name: string, ...args: unknown[]) => this.#appendUnknown(name, args));
  }

  /** Whether a signal of this name waits to be looked at. */
  holds(name: SignalName): boolean {
    return this.#waiting.has(name);
  }

  /** Removes and gives all items of one name. */
  take(name: SignalName): InboxItem[] {
    const taken = this.#waiting.get(name) ?? [];
    this.#waiting.delete(name);
    return taken;
  }

  /** Removes and gives everything of a known name. */
  takeAll(): InboxItem[] {
    return [...this.#waiting.keys()].flatMap((name) => this.take(name));
  }

  /** Signals of each name that nobody looks at, because more came than a run looks at. */
  get beyond(): ReadonlyMap<SignalName, number> {
    return this.#beyond;
  }

  /** How many signals came, where that is a fifth or more of what the server takes for one run. */
  get flood(): number | undefined {
    return this.#total < MANY_SIGNALS ? undefined : this.#total;
  }

  get unknownWaits(): boolean {
    return this.#unknown.length > 0;
  }

  /** Whether signals came that seem to hold a key share in plain text. */
  get plainWaits(): boolean {
    return this.#plain.length > 0;
  }

  /** Removes and gives the signals that seem to hold a key share in plain text: nobody else ever sees what they hold. */
  takePlain(): readonly NumberedSignal[] {
    const taken = this.#plain;
    this.#plain = [];
    return taken;
  }

  /** How many unknown signals came beyond those that get a receipt. */
  get unknownWithoutReceipt(): number {
    return Math.max(0, this.#unknownCount - UNKNOWN_RECEIPTS);
  }

  /** Removes and gives the unknown signals that are due a receipt. */
  takeUnknown(): { readonly name: string; readonly arrival: number }[] {
    const taken = this.#unknown;
    this.#unknown = [];
    return taken;
  }

  #append(signal: SignalName, input: unknown): void {
    const arrival = (this.#arrivals.get(signal) ?? 0) + 1;
    this.#arrivals.set(signal, arrival);
    this.#count(signal, arrival);
    if (!this.#mayLookAt(signal, input)) {
      this.#beyond.set(signal, (this.#beyond.get(signal) ?? 0) + 1);
      return;
    }
    // What is sent as a share has checks of its own, which know envelopes.
    if (signal !== 'share' && holdsKeyShare(input)) {
      this.#plain.push({ signal, arrival });
      return;
    }
    this.#put({ signal, arrival, receivedAt: Date.now(), input });
  }

  #count(signal: SignalRecord['signal'], arrival: number): void {
    this.#total += 1;
    if (this.came.length < SIGNALS_KEPT) this.came.push({ signal, arrival, at: Date.now() });
  }

  #put(item: InboxItem): void {
    const { signal } = item;
    const waiting = this.#waiting.get(signal);
    if (waiting) waiting.push(item);
    else this.#waiting.set(signal, [item]);
  }

  /** A name is a claim here: it shares out what is looked at, so that one person's flood leaves room for the others. */
  #mayLookAt(signal: SignalName, input: unknown): boolean {
    if ((this.#arrivals.get(signal) ?? 0) > LOOKED_AT.namesRead) return false;
    return this.#countLookedAt(signal, nameIn(input) ?? '');
  }

  #countLookedAt(way: string, name: string): boolean {
    const named = JSON.stringify([way, name]);
    const [all, ofName] = [this.#lookedAt.get(way) ?? 0, this.#lookedAt.get(named) ?? 0];
    const more = Math.floor((Date.now() - this.#since) / ONE_MORE_MS);
    if (all >= LOOKED_AT.perSignal + more || ofName >= LOOKED_AT.perName + more) return false;
    this.#lookedAt.set(way, all + 1);
    this.#lookedAt.set(named, ofName + 1);
    return true;
  }

  /** A refused update leaves no event: what is not in form, and what is too much, costs the run nothing. */
  #refuseUpdate(name: UpdateName, input: unknown): void {
    const document = unwrapDocument(input);
    const size = typeof document === 'string' ? document.length : (JSON.stringify(document) ?? '').length;
    if (size > MAX_UPDATE) throw new TypeError('refused: larger than 16 KiB');
    const by = nameIn(input);
    if (by === undefined) throw new TypeError(`refused: not a document as \`runbook ${name}\` makes it`);
    if (holdsKeyShare(input)) throw new TypeError('refused: it seems to hold a key share in plain text');
    if (!this.#countLookedAt(`update ${name}`, by))
      throw new TypeError('refused: this run has looked at as many as it does, in all or in this name');
  }

  #appendUpdate(signal: UpdateName, input: unknown): number {
    const arrival = Math.max(UPDATES_FROM, this.#updates.get(signal) ?? 0) + 1;
    this.#updates.set(signal, arrival);
    this.#put({ signal, arrival, receivedAt: Date.now(), input });
    return arrival;
  }

  /** A name is shown where it looks like a slip of the keyboard; anything else could be somebody's secret. */
  #appendUnknown(name: string, args: readonly unknown[]): void {
    this.#unknownCount += 1;
    this.#count('unknown', this.#unknownCount);
    if (textHoldsKeyShare(name) || holdsKeyShare(args)) {
      this.#plain.push({ signal: 'unknown', arrival: this.#unknownCount });
      return;
    }
    if (this.#unknownCount > UNKNOWN_RECEIPTS) return;
    this.#unknown.push({
      name: /^[A-Za-z][A-Za-z-]{0,24}$/.test(name) ? name : '(not shown)',
      arrival: this.#unknownCount,
    });
  }
}
