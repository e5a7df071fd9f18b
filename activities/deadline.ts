/** The time-out of one changing HTTP request, ms. Shorter than what Temporal waits before another attempt. */
export const CHANGE_TIMEOUT_MS = 8_000;

/** What is waited for by time alone, ms. No configuration has it: only tests give shorter times. */
export const TIMING = {
  /** How long a changing request can be under way without an answer. */
  underWayMs: CHANGE_TIMEOUT_MS,
  /** Longer than a promotion without an answer can be under way. */
  settleMs: CHANGE_TIMEOUT_MS + 1_000,
  /** For how long standbys may lag behind their active node right after a change of roles. */
  lagMs: 5_000,
  /** How long a successor may take to have the last writes where a loss is accepted: whether one can be excluded depends on it. */
  momentMs: 1_000,
  /** How long a cluster that was just promoted may refuse good tokens. */
  refusedMs: 2_000,
  /** How long a quota may take to reach every node. */
  quotaMs: 10_000,
  /** Between two reads while a state is awaited. */
  pollMs: 300,
  /** Between refusals of a token that together prove something of it: a node that restarts refuses living ones too. */
  refusalMs: 500,
};
export type Timing = Readonly<typeof TIMING>;

/** Polls that must have said "not there" or failed before a deadline ends, where nothing else is given. */
const MIN_POLLS = 4;

/**
 * Time to wait for a state, on the monotonic clock. It never ends on the strength of the clock alone: some polls must
 * have failed, and the last of them must have begun after the end. So a worker that stood still looks once more.
 */
export class Deadline {
  readonly #ends: number;
  #polls = 0;
  #polledAfter = false;

  /** @param spentMs - of it, in attempts of the activity before this one */
  constructor(
    readonly ms: number,
    readonly minPolls = MIN_POLLS,
    spentMs = 0,
  ) {
    this.#ends = performance.now() + Math.max(0, ms - spentMs);
  }

  /** One look at the state. */
  async poll<T>(read: () => Promise<T>): Promise<T> {
    const after = this.leftMs === 0;
    try {
      return await read();
    } finally {
      this.#polls += 1;
      this.#polledAfter = after;
    }
  }

  /** Time that is left, ms. */
  get leftMs(): number {
    return Math.max(0, this.#ends - performance.now());
  }

  get isOver(): boolean {
    return this.#polledAfter && this.#polls >= this.minPolls;
  }

  /** For errors: `60 s`. */
  get inWords(): string {
    return `${this.ms / 1000} s`;
  }
}
