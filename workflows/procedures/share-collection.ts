import { uuid4 } from '@temporalio/workflow';
import { alarmsTold } from '../../src/contracts/alarms';
import type { CeremonyHandle, Envelope } from '../../src/contracts/ceremony';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { Finding } from '../../src/contracts/run-facts';
import type { InboxItem } from '../../src/contracts/signals';
import { activities } from '../engine/activity-calls';
import type { StepCalls } from '../engine/activity-calls';
import { BurstSettlement, areUnfit, whyAgain } from './burst-settlement';
import { OutageDecision, RunStopped, StepFailed, failureFacts } from '../engine/failures';
import { foreignAttemptRemedy } from './foreign-attempt';
import { HeldShares } from './held-shares';
import type { Choice } from '../engine/parking';
import { LEAVE } from '../engine/parking';
import type { Run, StepOptions } from '../engine/run';
import { Roster } from './roster';
import { receiveVerdicts } from '../engine/share-receipts';

/** What a ceremony makes of collected shares, in an activity. */
export interface Burst<R> {
  /** Name of the step. */
  readonly name: string;
  readonly cluster: string;
  /** What is made: an operation token where nothing is said. */
  readonly kind?: 'operation-token' | 'root-token';
  readonly call: (
    call: StepCalls,
    shares: {
      readonly ceremony: CeremonyHandle;
      readonly envelopes: readonly Envelope[];
      readonly told?: readonly string[];
    },
  ) => Promise<R>;
}

interface BurstResult {
  readonly attempts: number;
  readonly findings: readonly Finding[];
  readonly closeAfterwards?: readonly string[];
}

/** What people may decide where a burst parks. */
export interface Parked {
  readonly choices?: readonly Choice[];
  readonly skipEffect?: string;
}

/** Shares are asked for anew where less than this is left to collect the missing ones. */
const COLLECTING_LEFT_MS = 60_000;

/** Codes after which the keys cannot be used any more: the holders are asked again, in a new epoch. */
const KEYS_LOST = new Set(['WORKER_UNREACHABLE', 'KEY_RECORD_MISSING', 'SHARE_SETS_USED_UP']);

/** What becomes of a share that was checked while its epoch ended. */
const ANOTHER_ROUND = { code: 'wrong-epoch', text: ENVELOPE_VERDICTS['wrong-epoch'] };

/**
 * Collects sealed key shares from separate holders. Shares stay sealed until enough are in hand, and then go to the
 * service in one short burst per cluster. What is made of them is for the subclass to say.
 */
export abstract class ShareCollection {
  readonly #run: Run;
  readonly #deployment: string;
  readonly #cid = uuid4();
  #handle: CeremonyHandle | undefined;
  #fingerprint: string | undefined;
  #shares = new HeldShares();
  #roster: Roster | undefined;
  /** Code of the failure with which the keys turned out to be gone while shares were collected. */
  #keysLost: string | undefined;
  #inviting: Promise<void> | undefined;
  #closed = false;
  readonly #bursts: BurstSettlement;
  /** What people may decide while shares are collected inside an outage. */
  #waysOut: readonly Choice[] = [LEAVE];

  constructor(run: Run, deployment: string) {
    this.#run = run;
    this.#deployment = deployment;
    this.#bursts = new BurstSettlement(run);
  }

  /** Makes the keys and the signed invitation of one epoch. */
  protected abstract create(
    call: StepCalls,
    round: { readonly epoch: number; readonly cid: string },
  ): Promise<CeremonyHandle & { readonly fingerprint: string }>;

  /** Checks what arrived, where the keys are. */
  protected check(
    call: StepCalls,
    input: Parameters<StepCalls['openEnvelopes']>[0],
  ): ReturnType<StepCalls['openEnvelopes']> {
    return call.openEnvelopes(input);
  }

  /** The fingerprint that tells our generation attempt from another's. */
  get fingerprint(): string | undefined {
    return this.#fingerprint;
  }

  /** Root tokens, encrypted to their recipient, that the run hands on. */
  get inHand(): readonly string[] {
    return [];
  }

  /** Whether the keys are destroyed, or about to be. */
  protected get closed(): boolean {
    return this.#closed;
  }

  /** Invites the holders, unless an earlier part of the run did and they can still answer. */
  async ready(): Promise<void> {
    const handle = this.#handle;
    if (handle && (this.#complete || Date.now() < handle.collectUntil - COLLECTING_LEFT_MS)) return;
    await this.invite();
  }

  /** Makes keys and invitation; from here on envelopes are accepted. */
  async invite(): Promise<void> {
    const epoch = (this.#handle?.epoch ?? 0) + 1;
    const name = epoch === 1 ? 'Invite the key holders' : `Invite the key holders again (epoch ${epoch})`;
    const made = await this.#run.step(name, (call) => this.create(call, { epoch, cid: this.#cid }), {
      note: invitedInWords,
    });
    const { fingerprint, ...handle } = made;
    this.#handle = handle;
    this.#fingerprint = fingerprint;
    this.#shares = new HeldShares(handle.threshold);
    this.#keysLost = undefined;
    this.#run.state.invitation = handle.invitation;
    const roster = new Roster(
      this.#run,
      handle,
      {
        inHand: () => this.#shares.inHand,
        show: () => this.#showAgain(),
        tell: (...told) => this.#run.state.notifications.ofWait('shares', ...told),
      },
      this.#roster,
    );
    this.#roster = roster;
    this.#run.signals.on('share', (items) => this.#receive(items));
    this.#run.signals.on('decline', (items) => roster.decline(items));
  }

  /** Waits until enough envelopes are in hand. People are waited for here. */
  async collect(): Promise<void> {
    while (!this.#complete) {
      const handle = this.#required();
      await this.#collectOnce(handle);
      if (this.#keysLost !== undefined) await this.#inviteAgain(this.#keysLost, handle.epoch);
    }
  }

  async #collectOnce(handle: CeremonyHandle): Promise<void> {
    this.#show();
    const done = () => this.#complete || this.#keysLost !== undefined;
    const leftMs = Math.max(1000, handle.collectUntil - Date.now());
    let over = false;
    this.#roster?.watch(() => over || done());
    try {
      if (this.#run.inOutage) return await this.#collectInOutage(done, leftMs);
      const inTime = await this.#run.waitFor(done, leftMs);
      this.#run.state.waitOver('shares');
      if (inTime) return;
      // A failover is in the outage from its beginning: no clock ends it, and the holders are asked with new keys.
      if (this.#run.state.serviceIsOut) this.#keysLost = 'EXPIRED';
      else throw this.#run.stop(new RunStopped('the clock', this.#roster?.notInTime() ?? ''));
    } finally {
      over = true;
    }
  }

  /** No cluster is primary: the clock never ends this wait, and people may go another way meanwhile. */
  async #collectInOutage(done: () => boolean, leftMs: number): Promise<void> {
    const decision = await this.#run.decisionWhile(
      'Collect key shares in the outage',
      {
        code: 'SHARES_MISSING',
        message: 'No cluster is primary, and the token for the next promotion needs key shares again.',
        next: 'The holders give their shares; or decide for another way.',
        outcomeKnown: true,
      },
      this.#waysOut,
      done,
      leftMs,
    );
    this.#run.state.waitOver('shares');
    if (decision) {
      const { action } = decision;
      throw new OutageDecision(action === 'promote-secondary' || action === 'promote-back' ? action : 'leave');
    }
    if (!done()) this.#keysLost = 'EXPIRED';
  }

  /**
   * One burst: starts the attempt, sends the shares, takes the token. Asks for a further share only where one was
   * rejected.
   *
   * @param parked - choices beside `retry` where the burst parks; with `skipEffect` people may skip it
   * @returns undefined where it was skipped
   */
  protected async burst<R extends BurstResult>(
    { name, cluster, kind = 'operation-token', call: generate }: Burst<R>,
    parked: Parked = {},
  ): Promise<R | undefined> {
    this.#waysOut = parked.choices ?? [LEAVE];
    for (;;) {
      const ceremony = this.#required();
      try {
        const given = () => ({ envelopes: this.#shares.envelopes, ...alarmsTold(this.#run.state.findings) });
        const body = (call: StepCalls) =>
          this.#bursts.during(ceremony, cluster, kind, () => generate(call, { ceremony, ...given() }));
        const options: StepOptions<R> = {
          note: (made) => (made.attempts > 1 ? `${made.attempts} attempts` : undefined),
          choices: parked.choices,
          remedy: (failure) =>
            foreignAttemptRemedy(this.#run.state, { deployment: this.#deployment, cluster, kind }, failure),
          leaveToRunbook: (failure) => areUnfit(failure) || KEYS_LOST.has(failure.code),
        };
        const result =
          parked.skipEffect === undefined
            ? await this.#run.step(name, body, options)
            : await this.#run.skippableStep(name, parked.skipEffect, body, options);
        if (!result) return undefined;
        if (result.closeAfterwards) this.#tellOpen(cluster, result.closeAfterwards);
        return result;
      } catch (error) {
        if (!(error instanceof StepFailed)) throw error;
        if (KEYS_LOST.has(error.failure.code)) {
          await this.#inviteAgain(error.failure.code, ceremony.epoch);
        } else {
          this.#run.state.finding({
            severity: 'warning',
            code: 'shares-rejected',
            text: `The key shares in hand made no token on ${cluster}. ${error.failure.message} Observed: ${error.failure.observed ?? 'nothing more'}.`,
            next: 'A holder corrects his share, or one more holder gives his: subsets are then tried until the bad one is proven.',
          });
          this.#shares.rejected();
        }
        await this.collect();
      }
    }
  }

  /** The cluster lets everybody hold a ceremony: whoever opened its calls closes them again. */
  #tellOpen(cluster: string, close: readonly string[]): void {
    const { state } = this.#run;
    const text = `The ceremony calls of ${cluster} were open to everybody when its token was generated.`;
    const left = `${text} ${close.join(' ')}`;
    if (state.leftToDo.includes(left)) return;
    state.finding({ severity: 'warning', code: 'ceremony-calls-open', text, next: close.join(' ') });
    state.leftToDo.push(left);
  }

  /** Destroys the keys: recorded envelopes cannot be opened any more. */
  async close(): Promise<void> {
    this.#closed = true;
    const ceremony = this.#handle;
    if (!ceremony) return;
    this.#stopAsking();
    this.#run.state.invitation = undefined;
    await this.#run.skippableStep(
      'Destroy the ceremony keys',
      'the sweeper of the worker destroys them when the invitation has expired',
      (call) => this.#bursts.destroyKeys(call, ceremony, this.inHand),
      { note: (result) => result.text },
    );
    this.#handle = undefined;
  }

  /** As {@link close}, for a run that ends early: a failure becomes a finding and never holds the lock. */
  async abandon(): Promise<void> {
    this.#closed = true;
    const ceremony = this.#handle;
    if (!ceremony) return;
    this.#stopAsking();
    this.#handle = undefined;
    this.#run.state.waitOver('shares');
    await this.#run.cleanUp('Destroy the ceremony keys', async (call) => {
      await this.#bursts.destroyKeys(call, ceremony, this.inHand);
    });
  }

  #stopAsking(): void {
    for (const name of ['share', 'decline'] as const) this.#run.signals.on(name, undefined);
  }

  /** A new epoch; branches that find the same keys lost share it, so that nobody is asked twice. */
  async #inviteAgain(code: string, lostEpoch: number): Promise<void> {
    if (this.#required().epoch !== lostEpoch) return;
    this.#inviting ??= this.#newEpoch(code, lostEpoch);
    try {
      await this.#inviting;
    } finally {
      this.#inviting = undefined;
    }
  }

  async #newEpoch(code: string, lostEpoch: number): Promise<void> {
    this.#run.state.finding({
      severity: 'warning',
      code: 'ceremony-keys-lost',
      text: `${whyAgain(code, lostEpoch)}; the holders are asked again.`,
    });
    await this.invite();
  }

  async #receive(items: readonly InboxItem[]): Promise<void> {
    const handle = this.#required();
    try {
      await this.#open(handle, items);
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      // Where enough shares are in hand, the burst finds out for itself whether the keys are there.
      const lost = KEYS_LOST.has(failure.code) && this.#isCurrent(handle) && !this.#complete;
      if (lost) this.#keysLost = failure.code;
      const verdict = {
        code: lost ? 'keys-gone' : 'not-checked',
        text: lost
          ? 'refused: the keys of this ceremony are gone; a new invitation follows'
          : `could not be checked now (${failure.code}); send it again`,
      };
      receiveVerdicts(
        this.#run.state,
        items.map(({ arrival }) => ({ arrival, ...(this.#isPast(handle) ? ANOTHER_ROUND : verdict) })),
      );
    }
    this.#showAgain();
  }

  async #open(ceremony: CeremonyHandle, items: readonly InboxItem[]): Promise<void> {
    const { verdicts } = await this.#run.state.besideSteps('Check key shares', () =>
      this.check(activities, {
        deployment: this.#deployment,
        ceremony,
        held: this.#shares.envelopes,
        arrived: items.map(({ arrival }) => arrival),
      }),
    );
    // What the keys of an earlier epoch opened is of no use with those of this one.
    const past = this.#isPast(ceremony);
    receiveVerdicts(
      this.#run.state,
      past ? verdicts.map((each) => (each.code === 'accepted' ? { ...each, ...ANOTHER_ROUND } : each)) : verdicts,
    );
    if (this.#isCurrent(ceremony)) {
      this.#keysLost = undefined;
      this.#shares.take(items, verdicts);
    }
  }

  #isCurrent({ epoch }: CeremonyHandle): boolean {
    return this.#handle?.epoch === epoch;
  }

  /** Whether the holders were asked anew meanwhile. */
  #isPast(handle: CeremonyHandle): boolean {
    return this.#handle !== undefined && !this.#isCurrent(handle);
  }

  /** Whether the shares in hand are enough for a burst. */
  get #complete(): boolean {
    return this.#roster?.suffices(this.#shares.inHand) ?? false;
  }

  #show(): void {
    if (this.#roster) this.#run.state.wait('shares', this.#roster.waiting(this.#shares.inHand));
  }

  /** What was being checked when the run was stopped comes after the end of the ceremony. */
  #showAgain(): void {
    if (this.#handle && this.#run.state.waiting.has('shares')) this.#show();
  }

  #required(): CeremonyHandle {
    if (!this.#handle) throw new TypeError('the ceremony has no invitation yet');
    return this.#handle;
  }
}

function invitedInWords({ threshold, holders, standBy = [] }: CeremonyHandle): string {
  const aside = standBy.length === 0 ? '' : `, ${standBy.length} of them standing by`;
  return `${threshold} of ${holders.length} holders needed${aside}`;
}
