import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { request } from 'undici';
import { closeAtOnce, listenOnLoopback } from '../../src/simulator';

/** What becomes of an answer that the server has given. */
type Delivery = 'as it is' | 'lost' | 'glued';

/** What happens around the nth call of an endpoint (from 1, counted from now), such as `POST sys/generate-root/update`. */
export interface Plan {
  readonly endpoint: string;
  readonly nth: number;
  readonly before?: () => Promise<void>;
  readonly after?: (answer: string) => Delivery | Promise<Delivery>;
  /** Calls so far. */
  seen: number;
}

/** Stands between worker and one node of a real server, and breaks what a test wants broken. Everything else passes. */
export class Proxy {
  address = '';
  /** Calls that passed. `status` 0: the server closed the connection. */
  readonly #passed: { readonly endpoint: string; readonly status: number }[] = [];
  readonly #plans: Plan[] = [];
  readonly #server = createServer((incoming, response) => {
    this.#pass(incoming, response).catch(() => response.destroy());
  });
  /** All of them: nodes name each other by their own addresses, and the worker reads those of the proxies instead. */
  #all: readonly Proxy[] = [];

  private constructor(private readonly target: string) {}

  /** One before each node; a node that names another one names the proxy before it. */
  static async startAll(targets: readonly string[]): Promise<Proxy[]> {
    const proxies = targets.map((target) => new Proxy(target));
    for (const proxy of proxies) {
      proxy.address = `http://127.0.0.1:${await listenOnLoopback(proxy.#server)}`;
      proxy.#all = proxies;
    }
    return proxies;
  }

  /** Several proxies may have one plan in common: then the calls of all of them count. */
  add(plan: Plan): void {
    this.#plans.push(plan);
  }

  /** Statuses of the calls of an endpoint that passed, in order. */
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
    // Whoever asked has given up meanwhile: a node of his own would not hear of it any more.
    if (response.destroyed) return;
    const answer = await this.#forward(incoming, body);
    this.#passed.push({ endpoint, status: answer?.status ?? 0 });
    let delivery: Delivery = answer ? 'as it is' : 'lost';
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

  /** Undefined where the server closes the connection. */
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
