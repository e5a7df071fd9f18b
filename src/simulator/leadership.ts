import type { SimulatedNode } from './node';
import type { SeededRandom } from './random';
import type { Readings, Timing } from './readings';

/** Which node of a cluster is active, and the times at which none is. */
export class Leadership {
  #active: SimulatedNode | undefined;
  #former: SimulatedNode | undefined;
  #electionEndsAt = 0;
  #restartEndsAt = 0;
  #preferred: SimulatedNode | undefined;
  /** Milliseconds since the epoch; when the node that is active now became it. */
  activeSince = 0;

  constructor(
    private readonly nodes: readonly SimulatedNode[],
    private readonly timing: Timing,
    private readonly readings: Readings,
    private readonly random: SeededRandom,
    private readonly onElected: (node: SimulatedNode, now: number) => void,
  ) {}

  /** The active node, also while the cluster restarts its subsystems. */
  get active(): SimulatedNode | undefined {
    return this.#active;
  }

  /** While no node is active: the one that was until then. It stands in the storage, for as long as nobody writes another. */
  get former(): SimulatedNode | undefined {
    return this.#active === undefined ? this.#former : undefined;
  }

  restarting(now: number): boolean {
    return now < this.#restartEndsAt;
  }

  get restartEndsAt(): number {
    return this.#restartEndsAt;
  }

  /** An active node that serves requests. */
  serving(now: number): SimulatedNode | undefined {
    return this.restarting(now) ? undefined : this.#active;
  }

  /** Brings leadership up to date with the state of the nodes. */
  settle(now: number): void {
    if (this.#active !== undefined && (!this.#eligible(this.#active) || !this.#hasQuorum())) this.#leave(now);
    if (this.#active === undefined && now >= this.#electionEndsAt && this.#hasQuorum()) {
      const candidates = this.nodes.filter((node) => this.#eligible(node));
      const preferred = this.#preferred;
      const next = preferred !== undefined && this.#eligible(preferred) ? preferred : candidates[0];
      if (next !== undefined) {
        this.#active = next;
        this.#preferred = undefined;
        this.activeSince = now;
        this.onElected(next, now);
      }
    }
  }

  /** Makes a node active at once, for set-up. */
  install(node: SimulatedNode, now: number): void {
    this.#active = node;
    this.activeSince = now;
  }

  /** The active node gives up its leadership; after the election another one has it, where there is another. */
  stepDown(now: number, preferred?: SimulatedNode): void {
    const leaving = this.#active;
    const others = this.nodes.filter((node) => node !== leaving && this.#eligible(node));
    const start = leaving === undefined ? 0 : leaving.index;
    this.#preferred = preferred ?? others.find((node) => node.index > start) ?? others[0];
    this.#leave(now);
  }

  /** The restart of subsystems that a role change brings, which may cost the node its leadership. */
  restart(now: number): void {
    this.#restartEndsAt = now + this.timing.restartMs;
    if (this.nodes.length > 1 && this.random.chance(this.readings.leaderChangeChance)) this.stepDown(now);
  }

  #leave(now: number): void {
    this.#active?.publicKeys.clear();
    this.#former = this.#active ?? this.#former;
    this.#active = undefined;
    this.#electionEndsAt = now + this.timing.electionMs;
  }

  #eligible(node: SimulatedNode): boolean {
    return node.up && !node.sealed;
  }

  #hasQuorum(): boolean {
    const voters = this.nodes.filter((node) => node.up && !node.sealed);
    return voters.length * 2 > this.nodes.length;
  }
}
