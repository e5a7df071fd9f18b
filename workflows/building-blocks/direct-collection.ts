import { condition, uuid4 } from '@temporalio/workflow';
import type { DirectAttempt, DirectAttemptSeen, DirectAttemptStarted } from '../../src/contracts/activities';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { StepCalls } from './activity-calls';
import { DirectAsking } from './direct-asking';
import type { DirectOutcome } from './direct-decisions';
import { BreakGlass } from './break-glass';
import { askPeople, outcomeOf, whileHandedIn } from './direct-decisions';
import type { Missing } from './direct-settlement';
import { DirectSettlement } from './direct-settlement';
import { DirectWatch } from './direct-watch';
import { RunStopped, StepFailed, stepFailure } from './failures';
import { foreignAttemptRemedy } from './foreign-attempt';
import type { TakenTokens } from './handed-in';
import { HandedIn, withoutFingerprint } from './handed-in';
import { LEAVE } from './parking';
import type { Run, StepOptions } from './run';
import type { Parked } from './share-collection';

/** An attempt is gone, and nobody saw its last share: scripts are faster than a look at the slot. */
const DOUBT_MS = 8_000;
/** So long after a look that showed two shares missing, their attempt made no token. */
const CERTAIN_MS = 5_000;
/** A token is in hand, and the slot was not seen to be free yet. */
const SETTLE_MS = 3_000;
/** Shares are asked for anew where less than this is left. */
const COLLECTING_LEFT_MS = 60_000;
/** Attempts that may be lost to leader changes before people are asked. */
const MAX_LOST = 5;
const KEYS_LOST = new Set(['WORKER_UNREACHABLE', 'KEY_RECORD_MISSING']);

/**
 * Key shares that never come near this system: the run starts the attempt with the key of the ceremony, the holders give
 * their shares to the service themselves, and whoever gets the encoded token hands it in. What a token is, and who can
 * read it, is for the subclass to say.
 *
 * @typeParam T - what is kept of a token
 */
export abstract class DirectCollection<T> {
  readonly shares = 'direct';
  protected readonly run: Run;
  protected readonly deployment: string;
  readonly #kind: DirectAttempt['kind'];
  readonly #cid = uuid4();
  #handle: CeremonyHandle | undefined;
  #fingerprint: string | undefined;
  #keysLost: string | undefined;
  #inviting: Promise<void> | undefined;
  #closed = false;
  readonly #handedIn: HandedIn<T>;
  readonly #breakGlass: BreakGlass;
  readonly #asking: DirectAsking;
  readonly #attempts: DirectSettlement;

  constructor(run: Run, deployment: string, kind: DirectAttempt['kind']) {
    this.run = run;
    this.deployment = deployment;
    this.#kind = kind;
    this.#breakGlass = new BreakGlass(run, deployment);
    this.#asking = new DirectAsking(run);
    this.#attempts = new DirectSettlement(run, deployment, kind);
    this.#handedIn = new HandedIn<T>(
      run,
      (call, ceremony, arrived) => this.take(call, ceremony, arrived),
      (code) => {
        if (KEYS_LOST.has(code)) this.#keysLost = code;
      },
    );
  }

  protected abstract create(
    call: StepCalls,
    round: { readonly epoch: number; readonly cid: string },
  ): Promise<CeremonyHandle & { readonly fingerprint: string }>;
  protected abstract start(call: StepCalls, ceremony: CeremonyHandle, cluster: string): Promise<DirectAttemptStarted>;
  protected abstract take(
    call: StepCalls,
    ceremony: CeremonyHandle,
    arrived: readonly number[],
  ): Promise<TakenTokens<T>>;

  get fingerprint(): string | undefined {
    return this.#fingerprint;
  }

  /** Root tokens, encrypted to their recipient, that the run hands on. */
  get inHand(): readonly string[] {
    return [];
  }

  protected get closed(): boolean {
    return this.#closed;
  }

  async ready(): Promise<void> {
    const handle = this.#handle;
    if (handle && this.#keysLost === undefined && Date.now() < handle.collectUntil - COLLECTING_LEFT_MS) return;
    // Branches that find the same keys gone share the new ones.
    this.#inviting ??= this.#invite();
    try {
      await this.#inviting;
    } finally {
      this.#inviting = undefined;
    }
  }

  /**
   * The token of one cluster, once somebody handed it in. People are waited for.
   *
   * @param onlyNow - gives undefined where the cluster takes no attempt now
   * @returns undefined where it was skipped
   */
  protected async obtain(cluster: string, parked: Parked, onlyNow = false): Promise<T | undefined> {
    for (let lost = 0; ; lost += 1) {
      const held = this.#handedIn.of(cluster);
      if (held !== undefined) return held;
      await this.ready();
      const started = await this.#start(cluster, parked, onlyNow);
      if (started === 'again') continue;
      if (started === undefined) return undefined;
      if (started.outcome === 'not-done') {
        if (onlyNow && !this.#has(cluster)) return undefined;
        continue;
      }
      this.run.state.noteFindings(started.findings);
      const { breakGlass } = started;
      if (breakGlass)
        this.#breakGlass.found({ cluster, kind: this.#kind, close: breakGlass.close, unseen: !breakGlass.open });
      if ((await this.#whileEntered(cluster, started, parked, lost)) === 'skipped') return undefined;
    }
  }

  /** What was handed in and not used. */
  protected get left(): HandedIn<T>['left'] {
    return this.#handedIn.left;
  }

  /** A token was given to whoever needed it: what is handed in for this cluster from now on is another one. */
  protected use(value: T): number | undefined {
    return this.#handedIn.use(value);
  }

  async stopHandIns(): Promise<void> {
    await this.#handedIn.finish();
  }

  async close(): Promise<void> {
    await this.#end(async (ceremony) => {
      await this.run.skippableStep(
        'Destroy the ceremony keys',
        'the sweeper of the worker destroys them when the invitation has expired',
        (call) => this.#destroyKeys(call, ceremony),
        { note: (result) => result.text },
      );
    });
    await this.#breakGlass.takeBack();
  }

  async abandon(): Promise<void> {
    await this.#breakGlass.tellWhatIsOpen();
    await this.#end((ceremony) =>
      this.run.cleanUp('Destroy the ceremony keys', async (call) => {
        await this.#destroyKeys(call, ceremony);
      }),
    );
  }

  async #destroyKeys(call: StepCalls, ceremony: CeremonyHandle): Promise<{ readonly text: string }> {
    const { inHand } = this;
    const { text, findings } = await call.destroyCeremonyKeys({ ceremony, ...(inHand.length > 0 && { inHand }) });
    this.run.state.noteFindings(findings);
    return { text };
  }

  async #end(destroy: (ceremony: CeremonyHandle) => Promise<void>): Promise<void> {
    this.#closed = true;
    const ceremony = this.#handle;
    if (!ceremony) return;
    this.#asking.stop();
    // What was handed in and not looked at yet may be the very token that would be missing.
    await this.#handedIn.finish();
    await this.#attempts.settleAll(ceremony, { ifGone: 'its attempt ended while nobody handed in what came of it' });
    this.run.state.invitation = undefined;
    await destroy(ceremony);
    this.#handle = undefined;
  }

  async #invite(): Promise<void> {
    const before = this.#handle;
    if (before) {
      this.run.state.finding({
        severity: 'warning',
        code: 'ceremony-keys-lost',
        text: `The keys of epoch ${before.epoch} cannot be used any more (${this.#keysLost ?? 'EXPIRED'}): there are new ones.`,
      });
    }
    const epoch = (before?.epoch ?? 0) + 1;
    const name = epoch === 1 ? 'Make the keys of the ceremony' : `Make the keys of the ceremony again (epoch ${epoch})`;
    const made = await this.run.step(name, (call) => this.create(call, { epoch, cid: this.#cid }), {
      note: ({ threshold, holders }) => `${threshold} of ${holders.length} holders enter their shares themselves`,
    });
    this.#handle = withoutFingerprint(made);
    this.#fingerprint = made.fingerprint;
    this.#keysLost = undefined;
    this.run.state.invitation = made.invitation;
    this.#handedIn.listen(this.#handle);
    this.#asking.invited(this.#handle);
  }

  async #start(cluster: string, parked: Parked, onlyNow: boolean): Promise<DirectAttemptStarted | 'again' | undefined> {
    const name = `Start a generation attempt on ${cluster}`;
    const ceremony = this.#required();
    const body = async (call: StepCalls): Promise<DirectAttemptStarted> => {
      const started = await this.start(call, ceremony, cluster);
      if (started.outcome !== 'not-done' || onlyNow) return started;
      throw stepFailure('PRECONDITION_FAILED', `${cluster} takes no generation attempt now.`, {
        observed: started.observed,
        needed: 'a DR secondary',
      });
    };
    const options: StepOptions<DirectAttemptStarted> = {
      note: (started) =>
        started.outcome === 'not-done'
          ? started.observed
          : `nonce ${started.nonce}, ${started.progress} of ${started.required} key shares`,
      ...(parked.choices && { choices: parked.choices }),
      instead: () => (this.#has(cluster) ? { outcome: 'not-done', observed: 'it was handed in' } : undefined),
      remedy: (failure) =>
        foreignAttemptRemedy(this.run.state, { deployment: this.deployment, cluster, kind: this.#kind }, failure),
      leaveToRunbook: (failure) => KEYS_LOST.has(failure.code) || BreakGlass.isNeeded(failure),
    };
    try {
      return parked.skipEffect === undefined
        ? await this.run.step(name, body, options)
        : await this.run.skippableStep(name, parked.skipEffect, body, options);
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error;
      if (BreakGlass.isNeeded(error.failure)) {
        const opened = await this.#breakGlass.open(cluster, this.#kind, parked);
        return opened && this.#start(cluster, parked, onlyNow);
      }
      this.#keysLost = error.failure.code;
      return 'again';
    }
  }

  async #whileEntered(cluster: string, attempt: DirectAttempt, parked: Parked, lost: number): Promise<DirectOutcome> {
    const nonces = this.#attempts.begun(cluster);
    const end = this.#asking.begin(cluster, attempt);
    const taken = () => this.#has(cluster);
    const watch = new DirectWatch(this.run, { deployment: this.deployment, cluster, attempt, nonces }, (now) => {
      if (!taken()) this.#asking.show(cluster, now);
    });
    const done = () => taken() || watch.needsAttention || this.#keysLost !== undefined;
    try {
      const next = await this.#whilePeopleEnter(cluster, done, parked);
      watch.throwDefect();
      if (taken()) {
        // Nobody is asked any more.
        end();
        const gone = watch.ended !== undefined || (await condition(() => watch.needsAttention, SETTLE_MS));
        // What is in the slot still is not what was handed in: it is cancelled at the end.
        if (gone) this.#attempts.settled(cluster);
        return 'token';
      }
      if (next) return next;
      if (watch.ended) return await this.#afterEnd(cluster, watch.attempt, watch.ended, parked, lost);
      await this.#settle(cluster, { ifGone: 'its attempt ended while the keys of the ceremony were lost' });
      return 'again';
    } finally {
      watch.stop();
      end();
    }
  }

  /** Inside an outage the clock never ends this wait, and people may go another way meanwhile. */
  async #whilePeopleEnter(cluster: string, done: () => boolean, parked: Parked): Promise<DirectOutcome | undefined> {
    const { run } = this;
    const leftMs = Math.max(1000, this.#required().collectUntil - Date.now());
    if (run.inOutage) {
      const failure = {
        code: 'SHARES_MISSING',
        message: `No cluster is primary, and the holders must enter their key shares on ${cluster} themselves.`,
        next: 'The holders do what is shown; or decide for another way.',
        outcomeKnown: true,
      };
      const ways = parked.choices ?? [LEAVE];
      const decision = await run.decisionWhile(`Key shares on ${cluster} in the outage`, failure, ways, done, leftMs);
      if (decision) return outcomeOf(run, decision, cluster, parked);
      if (!done()) this.#keysLost = 'EXPIRED';
      return undefined;
    }
    if (await run.waitFor(done, leftMs)) return undefined;
    if (run.state.serviceIsOut) {
      this.#keysLost = 'EXPIRED';
      return undefined;
    }
    const message = `the holders did not enter enough key shares on ${cluster} in time; ${this.#asking.whoIsMissing()}`;
    if (parked.skipEffect === undefined) throw run.stop(new RunStopped('the clock', message));
    this.#keysLost = 'EXPIRED';
    return this.#ask(cluster, parked, {
      code: 'SHARES_MISSING',
      message: `Nobody is waited for any more: ${message}.`,
    });
  }

  /** The attempt is gone. It may have ended in a token, and then that comes first. */
  async #afterEnd(
    cluster: string,
    last: DirectAttempt,
    seen: DirectAttemptSeen,
    parked: Parked,
    lost: number,
  ): Promise<DirectOutcome> {
    const { run } = this;
    const complete = last.progress >= last.required - 1;
    const movedTo = seen.address === last.address ? undefined : seen.address;
    const isLost = !complete && (seen.seen === 'foreign' || (movedTo !== undefined && lost < MAX_LOST));
    const waitMs = complete ? last.handInMs : Math.min(DOUBT_MS, last.handInMs);
    this.#asking.showHandIn(cluster, waitMs);
    const message = complete
      ? `A token of ${cluster} exists that this run does not hold: nobody handed in the encoded token.`
      : `The attempt on ${cluster} is gone: cancelled by somebody, lost with a restart, or complete.`;
    const failure = { code: complete ? 'TOKEN_ORPHANED' : 'ATTEMPT_LOST', message };
    const waited = (taken: () => boolean, timeoutMs?: number) =>
      whileHandedIn(run, cluster, failure, parked, { taken, timeoutMs });
    let decision = await waited(() => this.#has(cluster), waitMs);
    // What was handed in may be that very token: no alarm, and no question, before it was looked at.
    const lookedAt = this.#handedIn.untilLookedAt();
    if (!decision && lookedAt) decision = await waited(() => lookedAt() || this.#has(cluster));
    if (this.#has(cluster)) {
      this.#attempts.settled(cluster);
      return 'token';
    }
    // Two shares are not entered between two looks; where nobody looked for longer they may have been.
    const isCertain = !complete && seen.lookedAt - seen.seenAt <= CERTAIN_MS;
    if (complete)
      await this.#settle(cluster, {
        mayExist: 'the attempt ended after its last key share, and nobody handed in the encoded token',
      });
    const ifGone = isCertain ? {} : { ifGone: 'its attempt ended while nobody could look at it' };
    if (decision) {
      if (!complete) await this.#settle(cluster, ifGone);
      return outcomeOf(run, decision, cluster, parked);
    }
    if (isLost) {
      const [code, how] =
        seen.seen === 'foreign'
          ? ['attempt-taken-over', "somebody else's attempt is in its place, which this run never cancels by itself"]
          : ['attempt-lost', `the active node changed from ${last.address} to ${movedTo ?? 'another one'}`];
      run.state.finding({
        severity: 'warning',
        code,
        text: `The attempt on ${cluster} was lost with ${last.progress} of ${last.required} key shares: ${how}.`,
        next: 'Every holder enters his share again, with the new nonce, as soon as it is shown.',
      });
      await this.#settle(cluster, ifGone);
      return 'again';
    }
    const next = await this.#ask(cluster, parked, failure);
    if (next === 'token') this.#attempts.settled(cluster);
    else if (next === 'again' && !complete) await this.#settle(cluster, ifGone);
    return next;
  }

  async #ask(cluster: string, parked: Parked, failure: { readonly code: string; readonly message: string }) {
    return askPeople(this.run, cluster, parked, failure, () => this.#has(cluster));
  }

  #settle(cluster: string, why: Missing): Promise<void> {
    return this.#attempts.settle(this.#required(), cluster, why);
  }

  #has(cluster: string): boolean {
    return this.#handedIn.of(cluster) !== undefined;
  }

  #required(): CeremonyHandle {
    if (!this.#handle) throw new TypeError('the ceremony has no keys yet');
    return this.#handle;
  }
}
