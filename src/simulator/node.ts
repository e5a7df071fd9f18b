import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { GenerationAttempts } from './generation-attempt';
import type { ReplicationKind } from './storage';

/** Certificate and key of the API listeners, PEM. */
export interface ListenerCertificate {
  readonly certificate: string;
  readonly key: string;
}

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
  /** Of `generate-public-key`: the node has the private half for as long as it stands here. */
  readonly publicKeys = new Map<ReplicationKind, string>();
  #server: Server | undefined;
  #port: number;

  /** @param port 0 for any; kept over restarts of the node once it is known */
  constructor(
    readonly clusterName: string,
    readonly index: number,
    port: number,
    private readonly certificate: ListenerCertificate | undefined,
    private readonly newAttempts: () => GenerationAttempts,
  ) {
    this.#port = port;
    this.attempts = newAttempts();
  }

  get name(): string {
    return `${this.clusterName}-${this.index}`;
  }

  /** API address. */
  get address(): string {
    return `${this.certificate === undefined ? 'http' : 'https'}://127.0.0.1:${this.#port}`;
  }

  /** Address of the cluster port, by convention the one above; an identifier only, nothing listens there. */
  get clusterAddress(): string {
    return `https://127.0.0.1:${this.#port + 1}`;
  }

  /** Starts the process: empty memory, listener open. */
  async start(listener: RequestListener): Promise<void> {
    const server =
      this.certificate === undefined
        ? createHttpServer(listener)
        : createHttpsServer({ cert: this.certificate.certificate, key: this.certificate.key }, listener);
    server.keepAliveTimeout = 30_000;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.#port, '127.0.0.1', () => {
        server.removeListener('error', reject);
        resolve();
      });
    });
    this.#port = portOf(server.address());
    this.#server = server;
    this.attempts = this.newAttempts();
    this.up = true;
  }

  /** Ends the process at once: open connections break and new ones are refused. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.up = false;
    this.#server = undefined;
    this.publicKeys.clear();
    this.unsealShares = [];
    if (server === undefined) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }
}

function portOf(address: string | AddressInfo | null): number {
  if (address === null || typeof address === 'string') throw new Error('a node listens on a TCP port');
  return address.port;
}
