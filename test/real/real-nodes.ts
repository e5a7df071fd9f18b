import { readFile } from 'node:fs/promises';
import { until } from '../support/by-hand';
import { activeNode, callReal, keySharesOf } from './real-service';
import type { NodeProcess, RealCluster } from './real-service';

/** What is done to the nodes of a cluster; each call ends when its effect can be seen. Nodes by their addresses. */
export interface Nodes {
  readonly addresses: readonly string[];
  /** Waits for an active node. */
  active(): Promise<string>;
  /** Makes this node the active one, by stepping down as often as it takes; ends when the others pass on to it. */
  lead(node: string): Promise<void>;
  /** Seals the active node. */
  seal(): Promise<string>;
  /** Gives a sealed node three key shares. */
  unseal(node: string): Promise<void>;
  /** Kills the process of a node; it comes back sealed. */
  restart(node: string): Promise<void>;
}

/** The nodes of a real cluster. Nothing waits for a time, all for a condition. */
export class RealNodes implements Nodes {
  /** Nodes that may hold a generation attempt: they led, or lead. */
  readonly #led = new Set<string>();

  private constructor(
    private readonly cluster: RealCluster,
    private readonly token: string,
    private readonly keyShares: readonly string[],
  ) {}

  static async of(cluster: RealCluster): Promise<RealNodes> {
    const token = (await readFile(cluster.tokenFile, 'utf8')).trim();
    return new RealNodes(cluster, token, await keySharesOf(cluster));
  }

  get addresses(): readonly string[] {
    return this.cluster.addresses;
  }

  active(): Promise<string> {
    return activeNode(this.cluster);
  }

  /** The active node gives up; ends when it says so itself, which is before another one is active. */
  async stepDown(): Promise<string> {
    const node = await this.active();
    const { status } = await callReal(this.cluster, 'PUT', 'sys/step-down', { token: this.token, node });
    expect(status).toBe(204);
    await until(`${node} gives up`, async () => !(await this.#state(node)).leads);
    this.#led.add(node);
    return node;
  }

  async lead(node: string): Promise<void> {
    while ((await this.active()) !== node) await this.stepDown();
    // The others hear of it a moment later.
    for (const each of this.addresses)
      await until(`${each} passes on to ${node}`, async () => {
        const { status } = await callReal(this.cluster, 'GET', 'sys/generate-root/attempt', { node: each });
        return status === 200 || (await this.#state(each)).sealed;
      });
  }

  async seal(): Promise<string> {
    const node = await this.active();
    const { status } = await callReal(this.cluster, 'PUT', 'sys/seal', { token: this.token, node });
    expect(status).toBe(204);
    await until(`${node} is sealed`, async () => (await this.#state(node)).sealed);
    this.#led.add(node);
    return node;
  }

  async unseal(node: string): Promise<void> {
    for (const key of this.keyShares.slice(0, 3)) {
      const { status } = await callReal(this.cluster, 'PUT', 'sys/unseal', { body: { key }, node });
      expect(status).toBe(200);
    }
    await until(`${node} is unsealed`, async () => !(await this.#state(node)).sealed);
  }

  /** Ends the process of a node at once, by its own ID; ends when it is gone. Whoever runs it starts it again. */
  async kill(node: string): Promise<NodeProcess> {
    const victim = await this.#process(node);
    end(victim.pid, 'SIGKILL');
    await until(`process ${victim.pid} is gone`, () => !end(victim.pid, 0));
    this.#led.delete(node);
    return victim;
  }

  /** @returns the node that led until then */
  async killActive(): Promise<string> {
    const node = await this.active();
    await this.kill(node);
    return node;
  }

  /** Ends when another process has taken its place; that is sealed. */
  async restart(node: string): Promise<void> {
    const { pid } = await this.kill(node);
    await until(`a new process at ${node}`, async () => (await this.#process(node)).pid !== pid);
    await until(`${node} is back, sealed`, async () => (await this.#state(node)).sealed);
  }

  /** Every node sealed, by the API and by a new process: without quorum nobody is active who could seal the last two. */
  async sealAll(): Promise<void> {
    const sealed = await this.seal();
    await Promise.all(this.addresses.filter((node) => node !== sealed).map((node) => this.restart(node)));
  }

  async unsealAll(): Promise<void> {
    for (const node of this.addresses) if ((await this.#state(node)).sealed) await this.unseal(node);
  }

  /** As before a test: all nodes take part, the first one leads, and no node holds an attempt. */
  async settle(): Promise<void> {
    await this.unsealAll();
    await this.#allTakePart();
    const active = await this.active();
    expect((await callReal(this.cluster, 'DELETE', 'sys/generate-root/attempt', { node: active })).status).toBe(204);
    for (const node of [...this.#led].filter((each) => each !== active)) {
      await this.restart(node);
      await this.unseal(node);
      await this.#allTakePart();
    }
    const [first = ''] = this.addresses;
    await this.lead(first);
    await this.#allTakePart();
    this.#led.clear();
  }

  /** Each node has what the active one had committed when this began. */
  async #allTakePart(): Promise<void> {
    const { committed } = await this.#state(await this.active());
    for (const node of this.addresses)
      await until(`${node} takes part`, async () => (await this.#state(node)).applied >= committed);
  }

  async #process(node: string): Promise<NodeProcess> {
    const processes = JSON.parse(await readFile(this.cluster.nodesFile, 'utf8')) as NodeProcess[];
    const found = processes.find(({ address }) => address === node);
    if (!found) throw new Error(`${this.cluster.nodesFile} names no process of ${node}`);
    return found;
  }

  /** What a node says of itself; of one that does not answer nothing is known. */
  async #state(node: string) {
    const said = await callReal(this.cluster, 'GET', 'sys/leader', { node }).catch(() => undefined);
    const { is_self: leads, raft_applied_index: applied, raft_committed_index: committed } = said?.fields ?? {};
    return {
      sealed: said?.status === 503,
      leads: leads === true,
      applied: typeof applied === 'number' ? applied : -1,
      committed: typeof committed === 'number' ? committed : Infinity,
    };
  }
}

/** Whether the process was there. */
function end(pid: number, signal: 'SIGKILL' | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
