/**
 * Starts three nodes of the service's community edition with Raft storage on free loopback ports, for the tests in this
 * folder: `node -r ./scripts/register-typescript.cjs test/real/start-cluster.ts VAULT`, where VAULT is the path of the
 * binary. Prints the environment that the tests need, keeps the nodes running (a node that ends is restarted, sealed),
 * and removes everything on Ctrl-C. Its keys are only for tests.
 */
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { startProcess, freePorts } from '../../src/dev-server/child-process';
import type { OwnProcess } from '../../src/dev-server/child-process';
import { callNode, until } from '../support/by-hand';
import type { PlainCall } from '../support/by-hand';
import type { NodeProcess } from './real-service';

interface Node {
  readonly name: string;
  readonly address: string;
  readonly configuration: string;
  pid: number | undefined;
}

const SHARES = 5;
const THRESHOLD = 3;

class Cluster {
  readonly #processes = new Map<Node, OwnProcess>();
  #stopping = false;

  constructor(
    private readonly vault: string,
    private readonly directory: string,
    private readonly nodes: readonly Node[],
  ) {}

  static async prepare(vault: string, directory: string): Promise<Cluster> {
    const ports = await freePorts(6);
    const nodes: Node[] = [];
    for (const [index, name] of ['n1', 'n2', 'n3'].entries()) {
      const [api, cluster] = ports.slice(2 * index).map((port) => `127.0.0.1:${port}`);
      const [address, path] = [`http://${api}`, join(directory, name)];
      await mkdir(path, { mode: 0o700 });
      const configuration = {
        disable_mlock: true,
        api_addr: address,
        cluster_addr: `https://${cluster}`,
        storage: { raft: { path, node_id: name, performance_multiplier: 1 } },
        listener: { tcp: { address: api, cluster_address: cluster, tls_disable: true } },
      };
      await writeFile(`${path}.json`, JSON.stringify(configuration), { mode: 0o600 });
      nodes.push({ name, address, configuration: `${path}.json`, pid: undefined });
    }
    return new Cluster(vault, directory, nodes);
  }

  /** Starts, initializes, joins, and unseals the nodes; prints the environment for the tests. */
  async start(): Promise<void> {
    for (const node of this.nodes) await this.#run(node);
    const [first, ...others] = this.nodes;
    if (!first) throw new Error('the cluster has no nodes');
    const shares = { secret_shares: SHARES, secret_threshold: THRESHOLD };
    const initialized = (await this.#call(first, 'PUT', 'sys/init', { body: shares })) as unknown as Initialized;
    await this.#unseal(first, initialized, 'activecode=200');
    for (const node of others) {
      await this.#call(node, 'POST', 'sys/storage/raft/join', { body: { leader_api_addr: first.address } });
      await this.#unseal(node, initialized, 'standbyok=true');
    }
    const token = initialized.root_token;
    await until('three voters', async () => {
      const { data } = await this.#call(first, 'GET', 'sys/storage/raft/configuration', { token });
      return JSON.stringify(data).match(/"voter":true/g)?.length === this.nodes.length;
    });
    const file = async (name: string, content: string): Promise<string> => {
      await writeFile(join(this.directory, name), `${content}\n`, { mode: 0o600 });
      return join(this.directory, name);
    };
    console.log(`export RUNBOOKS_TEST_REAL_ADDR=${this.nodes.map(({ address }) => address).join(',')}`);
    console.log(`export RUNBOOKS_TEST_REAL_SHARES_FILE=${await file('shares', initialized.keys.join('\n'))}`);
    console.log(`export RUNBOOKS_TEST_REAL_TOKEN_FILE=${await file('token', token)}`);
    console.log(`export RUNBOOKS_TEST_REAL_NODES_FILE=${join(this.directory, 'nodes.json')}`);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    for (const each of this.#processes.values()) await each.stop();
  }

  /** Starts a node, and restarts it whenever its process ends. */
  async #run(node: Node): Promise<void> {
    const command = [this.vault, 'server', `-config=${node.configuration}`] as const;
    const child = startProcess(command, process.env, (line) => console.error(`${node.name}: ${line}`));
    this.#processes.set(node, child);
    node.pid = child.pid;
    void child.ended.then((how) => {
      if (this.#stopping) return;
      console.error(`${node.name}: ended (${how}); restarting`);
      this.#run(node).catch((error: unknown) => console.error(error));
    });
    await this.#writeProcesses();
    await until(`${node.name} answers`, () => this.#call(node, 'GET', 'sys/seal-status').catch(() => undefined));
  }

  async #writeProcesses(): Promise<void> {
    const processes: NodeProcess[] = this.nodes.flatMap(({ address, pid }) =>
      pid === undefined ? [] : [{ address, pid }],
    );
    // Atomic, because two nodes that end at the same time are also written at the same time.
    await writeFileAtomic(join(this.directory, 'nodes.json'), JSON.stringify(processes), { mode: 0o600 });
  }

  async #unseal(node: Node, { keys }: Initialized, serving: string): Promise<void> {
    for (const key of keys.slice(0, THRESHOLD)) await this.#call(node, 'PUT', 'sys/unseal', { body: { key } });
    await until(`${node.name} serves`, async () => {
      const { status } = await fetch(`${node.address}/v1/sys/health?${serving}`);
      return status === 200;
    });
  }

  async #call({ address }: Node, method: string, path: string, call: PlainCall = {}) {
    const { status, text, fields } = await callNode(address, method, path, call);
    if (status >= 300) throw new Error(`${method} ${path} at ${address}: ${status} ${text}`);
    return fields;
  }
}

interface Initialized {
  /** In hexadecimal. */
  readonly keys: readonly string[];
  readonly root_token: string;
}

async function main(): Promise<void> {
  const [vault] = process.argv.slice(2);
  if (vault === undefined) throw new Error('Usage: start-cluster.ts VAULT (path of the service binary)');
  const directory = await mkdtemp(join(tmpdir(), 'real-cluster-'));
  const cluster = await Cluster.prepare(vault, directory);
  const ended = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  try {
    await cluster.start();
    console.error('The cluster is ready. Press Ctrl-C to stop it.');
    await ended;
  } finally {
    await cluster.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
