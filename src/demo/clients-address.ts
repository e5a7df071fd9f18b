import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { request } from 'undici';
import writeFileAtomic from 'write-file-atomic';

/** Files through which the hooks, processes of their own, steer the clients' side. */
export interface ClientsFiles {
  /** Name of the cluster that the clients' address leads to. */
  readonly target: string;
  /** Exists while the clients are asked to be quiet. */
  readonly quiesce: string;
  /** Written by the writer: what it is doing and what it has seen. */
  readonly writer: string;
}

const ATTEMPT_TIMEOUT_MS = 2_000;
const PROBE_PATH = '/v1/kv/clients-probe';

/** Writes a file that readers see whole or not at all. */
export async function replaceFile(path: string, content: string): Promise<void> {
  await writeFileAtomic(path, content, { mode: 0o600, fsync: false });
}

/**
 * The clients' address: a small HTTP proxy on loopback that leads to one cluster, as a load balancer would. `/probe`
 * makes one write through it, so that "clients can write again" is observed and not inferred.
 */
export class ClientsAddress {
  readonly #server: Server;
  readonly #nodes: ReadonlyMap<string, readonly string[]>;
  readonly #files: ClientsFiles;
  readonly #token: string;
  #preferred: string | undefined;

  constructor(nodes: ReadonlyMap<string, readonly string[]>, files: ClientsFiles, token: string) {
    this.#nodes = nodes;
    this.#files = files;
    this.#token = token;
    this.#server = createServer((incoming, response) => void this.#serve(incoming, response));
  }

  /** Listens on a free port of loopback and gives the address. */
  async start(): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(0, '127.0.0.1', resolve);
    });
    // Listening on TCP, so the address is an object.
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const probe = incoming.url === '/probe';
      const body = await buffer(incoming);
      const status = probe
        ? await this.#forward('POST', PROBE_PATH, this.#token, Buffer.from(JSON.stringify({ at: Date.now() })))
        : await this.#forward(
            incoming.method ?? 'GET',
            incoming.url ?? '/',
            String(incoming.headers['x-vault-token'] ?? ''),
            body,
          );
      response.writeHead(probe && status < 300 ? 200 : status).end();
    } catch {
      response.writeHead(502).end();
    }
  }

  /** Tries the nodes of the cluster, the one that answered last first. */
  async #forward(method: string, path: string, token: string, body: Buffer): Promise<number> {
    const target = (await readFile(this.#files.target, 'utf8')).trim();
    const nodes = this.#nodes.get(target) ?? [];
    const ordered = [...nodes].sort((a, b) => Number(b === this.#preferred) - Number(a === this.#preferred));
    let last = 502;
    for (const node of ordered) {
      try {
        const answer = await request(`${node}${path}`, {
          method: method === 'GET' ? 'GET' : 'POST',
          headers: { 'x-vault-token': token },
          ...(body.length === 0 ? {} : { body }),
          headersTimeout: ATTEMPT_TIMEOUT_MS,
          bodyTimeout: ATTEMPT_TIMEOUT_MS,
        });
        await answer.body.dump();
        last = answer.statusCode;
        if (last < 300) {
          this.#preferred = node;
          return last;
        }
      } catch {
        last = 502;
      }
    }
    return last;
  }
}
