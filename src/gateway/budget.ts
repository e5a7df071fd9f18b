/** A burst, and then one every ten seconds: more than any person sends, and little beside what a run can take. */
const BURST = 20;
const MS_PER_MESSAGE = 10_000;
/** Senders that are remembered at once. Each needs a certificate of its own, or an address of this host. */
const MOST_SENDERS = 10_000;

/** How much each sender may still send: one token bucket by sender, in bounded memory. */
export class Budget {
  /** When the bucket of a sender is full again. Absent: it is full. */
  readonly #fullAt = new Map<string, number>();

  /**
   * @param burst - so many at once
   * @param msPerMessage - and then one in this time
   */
  constructor(
    private readonly now: () => number = () => performance.now(),
    private readonly burst = BURST,
    private readonly msPerMessage = MS_PER_MESSAGE,
  ) {}

  /** Whether the sender may send one more message now. */
  take(sender: string): boolean {
    const now = this.now();
    const fullAt = Math.max(now, this.#fullAt.get(sender) ?? now) + this.msPerMessage;
    if (fullAt - now > this.burst * this.msPerMessage) return false;
    if (!this.#fullAt.has(sender) && this.#fullAt.size >= MOST_SENDERS && !this.#forget(now)) return false;
    this.#fullAt.set(sender, fullAt);
    return true;
  }

  /** Forgets whose bucket is full. Whoever still has less is never forgotten: that would give a whole new bucket. */
  #forget(now: number): boolean {
    for (const [sender, fullAt] of this.#fullAt) if (fullAt <= now) this.#fullAt.delete(sender);
    return this.#fullAt.size < MOST_SENDERS;
  }
}
