import { once } from 'node:events';
import { createServer as createHttpServer, type RequestListener, type Server as HttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import type { SimulatedCluster } from './cluster';
import { serve } from './http';
import { GenerationAttempts } from './routes/generation';
import type { ReplicationKind } from './storage';

/** What the server's configuration may open to callers without a token, from 2.0. */
export type UnauthenticatedAccess = 'generate-operation-token' | 'generate-root';

/**
 * One node: a process with its own listener, its own seal state and what it keeps in memory only (the generation attempt
 * and the private halves of `generate-public-key`).
 */
export class SimulatedNode {
  sealed = false;
  up = false;
  /** Shares given to `sys/unseal` so far. */
  unsealShares: Buffer[] = [];
  attempts: GenerationAttempts;
  /** `enable_unauthenticated_access` of the node's own configuration (from 2.0); a restart keeps it. */
  unauthenticatedAccess: readonly UnauthenticatedAccess[] = [];
  /** What rate-limit quotas count here, by quota and client. */
  readonly quotaBuckets = new Map<string, { readonly left: number; readonly refilledAt: number }>();
  /** Of `generate-public-key`: the node has the private half for as long as it stands here. */
  readonly publicKeys = new Map<ReplicationKind, string>();
  #server: HttpServer | undefined;
  #port: number;

  /** @param port 0 for any; kept over restarts of the node once it is known */
  constructor(
    private readonly cluster: SimulatedCluster,
    readonly index: number,
    port: number,
  ) {
    this.#port = port;
    this.attempts = new GenerationAttempts(cluster);
  }

  /** API address. */
  get address(): string {
    return `${this.cluster.service.certificate === undefined ? 'http' : 'https'}://127.0.0.1:${this.#port}`;
  }

  /** Address of the cluster port, by convention the one above; an identifier only, nothing listens there. */
  get clusterAddress(): string {
    return `https://127.0.0.1:${this.#port + 1}`;
  }

  /** Starts the process: empty memory, listener open. */
  async start(): Promise<void> {
    const { service } = this.cluster;
    const listener: RequestListener = (incoming, response) => void serve(this.cluster, this, incoming, response);
    const server =
      service.certificate === undefined
        ? createHttpServer(listener)
        : createHttpsServer({ ...service.certificate, requestCert: true, rejectUnauthorized: false }, listener);
    server.keepAliveTimeout = 30_000;
    this.#port = await listenOnLoopback(server, this.#port);
    this.#server = server;
    this.attempts = new GenerationAttempts(this.cluster);
    this.up = true;
  }

  /** Ends the process at once: open connections break and new ones are refused. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.up = false;
    this.#server = undefined;
    this.publicKeys.clear();
    this.quotaBuckets.clear();
    this.unsealShares = [];
    if (server !== undefined) await closeAtOnce(server);
  }
}

/** Starts listening; gives the port. */
export async function listenOnLoopback(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  // Listening on TCP, so the address is an object.
  return (server.address() as AddressInfo).port;
}

/** Closes the server and breaks the connections that are open. */
export async function closeAtOnce(server: HttpServer): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
