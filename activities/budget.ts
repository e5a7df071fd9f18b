/** Between two turns of the watch, ms. */
const TURN_MS = 100;
/** A turn that comes this late says that the process stood still, and not only that it was busy, ms. */
const STANDSTILL_MS = 500;
/** Once the standstills of one budget add up to this, further ones count like other time, ms. */
const FORGIVEN_MS = 30_000;
/** Looks since the last standstill that must have said "not there" or failed before a budget ends, where nothing else is given. */
const LEAST_LOOKS = 4;

/** How long this process stood still, as far as somebody watched: a blocked event loop, a paused machine. */
class ProcessWatch {
  stoodStillMs = 0;
  #watchers = 0;
  #lastTurn = 0;
  #timer: NodeJS.Timeout | undefined;

  async during<T>(body: () => Promise<T>): Promise<T> {
    if (this.#watchers === 0) {
      this.#lastTurn = performance.now();
      this.#timer = setInterval(() => this.turn(), TURN_MS);
    }
    this.#watchers += 1;
    try {
      return await body();
    } finally {
      this.turn();
      this.#watchers -= 1;
      if (this.#watchers === 0) clearInterval(this.#timer);
    }
  }

  /** Also called by who asks: a standstill may be over without a turn since. */
  turn(): void {
    if (this.#watchers === 0) return;
    const now = performance.now();
    const gap = now - this.#lastTurn;
    this.#lastTurn = now;
    if (gap > STANDSTILL_MS) this.stoodStillMs += gap;
  }
}

const watch = new ProcessWatch();

/**
 * Time to wait for a state. It never ends on the strength of a clock alone: time in which this process stood still does
 * not count, and it ends only after some looks that began after the last standstill.
 */
export class Budget {
  readonly #began = performance.now();
  #seenMs = watch.stoodStillMs;
  #forgivenMs = 0;
  #looks = 0;

  constructor(
    readonly ms: number,
    readonly leastLooks = LEAST_LOOKS,
  ) {}

  /** Watches for standstills while the body runs. Without it all time counts. */
  during<T>(body: () => Promise<T>): Promise<T> {
    return watch.during(body);
  }

  /** One look at the state. It counts where the process did not stand still during it. */
  async look<T>(read: () => Promise<T>): Promise<T> {
    const before = this.stoodStillMs;
    try {
      return await read();
    } finally {
      if (this.stoodStillMs === before) this.looked();
    }
  }

  looked(): void {
    this.#looks += 1;
  }

  /** How long the process stood still in this budget, as far as that did not count, ms. */
  get stoodStillMs(): number {
    watch.turn();
    const more = watch.stoodStillMs - this.#seenMs;
    this.#seenMs += more;
    if (more > 0 && this.#forgivenMs < FORGIVEN_MS) {
      this.#forgivenMs += more;
      this.#looks = 0;
    }
    return this.#forgivenMs;
  }

  /** Time that is left; looks are not counted in it. */
  get leftMs(): number {
    return Math.max(0, this.ms - (performance.now() - this.#began - this.stoodStillMs));
  }

  get isOver(): boolean {
    return this.leftMs === 0 && this.#looks >= this.leastLooks;
  }

  /** For errors: `60 s`, and that the worker stood still. */
  get inWords(): string {
    const stood = Math.round(this.stoodStillMs / 1000);
    return `${this.ms / 1000} s${stood > 0 ? `, beside ${stood} s in which this worker stood still` : ''}`;
  }
}
