import { timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { encodeJson, type JsonValue } from './messages';
import { closeAtOnce, listenOnLoopback } from './node';
import type { SimulatedService } from './service';

const CLUSTER = z.strictObject({ cluster: z.string() });
const NODE = z.strictObject({ cluster: z.string(), node: z.number().int().min(0) });
const LINK = z.strictObject({ a: z.string(), b: z.string() });
const FAULT = z.strictObject({
  cluster: z.string().optional(),
  /** `METHOD /v1/path`, or a regular expression between slashes. */
  endpoint: z.string(),
  when: z.enum(['before', 'after']).optional(),
  action: z.union([
    z.enum(['reset', 'lose-answer', 'glue-documents']),
    z.strictObject({ status: z.number().int().min(200).max(599) }),
    z.strictObject({ delayMs: z.number().min(0) }),
  ]),
  times: z.number().int().min(1).optional(),
  skip: z.number().int().min(0).optional(),
});

type Command = (service: SimulatedService, body: unknown) => JsonValue | Promise<JsonValue>;

function command<T>(schema: z.ZodType<T>, run: (service: SimulatedService, body: T) => unknown): Command {
  return async (service, body) => {
    await run(service, schema.parse(body));
    return { ok: true };
  };
}

function pattern(endpoint: string): string | RegExp {
  return endpoint.startsWith('/') && endpoint.endsWith('/') ? new RegExp(endpoint.slice(1, -1)) : endpoint;
}

/** What an operator can do to a running simulated service, by the name in `POST /control/<name>`. */
const COMMANDS: Record<string, Command> = {
  fault: command(FAULT, (service, fault) => service.faults.add({ ...fault, endpoint: pattern(fault.endpoint) })),
  'clear-faults': command(z.strictObject({}), (service) => service.faults.clear()),
  'leader-change': command(CLUSTER.extend({ node: z.number().int().optional() }), (service, { cluster, node }) =>
    service.cluster(cluster).leaderChange(node),
  ),
  'kill-node': command(NODE, (service, { cluster, node }) => service.cluster(cluster).killNode(node)),
  'start-node': command(NODE, (service, { cluster, node }) => service.cluster(cluster).startNode(node)),
  kill: command(CLUSTER, (service, { cluster }) => service.cluster(cluster).kill()),
  restart: command(CLUSTER, (service, { cluster }) => service.cluster(cluster).restart()),
  seal: command(NODE, (service, { cluster, node }) => service.cluster(cluster).sealNode(node)),
  unseal: command(NODE, (service, { cluster, node }) => service.cluster(cluster).unsealNode(node)),
  partition: command(LINK, (service, { a, b }) => service.partition(a, b)),
  heal: command(z.strictObject({}), (service) => service.heal()),
  'hold-stream': command(
    CLUSTER.extend({ kind: z.enum(['dr', 'performance']), on: z.boolean() }),
    (service, { cluster, kind, on }) => {
      service.cluster(cluster).holdStream(kind, on);
    },
  ),
  'fill-storage': command(CLUSTER.extend({ on: z.boolean() }), (service, { cluster, on }) => {
    service.cluster(cluster).storage.isFull = on;
  }),
  // Snapshots and calls hold nothing but plain values.
  snapshot: (service) => [...service.clusters.values()].map((cluster) => ({ ...cluster.snapshotState() })),
  calls: (service) => service.calls.map((call) => ({ ...call })),
};

/**
 * The operator's way into a running simulated service: `POST /control/<command>` with the token as bearer. It listens on
 * loopback only.
 */
export class ControlEndpoint {
  readonly #server: Server;

  constructor(
    private readonly service: SimulatedService,
    private readonly token: string,
  ) {
    this.#server = createServer((incoming, response) => {
      void this.#serve(incoming, response);
    });
  }

  /** Starts listening. @returns the address */
  async start(port: number): Promise<string> {
    return `http://127.0.0.1:${await listenOnLoopback(this.#server, port)}`;
  }

  async stop(): Promise<void> {
    await closeAtOnce(this.#server);
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const run = COMMANDS[/^\/control\/([a-z-]+)$/.exec(incoming.url ?? '')?.[1] ?? ''];
    if (!this.#authorised(incoming)) reply(response, 403, { error: 'wrong or missing control token' });
    else if (run === undefined || incoming.method !== 'POST')
      reply(response, 404, { error: 'unknown command', commands: Object.keys(COMMANDS) });
    else
      try {
        const body = await text(incoming);
        reply(response, 200, await run(this.service, body === '' ? {} : JSON.parse(body)));
      } catch (error) {
        reply(response, 400, { error: error instanceof Error ? error.message : 'bad request' });
      }
  }

  #authorised(incoming: IncomingMessage): boolean {
    const given = Buffer.from((incoming.headers.authorization ?? '').replace(/^Bearer /, ''));
    const wanted = Buffer.from(this.token);
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  }
}

function reply(response: ServerResponse, status: number, body: JsonValue): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${encodeJson(body)}\n`);
}
