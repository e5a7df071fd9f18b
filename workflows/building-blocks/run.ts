import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow';
import type { ChangeResult } from '../../src/contracts/activities';
import type { RunControl, SignalName } from '../../src/contracts/signals';
import type { InboxItem } from '../../src/contracts/signals';
import { isUndecodable, runControl } from '../../src/contracts/signals';
import { stepCalls } from './activity-calls';
import type { StepCalls } from './activity-calls';
import type { FailureFacts } from './failures';
import { OutageDecision, RunStopped, failureFacts, isStop } from './failures';
import type { Choice } from './parking';
import { ABORT, LEAVE, Parking, RETRY } from './parking';
import type { RunState, StepRecord } from './run-state';
import { refuseShares } from './share-receipts';
import type { SignalInbox } from './signal-inbox';

/** What a step may be told beside its name and body. */
export interface StepOptions<T> {
  /** What was observed, in a few words, for the timeline. */
  readonly note?: (result: T) => string | undefined;
  /** Choices beside `retry`, where the step parks; `abort` alone where nothing is given. */
  readonly choices?: readonly Choice[];
  /** Failures that the runbook itself deals with: the step ends as failed and the error is thrown on. */
  readonly leaveToRunbook?: (failure: FailureFacts) => boolean;
}

/** A step failed and the runbook said that it deals with it. */
export class StepFailed extends Error {
  constructor(
    readonly step: string,
    readonly failure: FailureFacts,
  ) {
    super(`${step}: ${failure.code}`);
    this.name = 'StepFailed';
  }
}

type Processor = (items: readonly InboxItem[]) => Promise<void>;

/** One execution of a runbook: its steps, what people tell it, and how it stops. */
export class Run {
  readonly #parking: Parking;
  readonly #processors = new Map<SignalName, Processor>();
  #scope: CancellationScope | undefined;
  #stop: RunStopped | undefined;
  #pauseNow: RunControl | undefined;
  readonly #pauseBefore = new Map<string, RunControl>();
  #closing = false;
  readonly #cleanUps: (() => Promise<void>)[] = [];
  /** Set while stopping would leave the deployment without a primary: a stop is then offered as a choice instead. */
  #interruptionChoices: readonly Choice[] | undefined;
  #shielded = false;

  constructor(
    readonly state: RunState,
    readonly inbox: SignalInbox,
  ) {
    this.#parking = new Parking(state);
    this.onSignal('decide', (items) => this.#parking.decide(items));
    for (const name of ['pause', 'resume', 'abort'] as const) {
      this.onSignal(name, (items) => Promise.resolve(items.forEach((item) => this.#control(name, item))));
    }
    this.onSignal('share', undefined);
    CancellationScope.current().cancelRequested.catch(() => {
      state.fact({ kind: 'control', control: 'cancel', by: 'a cancel request', reason: '' });
      this.#requestStop(new RunStopped('a cancel request', 'cancelled through Temporal'));
    });
  }

  /** Says who looks at the signals of a name from now on. Without anybody, they stay in the inbox. */
  onSignal(name: SignalName, processor: Processor | undefined): void {
    if (processor) this.#processors.set(name, processor);
    else if (name === 'share') this.#processors.set(name, (items) => refuseShares(this.state, items));
    else this.#processors.delete(name);
  }

  /** Looks at every signal until {@link closeInbox}; started before the first await of the runbook. */
  async pump(): Promise<void> {
    for (;;) {
      await condition(() => this.#signalsWait() || this.#closing);
      if (!this.#signalsWait()) return;
      this.#receiveUnknown();
      for (const name of [...this.#processors.keys()]) {
        // Asked for only now: while another signal was looked at, a ceremony or a gate may have ended.
        const processor = this.#processors.get(name);
        const items = processor ? this.inbox.take([name]) : [];
        if (processor && items.length > 0) await processor(items);
      }
      this.state.show();
    }
  }

  /** What still waits gets a receipt and the pump ends. */
  closeInbox(): void {
    this.onSignal('approve', (items) => {
      for (const { arrival } of items) {
        this.state.receipt({
          signal: 'approve',
          arrival,
          verdict: 'refused',
          code: 'no-gate-open',
          text: 'no gate waits for an approval any more',
        });
      }
      return Promise.resolve();
    });
    const beyond = this.inbox.unknownWithoutReceipt;
    if (beyond > 0) {
      this.state.finding({
        severity: 'warning',
        code: 'unknown-signals',
        text: `${beyond} more signals of unknown names arrived than the run gives receipts for.`,
        next: 'Find out who sends them: each costs an event of this run.',
      });
    }
    this.#closing = true;
  }

  /**
   * Stops the whole run: branches that wait beside the caller's stop too.
   *
   * @returns the stop, for the caller to throw
   */
  stop(stop: RunStopped): RunStopped {
    this.#requestStop(stop);
    return stop;
  }

  /** Runs one named step; where it fails for good the run parks until a person decides. */
  async step<T>(name: string, body: (call: StepCalls) => Promise<T>, options: StepOptions<T> = {}): Promise<T> {
    const outcome = await this.#runStep(name, body, options, [...(options.choices ?? [this.#wayOut])]);
    if (outcome === SKIPPED) throw new TypeError(`step ${name} cannot be skipped`);
    return outcome;
  }

  /** As {@link step}, but people may skip it; `undefined` then. `effect` says what skipping leaves behind. */
  async skippableStep<T>(
    name: string,
    effect: string,
    body: (call: StepCalls) => Promise<T>,
    options: StepOptions<T> = {},
  ): Promise<T | undefined> {
    const choices = [{ action: 'skip', effect } as const, ...(options.choices ?? [this.#wayOut])];
    const outcome = await this.#runStep(name, body, options, choices);
    return outcome === SKIPPED ? undefined : outcome;
  }

  /** Waits until `ready`, or until the run is stopped. Gives false when `timeoutMs` passed first. */
  async waitFor(ready: () => boolean, timeoutMs?: number): Promise<boolean> {
    const done = () => ready() || this.#stopNow() !== undefined;
    const inTime = timeoutMs === undefined ? (await condition(done), true) : await condition(done, timeoutMs);
    const stop = this.#stopNow();
    if (stop && !ready()) throw stop;
    return inTime;
  }

  /** Runs `body` so that a stop cancels it. Outside of such a part a stop waits. */
  async stoppable<T>(body: () => Promise<T>): Promise<T> {
    this.#throwIfStopped();
    const scope = new CancellationScope({ cancellable: true });
    this.#scope = scope;
    try {
      return await scope.run(body);
    } catch (error) {
      throw isStop(error) ? (this.#stop ?? error) : error;
    } finally {
      this.#scope = undefined;
    }
  }

  /**
   * Runs `body`, in which stopping would leave the deployment without a primary. A stop that comes is offered as a
   * choice when the current step ends, as long as {@link offerOnStop} says so, and counts afterwards otherwise.
   */
  async shielded<T>(body: () => Promise<T>): Promise<T> {
    this.#throwIfStopped();
    this.#shielded = true;
    try {
      return await CancellationScope.nonCancellable(body);
    } finally {
      this.#shielded = false;
      this.#interruptionChoices = undefined;
    }
  }

  offerOnStop(choices: readonly Choice[] | undefined): void {
    this.#interruptionChoices = choices;
  }

  /** Registers what must be undone however the run ends. Register it before the call that it cleans after. */
  onEnd(cleanUp: () => Promise<void>): void {
    this.#cleanUps.push(cleanUp);
  }

  /** Runs the clean-ups, last registered first. */
  async cleanUpAll(): Promise<void> {
    for (const cleanUp of this.#cleanUps.splice(0).reverse()) await cleanUp();
  }

  /** A clean-up as a step of its own: what fails becomes a finding, because a clean-up must never hold the lock. */
  async cleanUp(name: string, body: (call: StepCalls) => Promise<void>): Promise<void> {
    const record = this.beginStep(name);
    try {
      await body(stepCalls(`${record.number} ${name}`, () => this.state.stepContext(record)));
      this.#end(record, 'done');
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      this.#end(record, 'failed', failure.code);
      this.state.finding({
        severity: 'warning',
        code: 'clean-up-failed',
        text: `${name}: ${failure.message}`,
        next: failure.next,
      });
    }
  }

  /** How a person ends the run at a parked step, where the runbook gives no choices of its own. */
  get #wayOut(): Choice {
    return this.#shielded ? LEAVE : ABORT;
  }

  async #runStep<T>(
    name: string,
    body: (call: StepCalls) => Promise<T>,
    options: StepOptions<T>,
    choices: readonly Choice[],
  ): Promise<T | typeof SKIPPED> {
    await this.#holdBefore(name);
    const record = this.beginStep(name);
    const call = stepCalls(`${record.number} ${name}`, () => this.state.stepContext(record));
    for (;;) {
      try {
        const result = await body(call);
        this.#end(record, outcomeOf(result), options.note?.(result));
        await this.#offerInterruption(record);
        return result;
      } catch (error) {
        if (error instanceof OutageDecision) throw error;
        const failure = failureFacts(error);
        if (isStop(error) || !failure) {
          this.#end(record, 'failed', 'stopped');
          throw error;
        }
        if (options.leaveToRunbook?.(failure)) {
          this.#end(record, 'failed', `${failure.code}: ${failure.message}`);
          throw new StepFailed(name, failure);
        }
        record.state = 'parked';
        const decision = await this.#parking.park(name, failure, [RETRY, ...choices], (ready) => this.waitFor(ready));
        switch (decision.action) {
          case 'retry':
            if (failure.code === 'RUN_WAS_RESET') this.state.acknowledgedRunId = workflowInfo().runId;
            record.attempt += 1;
            record.state = 'running';
            this.state.show();
            continue;
          case 'skip':
            this.#end(record, 'skipped', `skipped by ${decision.by.name}: ${decision.reason}`);
            return SKIPPED;
          case 'abort':
            this.#end(record, 'failed', failure.code);
            throw this.stop(new RunStopped(decision.by.name, decision.reason));
          case 'promote-secondary':
          case 'promote-back':
          case 'leave':
            this.#end(record, 'failed', failure.code);
            throw new OutageDecision(decision.action);
        }
      }
    }
  }

  /** Puts a new line into the timeline. */
  beginStep(name: string): StepRecord {
    const record: StepRecord = {
      number: this.state.steps.length + 1,
      name,
      state: 'running',
      attempt: 1,
      startedAt: Date.now(),
    };
    this.state.steps.push(record);
    this.state.show();
    return record;
  }

  #end(record: StepRecord, state: 'done' | 'already' | 'skipped' | 'failed', note?: string): void {
    record.state = state;
    record.endedAt = Date.now();
    record.note = note;
    this.state.fact({ kind: 'step-ended', step: record.name, outcome: state });
    this.state.show();
  }

  async #holdBefore(name: string): Promise<void> {
    if (this.#shielded) return;
    this.#throwIfStopped();
    const named = this.#pauseBefore.get(name);
    if (named) {
      this.#pauseBefore.delete(name);
      this.#pauseNow = named;
    }
    if (!this.#pauseNow) return;
    this.state.paused = true;
    this.state.wait('resume', { for: 'resume', by: this.#pauseNow.by, reason: this.#pauseNow.reason });
    await this.waitFor(() => this.#pauseNow === undefined);
    this.state.paused = false;
    this.state.waitOver('resume');
  }

  /** Inside an outage a stop is a question, not an order: every answer but `leave` ends with service somewhere. */
  async #offerInterruption(record: StepRecord): Promise<void> {
    if (!this.#shielded || !this.#stop || !this.#interruptionChoices) return;
    const stop = this.#stop;
    const decision = await this.#parking.park(
      record.name,
      {
        code: 'INTERRUPTED',
        message: `${stop.by} asked to stop: ${stop.reason}. No cluster is primary now.`,
        outcomeKnown: true,
      },
      this.#interruptionChoices,
      async (ready) => {
        await condition(ready);
        return true;
      },
    );
    this.#stop = undefined;
    if (decision.action === 'promote-back' || decision.action === 'leave') throw new OutageDecision(decision.action);
  }

  #control(name: 'pause' | 'resume' | 'abort', item: InboxItem): void {
    const refuse = (code: string, text: string) =>
      this.state.receipt({ signal: name, arrival: item.arrival, verdict: 'refused', code, text });
    if (isUndecodable(item.input))
      return refuse('undecodable', `the payload could not be read (encoding ${item.input.undecodable}); send JSON`);
    const parsed = runControl.safeParse(item.input);
    if (!parsed.success) return refuse('malformed', 'needs one object {"by": "you", "reason": "why"}');
    const { by, reason, before } = parsed.data;
    this.state.receipt({
      signal: name,
      arrival: item.arrival,
      verdict: 'accepted',
      code: 'accepted',
      text: before ? `before "${before}"` : 'at the next step',
      from: { name: by, how: 'claimed' },
    });
    this.state.fact({ kind: 'control', control: name, by, reason, ...(before === undefined ? {} : { before }) });
    if (name === 'abort') this.#requestStop(new RunStopped(by, reason || 'no reason given'));
    else if (name === 'resume') {
      this.#pauseNow = undefined;
      this.#pauseBefore.clear();
    } else if (before !== undefined) this.#pauseBefore.set(before, parsed.data);
    else this.#pauseNow = parsed.data;
  }

  #receiveUnknown(): void {
    for (const { name, arrival } of this.inbox.takeUnknown()) {
      this.state.receipt({
        signal: 'unknown',
        arrival,
        verdict: 'refused',
        code: 'unknown-signal',
        text: `no runbook knows the signal ${name}`,
      });
    }
  }

  #requestStop(stop: RunStopped): void {
    this.#stop ??= stop;
    this.#scope?.cancel();
  }

  #stopNow(): RunStopped | undefined {
    return this.#shielded ? undefined : this.#stop;
  }

  #throwIfStopped(): void {
    const stop = this.#stopNow();
    if (stop) throw stop;
  }

  #signalsWait(): boolean {
    return this.inbox.unknownWaits || this.inbox.items.some((item) => this.#processors.has(item.signal));
  }
}

const SKIPPED = Symbol('skipped');

function outcomeOf(result: unknown): 'done' | 'already' {
  return typeof result === 'object' && result !== null && (result as Partial<ChangeResult>).outcome === 'already'
    ? 'already'
    : 'done';
}
