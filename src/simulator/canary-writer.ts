import type { SimulatedCluster } from './cluster';

/** What a primary writes without clients: its canary. */
export class CanaryWriter {
  #nextCanaryAt = 0;

  constructor(private readonly cluster: SimulatedCluster) {}

  /** One canary at the given time, whenever the next one is due. */
  canary(now: number): void {
    const mayBeShared = this.cluster.effectiveRole('performance').mode !== 'secondary';
    this.cluster.storage.write(mayBeShared ? 'canary' : 'cluster/canary', { type: 'canary', at: now }, now);
  }

  /** Writes one where it is due. */
  advance(now: number): void {
    const interval = this.cluster.timing.canaryMs;
    if (interval <= 0 || now < this.#nextCanaryAt) return;
    const isFirst = this.#nextCanaryAt === 0;
    this.#nextCanaryAt = now + interval;
    const kinds = ['dr', 'performance'] as const;
    const isPrimary = kinds.some((kind) => this.cluster.effectiveRole(kind).mode === 'primary');
    if (!isFirst && isPrimary && !this.cluster.isDrSecondary && this.cluster.leadership.serving(now)) this.canary(now);
  }
}
