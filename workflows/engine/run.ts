import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow';
import type { HeldClients } from '../../src/contracts/activities';
import { holdsDeploymentLock } from '../../src/contracts/names';
import type { RunbookName } from '../../src/contracts/names';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Attested } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { CONTROL_ACTIONS } from '../../src/contracts/signals';
import type { ControlAction, InboxItem } from '../../src/contracts/signals';
import { activities, checks } from './activity-calls';
import type { StepCalls } from './activity-calls';
import { OutageDecision, RunStopped, StepFailed, TakenOver, failureFacts, isStop } from './failures';
import type { FailureFacts } from './failures';
import { inStep } from './interceptors';
import type { Choice, Decision, StepOptions } from './parking';
import { ABORT, LEAVE, Parking, RETRY } from './parking';
import type { RunState, StepRecord } from './run-state';
import type { Signals } from './signals';
import { giveReceipts } from './verdicts';
import type { Verdict } from './verdicts';
import { escapeUntrusted } from '../../src/contracts/words';
import { observedOf } from '../../src/report/report-of-run';
import { fieldsOf } from '../../src/report/run-record';

type VerifiedOrder = Awaited<ReturnType<typeof checks.checkControls>>['verdicts'][number];

/** The time of a step was over, or what its last call did is not known: its state may still arrive. */
const LATE: readonly string[] = ['CONFIRMATION_TIMEOUT', 'OUTCOME_UNKNOWN', 'ACTIVITY_TIMEOUT'];
const LOOKS_ON = 'The run keeps checking for hours: once the expected state is reached, the step continues by itself.';
const arrivedText = (step: string) =>
  `"${step}" had parked because its time was over. Its state arrived later, and the step went on by itself.`;

/** One execution of a runbook: its steps, what people send to it, and how it stops. */
export class Run {
  /**
   * By gate and plan: the digests of the signed approvals that already met it. When the gate opens again, they are still as old.
   */
  readonly gatesMet = new Map<string, readonly string[]>();
  #held: HeldClients | undefined;
  readonly #parking: Parking;
  #scope: CancellationScope | undefined;
  #stop: RunStopped | undefined;
  /** What pauses the run before its next step. */
  #pause: { readonly by: Attested; readonly reason: string } | undefined;
  readonly #cleanUps: (() => Promise<void>)[] = [];
  #outage = false;
  /** Digests of orders that counted. */
  readonly #used = new Set<string>();
  /** Who ordered the requested take-over, and who else must order it before it counts inside an outage. */
  #takeOver: { readonly by: readonly Attested[]; readonly missing: readonly string[] } = { by: [], missing: [] };

  constructor(
    readonly state: RunState,
    readonly signals: Signals,
  ) {
    this.#parking = new Parking(state);
    this.signals.on('decide', (items) => this.#parking.decide(items));
    for (const action of CONTROL_ACTIONS) this.signals.on(action, (items) => this.#order(action, items));
    CancellationScope.current().cancelRequested.catch(() => {
      state.fact({ kind: 'control', control: 'cancel', by: { name: 'a cancel request', how: 'claimed' }, reason: '' });
      this.#noteInOutage('A cancel request arrived', 'stop-noted', ENDS_LATER);
      this.stop(new RunStopped('a cancel request', 'cancelled through Temporal'));
    });
  }

  /** What keeps the clients out. A run that ends with a primary releases them. */
  get held(): HeldClients | undefined {
    return this.#held;
  }

  set held(held: HeldClients | undefined) {
    if ((held === undefined) !== (this.#held === undefined))
      this.state.fact({ kind: 'clients', held: held !== undefined });
    this.#held = held;
    this.state.clientsHeld = held !== undefined;
  }

  /**
   * Stops the whole run, including parallel branches that wait.
   *
   * @returns the stop, for the caller to throw
   */
  stop(stop: RunStopped): RunStopped {
    this.#stop ??= stop;
    this.#scope?.cancel();
    return stop;
  }

  /** The run continues as the failover that took it over. Earlier orders do not count any more. */
  become(runbook: RunbookName, input: object): void {
    this.#stop = undefined;
    this.#pause = undefined;
    this.#outage = false;
    this.#takeOver = { by: [], missing: [] };
    this.state.become(runbook, input);
  }

  /** Runs one named step. If it fails for good, the run parks until a person decides. */
  async step<T>(name: string, body: (call: StepCalls) => Promise<T>, options: StepOptions = {}): Promise<T> {
    const outcome = await this.#runStep(name, body, options, [...(options.choices ?? [this.#wayOut])]);
    if (outcome === SKIPPED) throw new TypeError(`step ${name} cannot be skipped`);
    return outcome;
  }

  /** As {@link step}, but people may skip it; `undefined` then. `effect` says what skipping leaves behind. */
  async skippableStep<T>(
    name: string,
    effect: string,
    body: (call: StepCalls) => Promise<T>,
    options: StepOptions = {},
  ): Promise<T | undefined> {
    const needsTwo = options.skipNeedsTwo === true;
    const second = needsTwo ? '; a second person must decide it too' : '';
    const skip: Choice = { action: 'skip', effect: `${effect}${second}`, needsTwo };
    const choices = [skip, ...(options.choices ?? [this.#wayOut])];
    const outcome = await this.#runStep(name, body, options, choices);
    if (outcome !== SKIPPED) return outcome;
    this.state.left.add(`"${name}" was skipped: ${effect}.`, options.leftAs);
    return undefined;
  }

  /** Whether stopping now would leave the deployment without a primary. */
  get inOutage(): boolean {
    return this.#outage;
  }

  /**
   * Offers a decision while something else is waited for.
   *
   * @returns undefined if `done` came first, or `timeoutMs` passed
   */
  async decisionWhile(
    step: string,
    failure: FailureFacts,
    choices: readonly Choice[],
    done: () => boolean,
    timeoutMs?: number,
  ): Promise<Decision | undefined> {
    return this.#parking.park(step, failure, choices, (decided) => this.waitFor(() => decided() || done(), timeoutMs));
  }

  /** Parks after a step has ended: shows what failed and what each choice does, until a decision or a stop. */
  async park(step: string, failure: FailureFacts, choices: readonly Choice[]): Promise<Decision> {
    const decision = await this.#parkUnless(() => false, step, failure, choices);
    if (!decision) throw new TypeError('parking ended without a decision');
    return decision;
  }

  /** @returns undefined if `arrived` came first */
  async #parkUnless(arrived: () => boolean, step: string, failure: FailureFacts, choices: readonly Choice[]) {
    // What was decided on it before is done: it failed again.
    this.state.carriedOut({ name: step, startedAt: 0 });
    const decision = await this.decisionWhile(step, failure, choices, arrived);
    // A skip is done at once.
    if (decision && decision.action !== 'skip')
      this.state.carryOut({ step, action: decision.action, by: decision.by, at: Date.now() });
    return decision;
  }

  /** Whether somebody ordered a pause, which may not hold the run yet. */
  get isPauseOrdered(): boolean {
    return this.#pause !== undefined;
  }

  /**
   * Parks a step. If only its time was over, one activity looks on beside it, which costs few events however long it lasts.
   *
   * @returns undefined if its state arrived before people decided
   */
  async #parkStep(
    step: string,
    failure: FailureFacts,
    choices: readonly Choice[],
    arrives: StepOptions['arrives'],
  ): Promise<Decision | undefined> {
    if (arrives === undefined || !LATE.includes(failure.code)) return this.park(step, failure, choices);
    const looking = new CancellationScope({ cancellable: true });
    let arrived = false;
    void looking
      .run(() => this.state.besideSteps(`Look again: ${step}`, () => arrives(activities)))
      .then(
        () => (arrived = true),
        () => undefined,
      );
    const next = `${failure.next === undefined ? '' : `${failure.next} `}${LOOKS_ON}`;
    try {
      const decision = await this.#parkUnless(() => arrived, step, { ...failure, next }, choices);
      if (!decision) this.state.finding({ severity: 'info', code: 'arrived-late', text: arrivedText(step) });
      return decision;
    } finally {
      looking.cancel();
    }
  }

  /** The failover that asked for this run and was not acted on yet, because nothing was left to stop. */
  get pendingTakeOver(): TakenOver | undefined {
    return this.#stop instanceof TakenOver ? this.#stop : undefined;
  }

  /**
   * Waits until `ready`, or until the run is stopped. Returns false if `timeoutMs` passed first.
   *
   * @param timer - what happens then, for the time line of the Web UI
   */
  async waitFor(ready: () => boolean, timeoutMs?: number, timer = 'the time to wait ends'): Promise<boolean> {
    const done = () => ready() || this.#stopNow() !== undefined;
    const inTime =
      timeoutMs === undefined ? (await condition(done), true) : await condition(done, timeoutMs, { summary: timer });
    const stop = this.#stopNow();
    if (stop && !ready()) throw stop;
    return inTime;
  }

  /** Runs `body` so that a stop cancels it. Outside such a part, a stop waits. */
  async abortable<T>(body: () => Promise<T>): Promise<T> {
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
   * Runs `body`, during which stopping would leave the deployment without a primary. A stop or a pause that arrives is noted and
   * counts afterwards; only a step that parks offers choices.
   */
  async outage<T>(body: () => Promise<T>): Promise<T> {
    this.#throwIfStopped();
    this.#outage = true;
    try {
      const result = await CancellationScope.nonCancellable(body);
      this.#dropTakeOver();
      return result;
    } finally {
      this.#outage = false;
    }
  }

  /** Registers what must be undone however the run ends. Call it before the call that it cleans up after. */
  onEnd(cleanUp: () => Promise<void>): void {
    this.#cleanUps.push(cleanUp);
  }

  /** Runs the clean-ups, last registered first. */
  async cleanUpAll(): Promise<void> {
    for (const cleanUp of this.#cleanUps.splice(0).reverse()) await cleanUp();
  }

  /** A clean-up as its own step. A failure becomes a finding, because a clean-up must never hold the lock. */
  async cleanUp(name: string, body: (call: StepCalls) => Promise<void>): Promise<void> {
    const record = this.#beginStep(name);
    try {
      await inStep(this.state, record, () => body(activities));
      this.#end(record, 'done');
    } catch (error) {
      const failure = failureFacts(error);
      this.#end(record, 'failed', failure?.code ?? 'stopped');
      if (!failure) throw error;
      this.state.finding({
        severity: 'warning',
        code: 'clean-up-failed',
        text: `${name}: ${failure.message}`,
        next: failure.next,
      });
    }
  }

  /** How a person ends the run at a parked step, if the runbook offers no choices of its own. */
  get #wayOut(): Choice {
    return this.#outage ? LEAVE : ABORT;
  }

  async #runStep<T>(
    name: string,
    body: (call: StepCalls) => Promise<T>,
    options: StepOptions,
    choices: readonly Choice[],
  ): Promise<T | typeof SKIPPED> {
    await this.#holdWherePaused();
    const record = this.#beginStep(name);
    for (;;) {
      try {
        const result = await inStep(this.state, record, () => body(activities));
        const done = fieldsOf(result)['outcome'] === 'already' ? 'already' : 'done';
        this.#end(record, done, this.#observedIn(record));
        this.#throwBetweenSteps();
        return result;
      } catch (error) {
        // The step was done before the stop, so it is not reported as failed.
        if (error instanceof OutageDecision || record.endedAt !== undefined) throw error;
        const failure = failureFacts(error);
        if (isStop(error) || !failure) {
          this.#end(record, 'failed', 'stopped');
          throw error;
        }
        for (const finding of failure.findings ?? []) this.state.finding(finding);
        const { onFailure, retryEffect = RETRY.effect } = options;
        if ((typeof onFailure === 'function' ? onFailure(failure) : onFailure) === 'throw') {
          this.#end(record, 'failed', `${failure.code}: ${failure.message}`);
          throw new StepFailed(name, failure);
        }
        record.state = 'parked';
        const offered = [{ ...RETRY, effect: retryEffect }, ...choices];
        const decision = await this.#parkStep(name, failure, offered, options.arrives);
        if (!decision) {
          // It reads the state before it acts.
          record.attempt += 1;
          record.state = 'running';
          this.state.show();
          continue;
        }
        const { action, by, reason, rid } = decision;
        switch (action) {
          case 'retry':
            // Not the run that replays this: a run that was reset again is not acknowledged yet.
            if (failure.code === 'RUN_WAS_RESET') this.state.acknowledgedRunId = rid;
            record.attempt += 1;
            record.state = 'running';
            this.state.show();
            continue;
          case 'skip':
            this.#end(record, 'skipped', `skipped by ${escapeUntrusted(by.name)}: ${escapeUntrusted(reason)}`);
            return SKIPPED;
          case 'abort':
            this.#end(record, 'failed', failure.code);
            throw this.stop(new RunStopped(by.name, reason));
          case 'promote-secondary':
          case 'promote-back':
          case 'leave':
            this.#end(record, 'failed', failure.code);
            throw new OutageDecision(action);
          case 'force':
            throw new TypeError(`step ${name} offers no ${action}`, { cause: error });
        }
      }
    }
  }

  /** What the last activity of a step observed, in a few words, as in the report. */
  #observedIn({ number }: StepRecord): string | undefined {
    const last = this.state.activities.records.findLast(({ step }) => step?.number === number);
    return last && observedOf(last);
  }

  /** Adds a line to the timeline. */
  #beginStep(name: string): StepRecord {
    const number = this.state.steps.length + 1;
    const record: StepRecord = { number, name, state: 'running', attempt: 1, startedAt: Date.now() };
    this.state.steps.push(record);
    this.state.show();
    return record;
  }

  #end(record: StepRecord, state: 'done' | 'already' | 'skipped' | 'failed', note?: string): void {
    record.state = state;
    record.endedAt = Date.now();
    record.note = note;
    const { name, number, attempt, startedAt } = record;
    this.state.fact({ kind: 'step-ended', step: name, number, attempt, startedAt, outcome: state });
    this.state.carriedOut(record);
    this.state.show();
  }

  async #holdWherePaused(): Promise<void> {
    this.#throwBetweenSteps();
    const pause = this.#pause;
    if (!pause || this.#outage || this.state.holdsClients) return;
    this.#isHeld(true);
    const waiting = { for: 'resume', by: pause.by.name, reason: pause.reason } as const;
    await this.state
      .whileWaiting('resume', waiting, () => this.waitFor(() => this.#pause === undefined))
      .finally(() => this.#isHeld(false));
  }

  #isHeld(paused: boolean): void {
    this.state.paused = paused;
    this.state.fact({ kind: 'paused', paused });
  }

  /** Orders to the whole run, all of one name. For take-overs it also finds out who else must order them inside an outage. */
  async #order(action: ControlAction, items: readonly InboxItem[]): Promise<void> {
    const { deployment } = this.state;
    const { by: before } = this.#takeOver;
    const requestedBy = this.pendingTakeOver?.input.requestedBy;
    const check = (arrived: readonly number[]) =>
      checks.checkControls({ deployment, action, arrived, before, requestedBy });
    await giveReceipts(this.state, action, items, check, (verdict, { missing }) =>
      this.#carryOut(action, verdict, missing),
    );
  }

  /** Carries out an order if it counts, and words its receipt. */
  #carryOut(action: ControlAction, verdict: VerifiedOrder, missing: readonly string[]): Verdict {
    const { accepted, by, control, failover } = verdict;
    const refused = (code: string, text: string) => ({ ...verdict, accepted: false, code, text });
    const { runbook } = this.state;
    if (failover && !holdsDeploymentLock(runbook))
      return refused('no-lock', `${runbook} does not hold a deployment lock`);
    if (failover && runbook === 'drFailover') return refused('failover-already', 'this run is already a failover');
    if (!accepted || !by || !control) return { ...verdict, accepted: false };
    const { reason, digest } = control;
    if (digest !== undefined && this.#used.has(digest))
      return refused('repeated', 'this document already counted; each counts once');
    if (digest !== undefined) this.#used.add(digest);
    if (action === 'abort' && this.#stop)
      return refused('already-stopping', 'a stop was already requested and is under way');
    let text: string;
    if (action !== 'takeOver') text = this.#obey(action, by, reason);
    else if (failover) text = this.#takeOverBy(by, failover, missing);
    else return { ...verdict, accepted: false };
    this.state.fact({ kind: 'control', control: action === 'takeOver' ? 'take-over' : action, by, reason });
    return { ...verdict, text };
  }

  /** @returns the text of its receipt */
  #obey(action: Exclude<ControlAction, 'takeOver'>, by: Attested, reason: string): string {
    if (action === 'resume') {
      this.#pause = undefined;
      return 'the run is not paused any more';
    }
    if (action === 'pause') {
      this.#pause = { by, reason };
      if (this.#outage) return 'noted: the run pauses once a cluster serves';
      return this.state.holdsClients ? HELD_LATER : 'at the next step';
    }
    const what = `${escapeUntrusted(by.name)} asked to end the run: ${escapeUntrusted(reason)}`;
    this.#noteInOutage(what, 'stop-noted', ENDS_LATER);
    this.stop(new RunStopped(by.name, reason || 'no reason given'));
    return this.#outage ? ENDS_LATER : 'at the next safe point';
  }

  /** A failover asks for the run. It gets it at the next safe point, or inside an outage as {@link #stopNow} says. */
  #takeOverBy(by: Attested, failover: InputOf<'drFailover'>, missing: readonly string[]): string {
    this.#takeOver = { by: [...this.#takeOver.by, by], missing };
    const command = nextCommandOf.control('takeOver', workflowInfo().workflowId);
    const more =
      missing.length === 0 ? '' : `, once further people have ordered it (\`${command}\`): ${missing.join('; ')}`;
    const later = `noted: it counts when a step parks${more}; otherwise the run continues until a cluster serves`;
    this.#noteInOutage(`${escapeUntrusted(by.name)} asked for a failover`, 'take-over-noted', later);
    // It replaces a waiting abort: there may be no primary for good.
    if (!this.pendingTakeOver) this.#stop = undefined;
    this.stop(new TakenOver(failover, by.name));
    return this.#outage ? later : `${this.state.runbook} becomes a failover at its next safe point`;
  }

  #noteInOutage(what: string, code: string, text: string): void {
    if (this.#outage) this.state.finding({ severity: 'warning', code, text: `${what}; ${text}.` });
  }

  /**
   * Inside an outage only a failover ends a wait, once as many people ordered it as gate `promote` needs. It continues with what the
   * run holds, until a cluster serves. Waits there are only for people: for decisions on parked steps, and for shares.
   */
  #stopNow(): RunStopped | undefined {
    if (!this.#outage) return this.#stop;
    return this.#takeOver.missing.length === 0 ? this.pendingTakeOver : undefined;
  }

  #throwBetweenSteps(): void {
    if (!this.#outage) this.#throwIfStopped();
  }

  /** A failover was requested while a cluster became primary. That cluster was seen to serve, so there is nothing to fail over. */
  #dropTakeOver(): void {
    if (!(this.#stop instanceof TakenOver) || this.state.serviceBackAt === undefined) return;
    this.state.finding({
      severity: 'warning',
      code: 'take-over-not-needed',
      text: `${escapeUntrusted(this.#stop.by)} asked for a failover while a cluster was being promoted. That cluster was confirmed to serve, and the run continued.`,
      next: 'If it does not serve any more, start drFailover with {"takeOver": true} again.',
    });
    this.#stop = undefined;
  }

  #throwIfStopped(): void {
    const stop = this.#stopNow();
    if (stop) throw stop;
  }
}

const SKIPPED = Symbol('skipped');

const HELD_LATER =
  'noted: clients are quiesced, so the run does not wait; it pauses after the change. An abort ends it before that';

const ENDS_LATER = 'noted: the run ends once a cluster serves; until then only a parked step offers choices';
