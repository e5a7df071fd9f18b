import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import writeFileAtomic from 'write-file-atomic';
import { parse } from 'yaml';
import { z } from 'zod';
import { ControlEndpoint } from './control';
import { HARSH_READINGS, QUICK_TIMING } from './readings';
import { startSimulatedService, type SimulatedService } from './service';
import { TOPOLOGY, type Topology } from './topology';

/** What the state file says of one cluster. It holds secrets: the file is for its owner only. */
export interface SimulatorClusterState {
  readonly name: string;
  readonly clusterId: string;
  readonly addresses: readonly string[];
  readonly clusterAddress: string;
  readonly rootToken: string;
  /** Hex. */
  readonly keyShares: readonly string[];
}

/** Content of the state file, JSON. */
export interface SimulatorState {
  readonly pid: number;
  readonly control: { readonly address: string; readonly token: string };
  readonly clusters: readonly SimulatorClusterState[];
}

export interface RunningSimulator {
  readonly service: SimulatedService;
  readonly state: SimulatorState;
  /** Ends the service and removes the state file. */
  stop(): Promise<void>;
}

function partial<T extends object>(names: T): z.ZodType<Partial<T>> {
  const members = Object.entries(names).map(([name, value]) => [
    name,
    (typeof value === 'boolean' ? z.boolean() : z.number().min(0)).optional(),
  ]);
  return z.strictObject(Object.fromEntries(members) as z.ZodRawShape) as unknown as z.ZodType<Partial<T>>;
}

const FILE = TOPOLOGY.extend({
  timing: partial(QUICK_TIMING).optional(),
  readings: partial(HARSH_READINGS).optional(),
});

/** A topology from the text of a YAML file. @throws Error naming every wrong field */
export function parseTopology(text: string): Topology {
  const parsed = FILE.safeParse(parse(text));
  if (!parsed.success) {
    const mistakes = parsed.error.issues.map(({ path, message }) => `${path.join('.') || '(top)'}: ${message}`);
    throw new Error(`topology: ${mistakes.join('; ')}`);
  }
  return parsed.data;
}

/** Starts the simulated service from a topology file, with its control endpoint, and writes the state file. */
export async function startSimulatorProgram(options: {
  topologyFile: string;
  stateFile: string;
  /** Port of the control endpoint; default any. */
  controlPort?: number;
  log: (line: string) => void;
}): Promise<RunningSimulator> {
  const service = await startSimulatedService(parseTopology(await readFile(options.topologyFile, 'utf8')));
  const token = randomBytes(24).toString('base64url');
  const control = new ControlEndpoint(service, token);
  try {
    const address = await control.start(options.controlPort ?? 0);
    const state = { pid: process.pid, control: { address, token }, clusters: describeClusters(service) };
    await writeState(options.stateFile, state);
    for (const cluster of state.clusters)
      options.log(`${cluster.name}  ${cluster.addresses.join(' ')}  cluster id ${cluster.clusterId}`);
    options.log(`control  ${address}  (tokens and key shares: ${options.stateFile})`);
    const stop = async (): Promise<void> => {
      await Promise.all([control.stop(), service.stop()]);
      await rm(options.stateFile, { force: true });
    };
    return { service, state, stop };
  } catch (error) {
    await Promise.all([control.stop(), service.stop()]);
    throw error;
  }
}

/** The program: runs until SIGTERM or SIGINT. */
export async function runSimulatorProgram(options: {
  topologyFile: string;
  stateFile: string;
  controlPort?: number;
  log: (line: string) => void;
}): Promise<void> {
  const running = await startSimulatorProgram(options);
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve());
  });
  options.log('stopping');
  await running.stop();
}

function describeClusters(service: SimulatedService): SimulatorClusterState[] {
  return [...service.clusters.values()].map((cluster) => ({
    name: cluster.name,
    clusterId: cluster.clusterId,
    addresses: cluster.addresses,
    clusterAddress: cluster.clusterAddress,
    rootToken: cluster.rootToken,
    keyShares: cluster.keyShares,
  }));
}

/** Readable by its owner only, and never half written. */
async function writeState(path: string, state: SimulatorState): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600 });
}
