import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inventoryText, writePolicies } from '../../src/demo/payments';
import { startWorkerProcess } from '../../src/demo/programs';
import type { TemporalServer } from '../../src/dev-server';
import type { OwnProcess } from '../../src/dev-server/child-process';
import { parseInventory } from '../../src/inventory';
import { formatPublicKey, newSealKey, newSigningKey } from '../../src/keys';
import type { SigningKey } from '../../src/keys';
import { startSimulatedService } from '../../src/simulator';
import type { SimulatedService } from '../../src/simulator';

export const DEPLOYMENT = 'bench';
export const HOLDERS = ['ada', 'bert', 'cleo', 'dora', 'emil'] as const;
export const APPROVER = 'grace';

/** The service needs no time beyond its calls, so that what a run takes longer than its calls is the runbook's own. */
const NO_WAITS = {
  restartMs: 0,
  electionMs: 0,
  standbyModeLagMs: 0,
  secondaryTokenRefusedMs: 0,
  streamDelayMs: 0,
  merkleDiffMs: 0,
  merkleSyncMs: 0,
};

/** One DR primary and one DR secondary of three nodes each, the keys of their people, and a worker process. */
export interface Laboratory {
  readonly service: SimulatedService;
  readonly taskQueue: string;
  readonly workersKey: SigningKey;
  readonly people: ReadonlyMap<string, SigningKey>;
  /** Greatest resident memory that the worker's process has had, bytes; undefined where the system does not tell. */
  workerPeakBytes(): Promise<number | undefined>;
  stop(): Promise<void>;
}

/** Name of the cluster that is the DR secondary now: each switchover changes it. */
export function secondaryOf({ service }: Laboratory): 'east' | 'west' {
  return service.cluster('west').snapshotState().dr.mode === 'secondary' ? 'west' : 'east';
}

/** Starts the laboratory; nothing of it stays behind after {@link Laboratory.stop}. */
export async function startLaboratory(server: TemporalServer): Promise<Laboratory> {
  const directory = await mkdtemp(join(tmpdir(), 'replication-runbooks-bench-'));
  const seal = { shares: HOLDERS.length, threshold: 3 };
  const service = await startSimulatedService({
    seed: 23,
    timing: NO_WAITS,
    clusters: [
      { name: 'east', nodes: 3, seal },
      { name: 'west', nodes: 3, seal },
    ],
    dr: [{ primary: 'east', secondaries: ['west'] }],
  });
  let worker: OwnProcess | undefined;
  const stop = async (): Promise<void> => {
    await worker?.stop();
    await service.stop();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    const taskQueue = `runbooks-bench-${process.pid}`;
    const people = new Map([...HOLDERS, APPROVER].map((name) => [name, newSigningKey().key]));
    const workers = newSigningKey();
    const file = async (name: string, content: string): Promise<string> => {
      await writeFile(join(directory, name), content, { mode: 0o600 });
      return join(directory, name);
    };
    const signingKeyFile = await file('workers.key', workers.jwk.reveal());
    const token = service.cluster('east').createToken({ policies: ['runbooks'], ttlMs: 24 * 3_600_000 });
    const credential = { file: await file('token', token) };
    const inventory = inventoryText({
      name: DEPLOYMENT,
      clusters: [...service.clusters.values()].map(({ name, addresses }) => ({ name, addresses, credential })),
      people: [...people].map(([name, key]) => ({
        name,
        groups: [name === APPROVER ? 'approvers' : 'holders'],
        publicKey: formatPublicKey(key),
      })),
      signingKeyFile,
      temporal: { namespace: server.namespace },
      // Switched over and back without a pause.
      members: {
        drSets: { main: ['east', 'west'] },
        quiesce: 'attested',
        limits: { coolDown: '1ms', walStill: '1ms' },
      },
    });
    writePolicies(service, parseInventory(inventory, 'bench'), DEPLOYMENT, ['east']);
    const environment = {
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_NAMESPACE: server.namespace,
      RUNBOOKS_INVENTORY: await file('inventory.yaml', inventory),
      RUNBOOKS_SEAL_KEYS_FILE: await file('seal-keys', newSealKey().reveal()),
      RUNBOOKS_KEY_DIR: join(directory, 'keys'),
      RUNBOOKS_KEY_STORAGE: 'disk',
      RUNBOOKS_REPORT_DIR: join(directory, 'reports'),
      RUNBOOKS_TASK_QUEUE: taskQueue,
      RUNBOOKS_LOG_LEVEL: 'warn',
    };
    worker = await startWorkerProcess(environment, () => undefined);
    const { pid } = worker;
    return { service, taskQueue, workersKey: workers.key, people, workerPeakBytes: () => peakBytes(pid), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function peakBytes(pid: number | undefined): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid ?? 0}/status`, 'utf8').catch(() => '');
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}
