import type { SimulatedCluster } from './cluster';
import type { SimulatedNode } from './node';
import type { SeededRandom } from './random';

/** Which node of a cluster is active, and the times at which none is. */
export class Leadership {
  /** The active node, also while the cluster restarts its subsystems. */
  active: SimulatedNode | undefined;
  /** Milliseconds since the epoch; when the node that is active now became it. */
  activeSince = 0;
  restartEndsAt = 0;
  #former: SimulatedNode | undefined;
  #electionEndsAt = 0;
  #preferred: SimulatedNode | undefined;

  constructor(
    private readonly cluster: SimulatedCluster,
    private readonly random: SeededRandom,
  ) {}

  /** While no node is active: the one that was until then. It stands in the storage, for as long as nobody writes another. */
  get former(): SimulatedNode | undefined {
    return this.active === undefined ? this.#former : undefined;
  }

  restarting(now: number): boolean {
    return now < this.restartEndsAt;
  }

  /** An active node that serves requests. */
  serving(now: number): SimulatedNode | undefined {
    return this.restarting(now) ? undefined : this.active;
  }

  /** Brings leadership up to date with the state of the nodes. */
  settle(now: number): void {
    const eligible = this.#eligible();
    const hasQuorum = eligible.length * 2 > this.cluster.nodes.length;
    if (this.active !== undefined && !(eligible.includes(this.active) && hasQuorum)) this.#leave(now);
    if (this.active !== undefined || now < this.#electionEndsAt || !hasQuorum) return;
    const next = eligible.find((node) => node === this.#preferred) ?? eligible[0];
    if (next === undefined) return;
    this.#preferred = undefined;
    this.install(next, now);
    this.cluster.becameActive(now);
  }

  /** Makes a node active at once. */
  install(node: SimulatedNode, now: number): void {
    this.active = node;
    this.activeSince = now;
  }

  /** The active node gives up its leadership; after the election another one has it, where there is another. */
  stepDown(now: number, preferred?: SimulatedNode): void {
    const others = this.#eligible().filter((node) => node !== this.active);
    const start = this.active?.index ?? 0;
    this.#preferred = preferred ?? others.find((node) => node.index > start) ?? others[0];
    this.#leave(now);
  }

  /** The restart of subsystems that a role change brings, which may cost the node its leadership. */
  restart(now: number): void {
    const { timing, readings } = this.cluster.service;
    this.restartEndsAt = now + timing.restartMs;
    if (this.cluster.nodes.length > 1 && this.random.chance(readings.leaderChangeChance)) this.stepDown(now);
  }

  #leave(now: number): void {
    this.active?.publicKeys.clear();
    this.#former = this.active ?? this.#former;
    this.active = undefined;
    this.#electionEndsAt = now + this.cluster.service.timing.electionMs;
  }

  #eligible(): readonly SimulatedNode[] {
    return this.cluster.nodes.filter((node) => node.up && !node.sealed);
  }
}
