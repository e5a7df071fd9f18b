import { createServer } from 'node:http';
import type { IncomingHttpHeaders, Server } from 'node:http';
import { closeAtOnce, listenOnLoopback } from '../../src/simulator';

/** One request that a webhook got. */
export interface Posted {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A webhook on loopback that keeps what it is told. */
export class WebhookServer {
  origin = '';
  readonly posted: Posted[] = [];
  /** Status of each answer; the last one stays. `hang` gives none. */
  answers: (number | 'hang')[] = [200];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const body = JSON.parse(Buffer.concat(parts).toString('utf8')) as Readonly<Record<string, unknown>>;
        this.posted.push({ path: request.url ?? '', headers: request.headers, body });
        const answer = (this.answers.length > 1 ? this.answers.shift() : this.answers[0]) ?? 200;
        if (answer === 'hang') return;
        response.writeHead(answer, { location: `${this.origin}/elsewhere` }).end('an answer that nobody repeats');
      });
    });
  }

  static async start(): Promise<WebhookServer> {
    const hook = new WebhookServer();
    hook.origin = `http://127.0.0.1:${await listenOnLoopback(hook.#server)}`;
    return hook;
  }

  /** Values of one member of what was posted, in the order of arrival. */
  values(member: string): unknown[] {
    return this.posted.map(({ body }) => body[member]);
  }

  async stop(): Promise<void> {
    await closeAtOnce(this.#server);
  }
}

/** Receives the calls of hooks: what is done, and the status that is answered, by the last part of the path. */
export class HookReceiver {
  readonly calls: string[] = [];
  readonly #actions = new Map<string, () => number | Promise<number>>();

  private constructor(
    private readonly server: Server,
    private readonly port: number,
  ) {}

  static async start(): Promise<HookReceiver> {
    const server = createServer((incoming, response) => {
      const name = (incoming.url ?? '').split('/').at(-1) ?? '';
      incoming.resume();
      receiver.calls.push(name);
      void Promise.resolve(receiver.#actions.get(name)?.() ?? 204).then((status) => response.writeHead(status).end());
    });
    const receiver: HookReceiver = new HookReceiver(server, await listenOnLoopback(server));
    return receiver;
  }

  url(name: string): string {
    return `http://127.0.0.1:${this.port}/${name}`;
  }

  /** What the next calls of a hook do. */
  on(name: string, action: () => number | Promise<number>): void {
    this.#actions.set(name, action);
  }

  async stop(): Promise<void> {
    await closeAtOnce(this.server);
  }
}
