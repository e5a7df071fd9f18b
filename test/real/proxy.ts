import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { request } from 'undici';
import { closeAtOnce, listenOnLoopback } from '../../src/simulator';

/** What happens to an answer of the server. */
type Delivery = 'unchanged' | 'lost' | 'glued';

/** What happens around the nth call of an endpoint (from 1, counted from now), such as `POST sys/generate-root/update`. */
export interface Plan {
  readonly endpoint: string;
  readonly nth: number;
  readonly before?: () => Promise<void>;
  readonly after?: (answer: string) => Delivery | Promise<Delivery>;
  /** Calls so far. */
  seen: number;
}

/** A proxy between the worker and one node of a real server. It breaks what a test wants broken and forwards the rest. */
export class Proxy {
  address = '';
  /** Forwarded calls. `status` 0: the server closed the connection. */
  readonly #passed: { readonly endpoint: string; readonly status: number }[] = [];
  readonly #plans: Plan[] = [];
  readonly #server = createServer((incoming, response) => {
    this.#pass(incoming, response).catch(() => response.destroy());
  });
  /** All proxies: nodes name each other by their own addresses, which are replaced with those of the proxies. */
  #all: readonly Proxy[] = [];

  private constructor(private readonly target: string) {}

  /** Starts one proxy for each node. If a node names another node, the worker sees the address of that node's proxy. */
  static async startAll(targets: readonly string[]): Promise<Proxy[]> {
    const proxies = targets.map((target) => new Proxy(target));
    for (const proxy of proxies) {
      proxy.address = `http://127.0.0.1:${await listenOnLoopback(proxy.#server)}`;
      proxy.#all = proxies;
    }
    return proxies;
  }

  /** Several proxies may share one plan, which then counts the calls of all of them. */
  add(plan: Plan): void {
    this.#plans.push(plan);
  }

  /** Statuses of the forwarded calls of an endpoint, in order. */
  statuses(endpoint: string): number[] {
    return this.#passed.filter((each) => each.endpoint === endpoint).map(({ status }) => status);
  }

  clear(): void {
    this.#passed.length = 0;
    this.#plans.length = 0;
  }

  async stop(): Promise<void> {
    await closeAtOnce(this.#server);
  }

  async #pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (incoming.url ?? '').replace(/^\/v1\//, '').replace(/\?.*$/, '');
    const endpoint = `${incoming.method} ${path}`;
    const due = this.#plans.filter((plan) => plan.endpoint === endpoint && (plan.seen += 1) === plan.nth);
    const body = await text(incoming);
    for (const { before } of due) await before?.();
    // The caller has disconnected meanwhile, so the call would not reach a node without the proxy.
    if (response.destroyed) return;
    const answer = await this.#forward(incoming, body);
    this.#passed.push({ endpoint, status: answer?.status ?? 0 });
    let delivery: Delivery = answer ? 'unchanged' : 'lost';
    for (const { after } of due) if (after && answer) delivery = await after(answer.body);
    if (!answer || delivery === 'lost') {
      response.destroy();
      return;
    }
    const { 'content-length': _length, 'transfer-encoding': _encoding, location, ...headers } = answer.headers;
    const renamed = location === undefined ? {} : { location: this.#renamed(location.toString()) };
    response.writeHead(answer.status, { ...headers, ...renamed });
    const shown = this.#renamed(answer.body);
    response.end(delivery === 'glued' ? `${shown}${JSON.stringify({ errors: ['internal error'] })}\n` : shown);
  }

  #renamed(answer: string): string {
    return this.#all.reduce((rest, { target, address }) => rest.replaceAll(target, address), answer);
  }

  /** Forwards the call; undefined if the server closes the connection. */
  async #forward(
    { method = 'GET', url = '', headers: { connection: _connection, ...headers } }: IncomingMessage,
    body: string,
  ) {
    try {
      const own = { ...headers, host: new URL(this.target).host };
      const answer = await request(`${this.target}${url}`, { method, headers: own, body: body || null, reset: true });
      return { status: answer.statusCode, headers: answer.headers, body: await answer.body.text() };
    } catch {
      return undefined;
    }
  }
}
