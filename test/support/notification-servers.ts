import { createServer } from 'node:http';
import type { IncomingHttpHeaders, Server } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import type { Server as TcpServer } from 'node:net';
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

export interface Mail {
  readonly from: string;
  readonly to: readonly string[];
  readonly credentials?: string;
  /** Headers and text as they arrived. */
  readonly data: string;
}

/** As much of an SMTP server as one sender needs: greeting, AUTH PLAIN, envelope, data. */
export class MailServer {
  port = 0;
  readonly mails: Mail[] = [];
  refuseRecipients = false;
  readonly #server: TcpServer;

  private constructor() {
    this.#server = createTcpServer((socket) => {
      let buffered = '';
      let from = '';
      let to: string[] = [];
      let credentials: string | undefined;
      let data: string[] | undefined;
      const say = (line: string) => socket.write(`${line}\r\n`);
      const hear = (line: string) => {
        if (data) {
          if (line !== '.') return void data.push(line);
          this.mails.push({ from, to, credentials, data: data.join('\n') });
          data = undefined;
          return say('250 kept');
        }
        const word = line.slice(0, 4).toUpperCase();
        if (word === 'EHLO') return (say('250-localhost'), say('250 AUTH PLAIN'));
        if (word === 'AUTH') {
          credentials = Buffer.from(line.split(' ')[2] ?? '', 'base64').toString('utf8');
          return say('235 in');
        }
        if (word === 'MAIL') return ((from = address(line)), (to = []), say('250 ok'));
        if (word === 'RCPT') {
          if (this.refuseRecipients) return say('550 no such mailbox');
          return (to.push(address(line)), say('250 ok'));
        }
        if (word === 'DATA') return ((data = []), say('354 go on'));
        if (word === 'QUIT') return (say('221 bye'), socket.end());
        return say('502 not here');
      };
      socket.on('error', () => undefined);
      socket.on('data', (part) => {
        buffered += part.toString('utf8');
        const lines = buffered.split('\r\n');
        buffered = lines.pop() ?? '';
        for (const line of lines) hear(line);
      });
      say('220 localhost');
    });
  }

  static async start(): Promise<MailServer> {
    const server = new MailServer();
    server.port = await listenOnLoopback(server.#server);
    return server;
  }

  async stop(): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function address(line: string): string {
  return /<([^>]*)>/.exec(line)?.[1] ?? '';
}
