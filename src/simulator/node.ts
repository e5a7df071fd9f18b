import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer as createHttpServer,
  ServerResponse,
  type RequestListener,
  type Server as HttpServer,
  IncomingMessage,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { Socket, type Server } from 'node:net';
import type { SeededRandom } from './random';
import type { ReplicationKind } from './stored';
import { GenerationAttempts } from './generation-attempts';
import type { GeneratingCluster } from './generation-attempts';
import type { Readings, Timing } from './topology';

/** Answers a request that reached a node. */
export type ServeNode = (node: SimulatedNode, ...call: Parameters<RequestListener>) => Promise<void>;

/** What a node needs of its cluster. */
interface ClusterOfNode extends GeneratingCluster {
  readonly service: GeneratingCluster['service'] & {
    readonly certificate: { readonly cert: string; readonly key: string } | undefined;
  };
}

/**
 * One node: a process with its own listener, seal state, and memory (the generation attempt, and the private keys of
 * `generate-public-key`).
 */
export class SimulatedNode {
  sealed = false;
  up = false;
  /** Whether its raft runs: from its first unseal on, until a seal by people or the end of the process. */
  inRaft = true;
  /** When it will notice that its cluster joined a set, and seal itself; milliseconds since the epoch. */
  sealsAt: number | undefined;
  /** Shares provided to `sys/unseal` so far. */
  unsealShares: Buffer[] = [];
  attempts: GenerationAttempts;
  /** Counters of rate-limit quotas on this node, by quota and client. */
  readonly quotaBuckets = new Map<string, { readonly left: number; readonly refilledAt: number }>();
  /** Public keys of `generate-public-key`. While a key is in this map, the node has its private key. */
  readonly publicKeys = new Map<ReplicationKind, string>();
  #server: HttpServer | undefined;
  #port: number;

  /**
   * @param port 0: any free port; later restarts of the node use the same port
   * @param advertised `api_addr`, if it is not the address at which the node listens
   * @param serve answers a request that reached this node
   */
  constructor(
    private readonly cluster: ClusterOfNode,
    readonly index: number,
    port: number,
    private readonly advertised: string | undefined,
    private readonly serve: ServeNode,
  ) {
    this.#port = port;
    this.attempts = new GenerationAttempts(cluster);
  }

  /** What the node advertises (`api_addr`): other nodes name it as the leader's address and redirect to it. */
  get apiAddress(): string {
    return this.advertised ?? this.address;
  }

  /** The address at which it listens. */
  get address(): string {
    return `${this.cluster.service.certificate === undefined ? 'http' : 'https'}://127.0.0.1:${this.#port}`;
  }

  /** Cluster address, by convention the next port. Only an identifier: nothing listens there. */
  get clusterAddress(): string {
    return `https://127.0.0.1:${this.#port + 1}`;
  }

  /** Starts the process with empty memory and opens its listener. */
  async start(): Promise<void> {
    const { service } = this.cluster;
    const listener: RequestListener = (incoming, response) => void this.serve(this, incoming, response);
    const server =
      service.certificate === undefined
        ? createHttpServer(listener)
        : createHttpsServer({ ...service.certificate, requestCert: true, rejectUnauthorized: false }, listener);
    server.keepAliveTimeout = 30_000;
    server.on('clientError', (error: Error & { rawPacket?: Buffer }, socket) => {
      if (!socket.writable || !(socket instanceof Socket)) return void socket.destroy();
      const incoming = listRequestIn(error.rawPacket, socket);
      if (incoming === undefined) return void socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n');
      const response = new ServerResponse(incoming);
      response.shouldKeepAlive = false;
      response.assignSocket(socket);
      response.once('finish', () => socket.end());
      return void listener(incoming, response);
    });
    this.#port = await listenOnLoopback(server, this.#port);
    this.#server = server;
    this.attempts = new GenerationAttempts(this.cluster);
    this.up = true;
  }

  /** Seals or unseals the node, as people do: a seal ends its raft too. */
  seal(sealed = true): void {
    this.sealed = sealed;
    this.inRaft = !sealed;
    this.sealsAt = undefined;
  }

  /** Seals itself once its cluster joined a set, if it is a standby. Its raft keeps running (facts 13.3). */
  sealItselfWhenDue(now: number): void {
    if (this.sealsAt === undefined || now < this.sealsAt) return;
    this.sealsAt = undefined;
    this.sealed = true;
  }

  /** Kills the process at once: open connections break and new ones are refused. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.up = false;
    this.sealsAt = undefined;
    this.#server = undefined;
    this.publicKeys.clear();
    this.quotaBuckets.clear();
    this.unsealShares = [];
    if (server !== undefined) await closeAtOnce(server);
  }
}

/** What leadership needs of a cluster. */
interface LedCluster {
  readonly service: { readonly timing: Timing; readonly readings: Readings };
  readonly nodes: readonly SimulatedNode[];
}

/** Tracks which node of a cluster is active, and when no node is. */
export class Leadership {
  /** The active node, even while the cluster restarts its subsystems. */
  active: SimulatedNode | undefined;
  /** When the current active node became active; milliseconds since the epoch. */
  activeSince = 0;
  restartEndsAt = 0;
  #former: SimulatedNode | undefined;
  #electionEndsAt = 0;
  #preferred: SimulatedNode | undefined;

  constructor(
    private readonly cluster: LedCluster,
    private readonly random: SeededRandom,
  ) {}

  /** While no node is active: the last active node. The storage keeps it until another node becomes active. */
  get former(): SimulatedNode | undefined {
    return this.active === undefined ? this.#former : undefined;
  }

  restarting(now: number): boolean {
    return now < this.restartEndsAt;
  }

  /** The active node, if it serves requests. */
  serving(now: number): SimulatedNode | undefined {
    return this.restarting(now) ? undefined : this.active;
  }

  /** Updates the leadership according to the state of the nodes. */
  settle(now: number): void {
    const eligible = this.#eligible();
    const { nodes } = this.cluster;
    const hasQuorum = nodes.filter((node) => node.up && node.inRaft).length * 2 > nodes.length;
    if (this.active !== undefined && !(eligible.includes(this.active) && hasQuorum)) this.#leave(now);
    if (this.active !== undefined || now < this.#electionEndsAt || !hasQuorum) return;
    const next = eligible.find((node) => node === this.#preferred) ?? eligible[0];
    if (next === undefined) return;
    this.#preferred = undefined;
    this.install(next, now);
  }

  /** Makes a node active at once. */
  install(node: SimulatedNode, now: number): void {
    this.active = node;
    this.activeSince = now;
  }

  /** The active node gives up leadership; after the election another node is active, if there is one. */
  stepDown(now: number, preferred?: SimulatedNode): void {
    const others = this.#eligible().filter((node) => node !== this.active);
    const start = this.active?.index ?? 0;
    this.#preferred = preferred ?? others.find((node) => node.index > start) ?? others[0];
    this.#leave(now);
  }

  /** Restarts subsystems after a role change, which may cost the active node its leadership. */
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
    return this.cluster.nodes.filter((node) => node.up && !node.sealed && node.sealsAt === undefined);
  }
}

/**
 * Outside the ephemeral port range of every system (Linux: from 32768, others: from 49152). Each process takes ports from
 * a block of its own, one after the other: the port of a killed node stays unused until the node restarts.
 */
const BLOCK = 500;
const FIRST_PORT = 12_000 + (process.pid % 40) * BLOCK;
let portsTaken = randomInt(BLOCK);

/** Listens on the port, or on any free port for 0; returns the port. */
export async function listenOnLoopback(server: Server, port = 0): Promise<number> {
  for (;;) {
    const tried = port === 0 ? FIRST_PORT + (portsTaken++ % BLOCK) : port;
    server.listen(tried, '127.0.0.1');
    try {
      await once(server, 'listening');
      return tried;
    } catch (error) {
      if (port !== 0 || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
  }
}

/** Closes the server and breaks its open connections. */
export async function closeAtOnce(server: HttpServer): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/**
 * Node's HTTP parser does not know the method `LIST`, which some clients send. Returns such a request from the bytes
 * that the parser refused. Afterwards the connection has to be closed, because its parser is of no use any more.
 */
export function listRequestIn(refused: Buffer | undefined, socket: Socket): IncomingMessage | undefined {
  const [line = '', ...headers] = (refused?.toString('latin1') ?? '').replace(/\r\n\r\n$/, '').split('\r\n');
  const url = /^LIST (\S+) HTTP\/1\.1$/.exec(line)?.[1];
  const pairs = headers.map((header) => /^([!-9;-~]+):[ \t]*(.*?)[ \t]*$/.exec(header)?.slice(1));
  if (url === undefined || refused?.includes('\r\n\r\n') !== true || pairs.includes(undefined)) return undefined;
  const incoming = new IncomingMessage(socket);
  for (const [name = '', value = ''] of pairs.flatMap((pair) => (pair ? [pair] : [])))
    incoming.headers[name.toLowerCase()] = value;
  Object.assign(incoming, { method: 'LIST', url, complete: true });
  incoming.push(null);
  return incoming;
}
