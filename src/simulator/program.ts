import { randomBytes, timingSafeEqual } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import writeFileAtomic from 'write-file-atomic';
import { closeAtOnce, listenOnLoopback } from './node';
import { startSimulatedService, type SimulatedService } from './service';
import type { Topology } from './topology';

/** Control commands for a running simulated service: `POST /control/<command>/<cluster>[/<other cluster>]`. */
const COMMANDS: Record<string, (service: SimulatedService, cluster: string, other: string) => unknown> = {
  kill: (service, cluster) => service.cluster(cluster).kill(),
  restart: (service, cluster) => service.cluster(cluster).restart(),
  partition: (service, cluster, other) => service.partition(cluster, other),
  heal: (service) => service.heal(),
};

/** The control endpoint of a running simulated service; requires the token as a bearer token. */
function controlServer(service: SimulatedService, token: string): Server {
  const isAuthorised = ({ headers }: IncomingMessage): boolean => {
    const given = Buffer.from((headers.authorization ?? '').replace(/^Bearer /, ''));
    const wanted = Buffer.from(token);
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  };
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [, start, name = '', cluster = '', other = ''] = (incoming.url ?? '').split('/');
    const run = start === 'control' && incoming.method === 'POST' ? COMMANDS[name] : undefined;
    if (!isAuthorised(incoming)) return reply(response, 403, { error: 'wrong or missing control token' });
    if (run === undefined) return reply(response, 404, { error: 'unknown command', commands: Object.keys(COMMANDS) });
    try {
      await run(service, cluster, other);
      reply(response, 200, { ok: true });
    } catch (error) {
      reply(response, 400, { error: error instanceof Error ? error.message : 'bad request' });
    }
  };
  return createServer((incoming, response) => void serve(incoming, response));
}

function reply(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${JSON.stringify(body)}\n`);
}

/** Starts the simulated service and its control endpoint, and writes the state file. `stop` removes the file. */
export async function startSimulator(topology: Topology, stateFile: string) {
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
    // Readable only by its owner, and never incomplete.
    await writeFileAtomic(stateFile, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600 });
    return { service, state, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Contents of the JSON state file. It contains secrets, so only its owner may read it. Key shares are in hex. */
export type SimulatorState = Readonly<Awaited<ReturnType<typeof startSimulator>>['state']>;

/** The lines that the program prints: all addresses, and no secrets. */
export function describeSimulator({ clusters, control }: SimulatorState, stateFile: string): string[] {
  return [
    ...clusters.map(({ name, addresses, clusterId }) => `${name}  ${addresses.join(' ')}  cluster ID ${clusterId}`),
    `control  ${control.address}  (tokens and key shares are in ${stateFile})`,
  ];
}
