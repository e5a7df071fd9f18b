import type { Envelope, EnvelopeVerdict } from '../../src/contracts/ceremony';
import type { InboxItem } from '../../src/contracts/signals';
import type { InHand } from './roster';

/** A share in hand, as it arrived. */
export interface HeldShare {
  readonly holder: string;
  readonly seq: number;
  readonly envelope: Envelope;
}

/** The shares of one epoch that were accepted, each holder's latest one, and how many are needed. */
export class HeldShares {
  readonly #shares: HeldShare[] = [];
  readonly #threshold: number;
  /** More than the threshold once the service rejected some. */
  #needed: number;

  constructor(threshold = 0) {
    this.#threshold = threshold;
    this.#needed = threshold;
  }

  get inHand(): InHand {
    return { held: this.#shares.map(({ holder }) => holder), needed: this.#needed };
  }

  get envelopes(): readonly Envelope[] {
    return this.#shares.map(({ envelope }) => envelope);
  }

  /** Takes what was accepted out of a batch of signals. */
  take(items: readonly InboxItem[], verdicts: readonly EnvelopeVerdict[]): void {
    for (const { arrival, code, holder, seq } of verdicts) {
      const envelope = envelopeOf(items.find((each) => each.arrival === arrival)?.input);
      if (code !== 'accepted' || !holder || seq === undefined || envelope === undefined) continue;
      const earlier = this.#shares.findIndex((each) => each.holder === holder.name);
      // A corrected share takes the place of the old one and makes a rejected set worth another try.
      if (earlier >= 0) {
        this.#shares.splice(earlier, 1);
        this.#needed = Math.max(this.#threshold, Math.min(this.#needed, this.#shares.length + 1));
      }
      this.#shares.push({ holder: holder.name, seq, envelope });
    }
  }

  /** The service rejected what is in hand: one more share, or a corrected one, makes another try worth it. */
  rejected(): void {
    this.#needed = this.#shares.length + 1;
  }
}

/** An envelope as it travels: the JWS, alone or as `{document: "<JWS>"}`, or the plain object of a holder without a key. */
function envelopeOf(input: unknown): Envelope | undefined {
  if (typeof input === 'string') return input;
  if (typeof input !== 'object' || input === null) return undefined;
  const members = input as Record<string, unknown>;
  return typeof members['document'] === 'string' ? members['document'] : members;
}
