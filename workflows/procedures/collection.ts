import { uuid4 } from '@temporalio/workflow';
import type { CeremonyHandle, EnvelopeVerdict } from '../../src/contracts/ceremony';
import { holdsKeyShare } from '../../src/contracts/plain-shares';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { InboxItem } from '../../src/contracts/signals';
import type { StepCalls } from '../engine/activity-calls';
import { activities } from '../engine/activity-calls';
import { failureFacts } from '../engine/failures';
import type { Run } from '../engine/run';
import { receiveVerdicts } from '../engine/holder-signals';

/** Codes after which the keys cannot be used any more. */
export const KEYS_LOST: ReadonlySet<string> = new Set(['WORKER_UNREACHABLE', 'KEY_RECORD_MISSING']);

/** What becomes of what was checked while its epoch ended. */
const ANOTHER_ROUND = { code: 'wrong-epoch', text: ENVELOPE_VERDICTS['wrong-epoch'] };

/** Names of the steps of a collection, and what people give to it. */
interface CollectionWords {
  readonly invite: string;
  readonly check: string;
  readonly gives?: 'token';
}

const DESTROY = 'Destroy the ceremony keys';

/**
 * Collects what people seal to keys that were made for it: an invitation, answers that are checked and opened where the
 * keys are, and the keys destroyed. Another invitation begins a new epoch, with new keys.
 */
export abstract class Collection {
  protected handle: CeremonyHandle | undefined;
  /** Code of the failure with which the keys turned out to be gone. */
  protected keysLost: string | undefined;
  /** Whether the keys are destroyed, or about to be. */
  protected closed = false;
  readonly #cid = uuid4();
  #fingerprint: string | undefined;

  constructor(
    protected readonly run: Run,
    protected readonly deployment: string,
    private readonly words: CollectionWords,
  ) {}

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
  protected show(): void {
    return;
  }

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
    const { invite } = this.words;
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

  /** Destroys the keys: recorded envelopes cannot be opened any more. */
  async close(): Promise<void> {
    const effect = 'the sweeper of the worker destroys them when the invitation has expired';
    await this.#end((destroy) => this.run.skippableStep(DESTROY, effect, destroy));
  }

  /** As {@link close}, for a run that ends early: a failure becomes a finding and never holds the lock. */
  async abandon(): Promise<void> {
    await this.#end((destroy) => this.run.cleanUp(DESTROY, destroy));
  }

  async #end(carryOut: (destroy: (call: StepCalls) => Promise<void>) => Promise<unknown>): Promise<void> {
    const ceremony = this.handle;
    this.closed = true;
    this.handle = undefined;
    if (!ceremony) return;
    this.run.signals.on('share', undefined);
    this.run.state.invitation = undefined;
    await carryOut(async (call) => {
      await this.ending(call);
      await call.destroyCeremonyKeys({ ceremony });
    });
  }

  async #receive(items: readonly InboxItem[]): Promise<void> {
    const ceremony = this.required();
    const { state } = this.run;
    const { check, gives } = this.words;
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
      ? { code: 'keys-gone', text: 'refused: the keys of this invitation are gone: it counts for nothing' }
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

  /** For how long people may still answer. */
  protected get leftMs(): number {
    return Math.max(1000, this.required().collectUntil - Date.now());
  }
}
