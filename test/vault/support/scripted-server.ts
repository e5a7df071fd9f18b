import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { text } from 'node:stream/consumers';
import { closeAtOnce, listenOnLoopback } from '../../../src/simulator';

/** What a scripted node does with one request. */
export interface ScriptedReply {
  readonly status?: number;
  readonly json?: unknown;
  /** Sent as it is, instead of `json`. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** `reset`: close without an answer. `hang`: never answer. `break`: send half of the body, then close. */
  readonly action?: 'reset' | 'hang' | 'break';
}

export interface RecordedRequest {
  readonly method: string;
  /** With the leading `/v1/`. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Script = ScriptedReply | ((request: RecordedRequest) => ScriptedReply);

/** A node of the service that answers from a script and remembers what it was asked. */
export class ScriptedServer {
  readonly requests: RecordedRequest[] = [];
  private readonly scripts = new Map<string, Script>();

  private constructor(
    private readonly server: Server,
    readonly address: string,
  ) {}

  static async start(tls?: { readonly key: string; readonly cert: string }): Promise<ScriptedServer> {
    const server = tls === undefined ? createServer() : createTlsServer({ ...tls });
    const port = await listenOnLoopback(server);
    const scripted = new ScriptedServer(server, `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`);
    server.on('request', (request, response) => void scripted.answer(request, response));
    return scripted;
  }

  /** `call` is method and path below `/v1/`, e.g. `GET sys/leader`. */
  on(call: string, script: Script): this {
    this.scripts.set(call, script);
    return this;
  }

  /** Makes the node call itself active. */
  active(): this {
    return this.on('GET sys/leader', {
      json: { ha_enabled: true, is_self: true, leader_address: this.address, leader_cluster_address: '' },
    });
  }

  /** Makes the node a standby that names `leader`. */
  standby(leader: string): this {
    return this.on('GET sys/leader', { json: { ha_enabled: true, is_self: false, leader_address: leader } });
  }

  /** The requests other than the client's own questions for the leader. */
  get calls(): readonly string[] {
    const calls = this.requests.map(({ method, path }) => `${method} ${path.slice('/v1/'.length)}`);
    return calls.filter((call) => call !== 'GET sys/leader');
  }

  async stop(): Promise<void> {
    await closeAtOnce(this.server);
  }

  private async answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(incoming);
    const request = { method: incoming.method ?? '', path: incoming.url ?? '', headers: incoming.headers, body };
    this.requests.push(request);
    const script = this.scripts.get(`${request.method} ${request.path.slice('/v1/'.length)}`);
    const reply = typeof script === 'function' ? script(request) : script;
    if (reply === undefined) return send(response, { status: 404, json: { errors: [] } });
    if (reply.action === 'hang') return;
    if (reply.action === 'reset') return void incoming.socket.destroy();
    send(response, reply);
  }
}

function send(response: ServerResponse, reply: ScriptedReply): void {
  const body = reply.text ?? (reply.json === undefined ? '' : JSON.stringify(reply.json));
  const length = reply.action === 'break' ? { 'content-length': String(body.length * 2) } : {};
  response.writeHead(reply.status ?? 200, { 'content-type': 'application/json', ...length, ...reply.headers });
  if (reply.action === 'break') response.write(body, () => response.destroy());
  else response.end(body);
}

/** A port on loopback on which nothing listens any more. */
export async function deadAddress(): Promise<string> {
  const server = await ScriptedServer.start();
  await server.stop();
  return server.address;
}
