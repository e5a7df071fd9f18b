import type { SimulatedCluster } from './cluster';

/** At most this many writes are made up for after a long pause without any call. */
const LARGEST_BURST = 10_000;

/** What a cluster writes without clients: its canary, and the load that a test or the demo asks for. */
export class BackgroundWriters {
  #load: { perSecond: number; startedAt: number; done: number } | undefined;
  #nextCanaryAt = 0;

  constructor(private readonly cluster: SimulatedCluster) {}

  start(perSecond: number, now: number): void {
    this.#load = { perSecond, startedAt: now, done: 0 };
  }

  stop(): void {
    this.#load = undefined;
  }

  /** Makes the writes that are due, each with the time at which it was due. */
  advance(now: number): void {
    this.#canary(now);
    const load = this.#load;
    if (load === undefined) {
      return;
    }
    const due = Math.floor(((now - load.startedAt) / 1_000) * load.perSecond);
    load.done = Math.max(load.done, due - LARGEST_BURST);
    while (load.done < due) {
      load.done += 1;
      const at = load.startedAt + (load.done * 1_000) / load.perSecond;
      if (this.#writable(at)) {
        const data = { sequence: load.done };
        this.cluster.storage.write(`data/secret/background/${load.done % 100}`, { type: 'secret', data }, at);
      }
    }
  }

  /** One canary at the given time, whenever the next one is due. */
  canary(now: number): void {
    const mayBeShared = this.cluster.effectiveRole('performance').mode !== 'secondary';
    this.cluster.storage.write(mayBeShared ? 'canary' : 'cluster/canary', { type: 'canary', at: now }, now);
  }

  #canary(now: number): void {
    const interval = this.cluster.timing.canaryMs;
    if (interval <= 0 || now < this.#nextCanaryAt) {
      return;
    }
    const first = this.#nextCanaryAt === 0;
    this.#nextCanaryAt = now + interval;
    const primary = (['dr', 'performance'] as const).some(
      (kind) => this.cluster.effectiveRole(kind).mode === 'primary',
    );
    if (!first && primary && this.#writable(now)) {
      this.canary(now);
    }
  }

  #writable(now: number): boolean {
    return this.cluster.leadership.serving(now) !== undefined && !this.cluster.isDrSecondary;
  }
}
