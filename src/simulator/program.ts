import { randomBytes, timingSafeEqual } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import writeFileAtomic from 'write-file-atomic';
import { z } from 'zod';
import { encodeJson, type JsonValue } from './messages';
import { closeAtOnce, listenOnLoopback } from './node';
import { startSimulatedService, type SimulatedService } from './service';
import { parseTopology, type Topology } from './topology';

const CLUSTER = z.strictObject({ cluster: z.string() });
const LINK = z.strictObject({ a: z.string(), b: z.string() });

type Command = (service: SimulatedService, body: unknown) => unknown;

function command<T>(schema: z.ZodType<T>, run: (service: SimulatedService, body: T) => unknown): Command {
  return (service, body) => run(service, schema.parse(body));
}

/** What an operator can do to a running simulated service, by the name in `POST /control/<name>`. */
const COMMANDS: Record<string, Command> = {
  kill: command(CLUSTER, (service, { cluster }) => service.cluster(cluster).kill()),
  restart: command(CLUSTER, (service, { cluster }) => service.cluster(cluster).restart()),
  partition: command(LINK, (service, { a, b }) => service.partition(a, b)),
  heal: command(z.strictObject({}), (service) => service.heal()),
};

/**
 * The operator's way into a running simulated service: `POST /control/<command>` with the token as bearer, on loopback
 * only.
 */
function controlServer(service: SimulatedService, token: string): Server {
  const isAuthorised = ({ headers }: IncomingMessage): boolean => {
    const given = Buffer.from((headers.authorization ?? '').replace(/^Bearer /, ''));
    const wanted = Buffer.from(token);
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  };
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const run = COMMANDS[/^\/control\/([a-z-]+)$/.exec(incoming.url ?? '')?.[1] ?? ''];
    if (!isAuthorised(incoming)) return reply(response, 403, { error: 'wrong or missing control token' });
    if (run === undefined || incoming.method !== 'POST')
      return reply(response, 404, { error: 'unknown command', commands: Object.keys(COMMANDS) });
    try {
      const body = await text(incoming);
      await run(service, body === '' ? {} : JSON.parse(body));
      reply(response, 200, { ok: true });
    } catch (error) {
      reply(response, 400, { error: error instanceof Error ? error.message : 'bad request' });
    }
  };
  return createServer((incoming, response) => void serve(incoming, response));
}

function reply(response: ServerResponse, status: number, body: JsonValue): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${encodeJson(body)}\n`);
}

/** Content of the state file, JSON. It holds secrets: the file is for its owner only. */
export interface SimulatorState {
  readonly pid: number;
  readonly control: { readonly address: string; readonly token: string };
  readonly clusters: readonly {
    readonly name: string;
    readonly clusterId: string;
    readonly addresses: readonly string[];
    readonly clusterAddress: string;
    readonly rootToken: string;
    /** Hex. */
    readonly keyShares: readonly string[];
  }[];
}

interface RunningSimulator {
  readonly service: SimulatedService;
  readonly state: SimulatorState;
  /** Ends the service and removes the state file. */
  readonly stop: () => Promise<void>;
}

/** Starts the simulated service with its control endpoint, and writes the state file. */
export async function startSimulator(topology: Topology, stateFile: string): Promise<RunningSimulator> {
  const service = await startSimulatedService(topology);
  const token = randomBytes(24).toString('base64url');
  const control = controlServer(service, token);
  const stop = async (): Promise<void> => {
    await Promise.all([closeAtOnce(control), service.stop()]);
    await rm(stateFile, { force: true });
  };
  try {
    const address = `http://127.0.0.1:${await listenOnLoopback(control)}`;
    const clusters = [...service.clusters.values()].map(
      ({ name, clusterId, addresses, clusterAddress, rootToken, keyShares }) => {
        return { name, clusterId, addresses, clusterAddress, rootToken, keyShares };
      },
    );
    const state = { pid: process.pid, control: { address, token }, clusters };
    // Readable by its owner only, and never half written.
    await writeFileAtomic(stateFile, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600 });
    return { service, state, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** What the program prints: where everything is, and no secret. */
export function describeSimulator({ clusters, control }: SimulatorState, stateFile: string): string[] {
  return [
    ...clusters.map(({ name, addresses, clusterId }) => `${name}  ${addresses.join(' ')}  cluster id ${clusterId}`),
    `control  ${control.address}  (tokens and key shares: ${stateFile})`,
  ];
}

/** The program: runs the service of a topology file until SIGTERM or SIGINT. */
export async function runSimulatorProgram(options: {
  topologyFile: string;
  stateFile: string;
  log: (line: string) => void;
}): Promise<void> {
  const topology = parseTopology(await readFile(options.topologyFile, 'utf8'));
  const { state, stop } = await startSimulator(topology, options.stateFile);
  for (const line of describeSimulator(state, options.stateFile)) options.log(line);
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve());
  });
  options.log('stopping');
  await stop();
}
