import { uuid4 } from '@temporalio/workflow';
import type { CeremonyHandle, CeremonyTarget, EnvelopeVerdict } from '../../src/contracts/ceremony';
import { holdsKeyShare } from '../../src/contracts/plain-shares';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { InboxItem } from '../../src/contracts/signals';
import type { StepCalls } from '../engine/activity-calls';
import { activities } from '../engine/activity-calls';
import { OutageDecision, RunStopped, failureFacts } from '../engine/failures';
import type { Choice } from '../engine/parking';
import { ABORT, LEAVE } from '../engine/parking';
import type { Run } from '../engine/run';
import { receiveVerdicts } from '../engine/holder-signals';

/** Codes after which the keys cannot be used any more: people are asked again, in a new epoch. */
export const KEYS_LOST: ReadonlySet<string> = new Set(['WORKER_UNREACHABLE', 'KEY_RECORD_MISSING']);

/** What becomes of what was checked while its epoch ended. */
const ANOTHER_ROUND = { code: 'wrong-epoch', text: ENVELOPE_VERDICTS['wrong-epoch'] };

/** What people may decide where a token is waited for, or generated. */
export interface Parked {
  /** Beside `retry`. */
  readonly choices?: readonly Choice[] | undefined;
  /** People may skip it; says what skipping leaves behind. */
  readonly skipEffect?: string | undefined;
}

/** What is waited for inside an outage, or where it may be skipped. */
interface Wanted extends Parked {
  readonly step: string;
  readonly code: 'SHARES_MISSING' | 'TOKEN_MISSING';
  readonly message: string;
  readonly next: string;
}

/** The names of what a collection does, and what people give to it. */
interface CollectionWords {
  /** Name of the step. */
  readonly invite: string;
  readonly check: string;
  readonly destroy: string;
  readonly destroySkipped: string;
  readonly gives?: 'token';
}

/**
 * Collects what people seal to keys that were made for it: an invitation, answers that are checked and opened where the
 * keys are, and the keys destroyed. Where the keys are lost people are invited again, in a new epoch.
 */
export abstract class Collection {
  protected readonly run: Run;
  protected readonly deployment: string;
  protected handle: CeremonyHandle | undefined;
  /** Code of the failure with which the keys turned out to be gone. */
  protected keysLost: string | undefined;
  /** Whether the keys are destroyed, or about to be. */
  protected closed = false;
  readonly #cid = uuid4();
  readonly #words: CollectionWords;
  #fingerprint: string | undefined;
  #inviting: Promise<void> | undefined;

  constructor(run: Run, deployment: string, words: CollectionWords) {
    this.run = run;
    this.deployment = deployment;
    this.#words = words;
  }

  /** Makes the keys and the signed invitation of one epoch. */
  protected abstract create(
    call: StepCalls,
    round: { readonly epoch: number; readonly cid: string },
  ): Promise<CeremonyHandle & { readonly fingerprint?: string }>;

  /** Checks what arrived, where the keys are. `take` keeps what counts, where its epoch is still the present one. */
  protected abstract check(
    call: StepCalls,
    ceremony: CeremonyHandle,
    arrived: readonly number[],
  ): Promise<{ readonly verdicts: readonly EnvelopeVerdict[]; readonly take: () => void }>;

  /** Shows what is waited for, where it is waited for. */
  protected abstract show(): void;

  /** What follows an invitation. */
  protected invited(_ceremony: CeremonyHandle): void {
    return;
  }

  /** What is done with the keys about to be destroyed. */
  protected async ending(_call: StepCalls): Promise<void> {
    return Promise.resolve();
  }

  /** Whether nothing more is needed of the keys while people answer. */
  protected get complete(): boolean {
    return false;
  }

  /** The fingerprint that tells our generation attempt from another's. */
  get fingerprint(): string | undefined {
    return this.#fingerprint;
  }

  /** Makes keys and invitation; from here on envelopes are accepted. */
  async invite(): Promise<void> {
    const epoch = (this.handle?.epoch ?? 0) + 1;
    const { invite } = this.#words;
    const name = epoch === 1 ? invite : `${invite} again (epoch ${epoch})`;
    const made = await this.run.step(name, (call) => this.create(call, { epoch, cid: this.#cid }));
    const { fingerprint, ...handle } = made;
    this.handle = handle;
    this.#fingerprint = fingerprint;
    this.keysLost = undefined;
    this.run.state.invitation = handle.invitation;
    this.run.signals.on('share', (items) => this.#receive(items));
    this.invited(handle);
  }

  /** A new epoch; branches that find the same keys lost share it, so that nobody is asked twice. */
  protected async inviteAgain(text: string, lostEpoch: number): Promise<void> {
    if (this.required().epoch !== lostEpoch) return;
    this.#inviting ??= (async () => {
      this.run.state.finding({ severity: 'warning', code: 'ceremony-keys-lost', text });
      await this.invite();
    })();
    try {
      await this.#inviting;
    } finally {
      this.#inviting = undefined;
    }
  }

  /** Destroys the keys: recorded envelopes cannot be opened any more. */
  async close(): Promise<void> {
    const ceremony = this.#stopAsking();
    if (!ceremony) return;
    const { destroy, destroySkipped } = this.#words;
    await this.run.skippableStep(destroy, destroySkipped, async (call) => {
      await this.ending(call);
      return call.destroyCeremonyKeys({ ceremony });
    });
  }

  /** As {@link close}, for a run that ends early: a failure becomes a finding and never holds the lock. */
  async abandon(): Promise<void> {
    const ceremony = this.#stopAsking();
    if (!ceremony) return;
    await this.run.cleanUp(this.#words.destroy, async (call) => {
      await this.ending(call);
      await call.destroyCeremonyKeys({ ceremony });
    });
  }

  #stopAsking(): CeremonyHandle | undefined {
    const ceremony = this.handle;
    this.closed = true;
    this.handle = undefined;
    if (!ceremony) return undefined;
    this.run.signals.on('share', undefined);
    this.run.state.invitation = undefined;
    return ceremony;
  }

  async #receive(items: readonly InboxItem[]): Promise<void> {
    const ceremony = this.required();
    const { state } = this.run;
    const { check, gives } = this.#words;
    try {
      const arrived = items.map(({ arrival }) => arrival);
      const { verdicts, take } = await state.besideSteps(check, () => this.check(activities, ceremony, arrived));
      // What the keys of an earlier epoch opened is of no use with those of this one.
      const past = this.#isPast(ceremony);
      const known = verdicts.map((each) => (past && each.code === 'accepted' ? { ...each, ...ANOTHER_ROUND } : each));
      receiveVerdicts(state, known, gives);
      if (past || !this.handle) return;
      this.keysLost = undefined;
      take();
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      receiveVerdicts(state, this.#unchecked(items, ceremony, failure.code), gives);
    }
    if (this.handle) this.show();
  }

  /** Where enough is in hand, the token generation finds out for itself whether the keys are there. */
  #unchecked(items: readonly InboxItem[], ceremony: CeremonyHandle, code: string): EnvelopeVerdict[] {
    const past = this.#isPast(ceremony);
    const lost = KEYS_LOST.has(code) && !past && !this.complete;
    if (lost) this.keysLost = code;
    const verdict = lost
      ? { code: 'keys-gone', text: 'refused: the keys of this ceremony are gone; a new invitation follows' }
      : { code: 'not-checked', text: `could not be checked now (${code}); send it again` };
    const plain = { code: 'plain-text-share', text: ENVELOPE_VERDICTS['plain-text-share'] };
    return items.map(({ arrival, input }) => ({
      arrival,
      ...(holdsKeyShare(input) ? plain : past ? ANOTHER_ROUND : verdict),
    }));
  }

  /** Whether people were asked anew meanwhile. */
  #isPast({ epoch }: CeremonyHandle): boolean {
    return this.handle !== undefined && this.handle.epoch !== epoch;
  }

  protected required(): CeremonyHandle {
    if (!this.handle) throw new TypeError('nobody was asked yet');
    return this.handle;
  }

  /**
   * Waits for people inside an outage, or where they may skip it: the clock never ends this wait, and they may go another way.
   * Where the time to answer is over the keys count as lost, so that people are asked anew.
   *
   * @returns whether it was skipped
   * @throws RunStopped, or OutageDecision inside an outage
   */
  protected async waitOrDecide(done: () => boolean, { step, code, message, next, choices, skipEffect }: Wanted) {
    const run = this.run;
    const skip: readonly Choice[] = skipEffect === undefined ? [] : [{ action: 'skip', effect: skipEffect }];
    const ways = [...skip, ...(choices ?? [run.inOutage ? LEAVE : ABORT])];
    const failure = { code, message, next, outcomeKnown: true };
    const decision = await run.decisionWhile(step, failure, ways, done, this.leftMs);
    if (!decision && !done()) this.keysLost = 'EXPIRED';
    if (!decision || decision.action === 'retry') return false;
    const { action, by, reason } = decision;
    if (action === 'skip') {
      run.state.left.add(`"${step}" was skipped: ${skipEffect ?? ''}.`);
      return true;
    }
    if (action === 'abort') throw run.stop(new RunStopped(by.name, reason));
    throw new OutageDecision(action === 'promote-secondary' || action === 'promote-back' ? action : 'leave');
  }

  /** For how long people may still answer. */
  protected get leftMs(): number {
    return Math.max(1000, this.required().collectUntil - Date.now());
  }
}

/** Whether people were asked for this, so that nobody has to be asked again. */
export function areAsked(targets: readonly CeremonyTarget[], { cluster, uses }: CeremonyTarget): boolean {
  const target = targets.find((each) => each.cluster === cluster);
  return target !== undefined && uses.every((use) => target.uses.includes(use));
}
