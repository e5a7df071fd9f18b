import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { z } from 'zod';
import { closeAtOnce, listenOnLoopback } from '../../simulator';
import type { SimulatedService } from '../../simulator';

/** The members of a hook's input that the clients use (docs/inventory.md). */
const HOOK_INPUT = z.object({ hook: z.string(), to: z.string().optional() });

const ATTEMPT_TIMEOUT_MS = 2_000;
const PAUSE_MS = 20;
/** Number of paths that the client writes to in rotation. */
const SLOTS = 100;

/** Path of a slot, including its mount. */
export function slotPath(slot: number): string {
  return `secret/orders/${slot}`;
}

/**
 * The clients of the simulated deployment. One client writes continuously, so the replication lag is real. It remembers
 * which writes were acknowledged, so a lost write is noticed. All requests go to one cluster, as with a load balancer.
 * The workers control the clients over loopback: `/hooks` accepts every hook, and `/probe` makes one write, so that
 * "clients can write again" is observed and not inferred.
 */
export class Clients {
  /** The last acknowledged sequence number of each slot. */
  readonly slots = new Map<number, number>();
  acknowledged = 0;
  refused = 0;
  /** Longest time between two acknowledged writes, in milliseconds, and when it ended, epoch ms. */
  longestGapMs = 0;
  longestGapEndedAt = 0;
  #quiesced = false;
  #stopped = false;
  #lastWrite: Promise<unknown> = Promise.resolve();
  #writing: Promise<void> = Promise.resolve();
  #preferred: string | undefined;
  readonly #server = createServer((incoming, response) => void this.#serve(incoming, response));

  /**
   * @param target the cluster that the clients use; if undefined, they try the addresses of all clusters
   */
  constructor(
    private readonly service: SimulatedService,
    private target: string | undefined,
    private readonly token: string,
  ) {}

  /** Listens on a free loopback port and returns the address. */
  async start(): Promise<string> {
    return `http://127.0.0.1:${await listenOnLoopback(this.#server)}`;
  }

  startWriting(): void {
    this.#writing = this.#write();
  }

  /** Stops after the write in progress. */
  async stopWriting(): Promise<void> {
    this.#stopped = true;
    await this.#writing;
  }

  async stop(): Promise<void> {
    await this.stopWriting();
    await closeAtOnce(this.#server);
  }

  async #write(): Promise<void> {
    let lastSuccess = Date.now();
    for (let sequence = 1; !this.#stopped; await delay(PAUSE_MS)) {
      if (this.#quiesced) continue;
      const slot = sequence % SLOTS;
      const write = this.#post(slotPath(slot), { sequence });
      this.#lastWrite = write;
      if (await write) {
        const now = Date.now();
        if (now - lastSuccess > this.longestGapMs)
          [this.longestGapMs, this.longestGapEndedAt] = [now - lastSuccess, now];
        lastSuccess = now;
        this.acknowledged += 1;
        this.slots.set(slot, sequence);
      } else this.refused += 1;
      sequence += 1;
    }
  }

  /** Tries the nodes in turn, starting with the one that accepted the last write. */
  async #post(path: string, body: object): Promise<boolean> {
    const all = [...this.service.clusters.values()].filter(({ name }) => name === (this.target ?? name));
    const nodes = all.flatMap(({ addresses }) => addresses);
    for (const node of nodes.sort((a, b) => Number(b === this.#preferred) - Number(a === this.#preferred))) {
      try {
        const answer = await request(`${node}/v1/${path.replace('/', '/data/')}`, {
          method: 'POST',
          headers: { 'x-vault-token': this.token },
          body: JSON.stringify({ data: body }),
          headersTimeout: ATTEMPT_TIMEOUT_MS,
          bodyTimeout: ATTEMPT_TIMEOUT_MS,
        });
        await answer.body.dump();
        if (answer.statusCode < 300) {
          this.#preferred = node;
          return true;
        }
      } catch {
        // Try the next node.
      }
    }
    return false;
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    if (incoming.url === '/probe') {
      response.writeHead((await this.#post('kv/clients-probe', { at: Date.now() })) ? 200 : 502).end();
      return;
    }
    const input = HOOK_INPUT.safeParse(await json(incoming).catch(() => undefined));
    const done = incoming.url === '/hooks' && input.success && (await this.#hook(input.data.hook, input.data.to));
    response.writeHead(done ? 200 : 404).end(done || 'unknown hook');
  }

  /** Returns what the hook did; undefined for an unknown hook. */
  async #hook(hook: string, to: string | undefined = this.target): Promise<string | undefined> {
    switch (hook) {
      case 'quiesce':
        this.#quiesced = true;
        await this.#lastWrite;
        return 'no write is in progress';
      case 'traffic':
        this.target = to;
        this.#quiesced = false;
        return `clients are directed to ${to ?? 'no cluster'}`;
      case 'release':
        this.#quiesced = false;
        return 'clients can write';
      // A simulated cluster has no network of its own to cut off.
      case 'fence':
      case 'unfence':
        return `simulated ${hook}: nothing to do`;
    }
    return undefined;
  }
}
