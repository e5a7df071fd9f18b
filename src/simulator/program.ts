import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import writeFileAtomic from 'write-file-atomic';
import { ControlEndpoint } from './control';
import { startSimulatedService, type SimulatedService } from './service';
import { parseTopology, type Topology } from './topology';

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

export interface RunningSimulator {
  readonly service: SimulatedService;
  readonly state: SimulatorState;
  /** Ends the service and removes the state file. */
  readonly stop: () => Promise<void>;
}

/** Starts the simulated service with its control endpoint (0: on any port), and writes the state file. */
export async function startSimulator(
  topology: Topology,
  stateFile: string,
  controlPort = 0,
): Promise<RunningSimulator> {
  const service = await startSimulatedService(topology);
  const token = randomBytes(24).toString('base64url');
  const control = new ControlEndpoint(service, token);
  const stop = async (): Promise<void> => {
    await Promise.all([control.stop(), service.stop()]);
    await rm(stateFile, { force: true });
  };
  try {
    const address = await control.start(controlPort);
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
  controlPort?: number;
  log: (line: string) => void;
}): Promise<void> {
  const topology = parseTopology(await readFile(options.topologyFile, 'utf8'));
  const { state, stop } = await startSimulator(topology, options.stateFile, options.controlPort);
  for (const line of describeSimulator(state, options.stateFile)) options.log(line);
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve());
  });
  options.log('stopping');
  await stop();
}
