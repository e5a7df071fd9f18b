import { readFile } from 'node:fs/promises';
import { until } from '../support/by-hand';
import { activeNode, callReal, keySharesOf } from './real-service';
import type { NodeProcess, RealCluster } from './real-service';

/** Operations on the nodes of a cluster, which are named by their addresses. Each ends when its effect is visible. */
export interface Nodes {
  readonly addresses: readonly string[];
  /** Waits for an active node. */
  active(): Promise<string>;
  /** Makes this node active, with as many step-downs as needed; ends when the other nodes forward to it. */
  lead(node: string): Promise<void>;
  /** Seals the active node. */
  seal(): Promise<string>;
  /** Unseals a node with three key shares. */
  unseal(node: string): Promise<void>;
  /** Kills the process of a node; it comes back sealed. */
  restart(node: string): Promise<void>;
}

/** The nodes of a real cluster. Every wait is for a condition, never for a fixed time. */
export class RealNodes implements Nodes {
  /** Nodes that may have a generation attempt, because they lead or have led. */
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

  /** The active node steps down; ends when the node itself reports it, which is before another node is active. */
  async stepDown(): Promise<string> {
    const node = await this.active();
    const { status } = await callReal(this.cluster, 'PUT', 'sys/step-down', { token: this.token, node });
    expect(status).toBe(204);
    await until(`${node} steps down`, async () => !(await this.#state(node)).leads);
    this.#led.add(node);
    return node;
  }

  async lead(node: string): Promise<void> {
    while ((await this.active()) !== node) await this.stepDown();
    // The other nodes learn of it a moment later.
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

  /** Kills the process of a node by its PID; ends when it is gone. The program that runs the node starts it again. */
  async kill(node: string): Promise<NodeProcess> {
    const victim = await this.#process(node);
    end(victim.pid, 'SIGKILL');
    await until(`process ${victim.pid} is gone`, () => !end(victim.pid, 0));
    this.#led.delete(node);
    return victim;
  }

  /** Kills the active node. @returns its address */
  async killActive(): Promise<string> {
    const node = await this.active();
    await this.kill(node);
    return node;
  }

  /** Kills a node; ends when a new, sealed process has replaced it. */
  async restart(node: string): Promise<void> {
    const { pid } = await this.kill(node);
    await until(`a new process at ${node}`, async () => (await this.#process(node)).pid !== pid);
    await until(`${node} is back, sealed`, async () => (await this.#state(node)).sealed);
  }

  /** Seals every node: one with the API, the others by a restart, because without a quorum no active node could seal them. */
  async sealAll(): Promise<void> {
    const sealed = await this.seal();
    await Promise.all(this.addresses.filter((node) => node !== sealed).map((node) => this.restart(node)));
  }

  async unsealAll(): Promise<void> {
    for (const node of this.addresses) if ((await this.#state(node)).sealed) await this.unseal(node);
  }

  /** Restores the state before a test: all nodes take part, the first one leads, and no node has an attempt. */
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

  /** Waits until each node has applied what the active node had committed at the start. */
  async #allTakePart(): Promise<void> {
    const { committed } = await this.#state(await this.active());
    for (const node of this.addresses)
      await until(`${node} takes part`, async () => (await this.#state(node)).applied >= committed);
  }

  async #process(node: string): Promise<NodeProcess> {
    const processes = JSON.parse(await readFile(this.cluster.nodesFile, 'utf8')) as NodeProcess[];
    const found = processes.find(({ address }) => address === node);
    if (!found) throw new Error(`${this.cluster.nodesFile} has no process for ${node}`);
    return found;
  }

  /** The state that a node reports; if it does not answer, the state is unknown. */
  async #state(node: string) {
    const answer = await callReal(this.cluster, 'GET', 'sys/leader', { node }).catch(() => undefined);
    const { is_self: leads, raft_applied_index: applied, raft_committed_index: committed } = answer?.fields ?? {};
    return {
      sealed: answer?.status === 503,
      leads: leads === true,
      applied: typeof applied === 'number' ? applied : -1,
      committed: typeof committed === 'number' ? committed : Infinity,
    };
  }
}

/** Sends a signal to a process. @returns whether the process existed */
function end(pid: number, signal: 'SIGKILL' | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
