import type { SimulatedCluster } from '../../src/simulator';
import { activeNode } from '../real/real-service';
import type { Nodes } from '../real/real-nodes';

/** What is done to the nodes of a real cluster, done to those of a simulated one. */
export class SimulatedNodes implements Nodes {
  constructor(private readonly cluster: SimulatedCluster) {}

  get addresses(): readonly string[] {
    return this.cluster.addresses;
  }

  active(): Promise<string> {
    return activeNode(this.cluster);
  }

  async lead(node: string): Promise<void> {
    if ((await this.active()) === node) return;
    this.cluster.leaderChange(this.#index(node));
    expect(await this.active()).toBe(node);
  }

  async seal(): Promise<string> {
    const node = await this.active();
    this.cluster.sealNode(this.#index(node));
    return node;
  }

  async unseal(node: string): Promise<void> {
    this.cluster.unsealNode(this.#index(node));
  }

  async restart(node: string): Promise<void> {
    await this.cluster.killNode(this.#index(node));
    await this.cluster.startNode(this.#index(node), { sealed: true });
  }

  #index(node: string): number {
    return this.addresses.indexOf(node);
  }
}
