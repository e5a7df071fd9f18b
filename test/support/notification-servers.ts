import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { closeAtOnce, listenOnLoopback } from '../../src/simulator';

/** A target of notifications in an inventory: the webhook of {@link openWebhook}. */
export const WEBHOOK = { name: 'hook', kind: 'webhook', url: { env: 'TEST_WEBHOOK_URL' } } as const;

/** A webhook for the tests of a file or a group. */
export function openWebhook(give: (opened: WebhookServer) => void): void {
  let hook: WebhookServer | undefined;
  beforeAll(async () => {
    hook = await WebhookServer.start();
    process.env[WEBHOOK.url.env] = hook.origin;
    give(hook);
  });
  afterAll(() => hook?.stop());
}

/** One request that a webhook received. */
export interface Posted {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A webhook on loopback that keeps its requests. */
export class WebhookServer {
  origin = '';
  readonly posted: Posted[] = [];
  /** Statuses of the answers in order; the last one repeats. `hang`: no answer. */
  answers: (number | 'hang')[] = [200];
  readonly #actions = new Map<string, () => number | Promise<number>>();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => void this.#take(request, response));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url: path = '', headers } = request;
    const body = JSON.parse((await buffer(request)).toString()) as Posted['body'];
    this.posted.push({ path, headers, body });
    const action = this.#actions.get(path.slice(1));
    const next = this.answers.length > 1 ? this.answers.shift() : this.answers[0];
    const answer = next ?? 200;
    if (action) response.writeHead(await action()).end();
    else if (answer !== 'hang')
      response.writeHead(answer, { location: `${this.origin}/elsewhere` }).end('an answer that nobody repeats');
  }

  static async start(): Promise<WebhookServer> {
    const hook = new WebhookServer();
    hook.origin = `http://127.0.0.1:${await listenOnLoopback(hook.#server)}`;
    return hook;
  }

  /** Values of one member of the posted bodies, in order of arrival. */
  values(member: string): unknown[] {
    return this.posted.map(({ body }) => body[member]);
  }

  /** Runs an action on calls of this path, and answers with its status. */
  on(path: string, action: () => number | Promise<number>): void {
    this.#actions.set(path, action);
  }

  async stop(): Promise<void> {
    await closeAtOnce(this.#server);
  }
}
