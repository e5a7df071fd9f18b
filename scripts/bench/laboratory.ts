import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { Children } from '../../src/demo/children';
import type { Child } from '../../src/demo/children';
import { runbookCommand } from '../../src/demo/programs';
import type { TemporalServer } from '../../src/dev-server';
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
const WORKER_READY_MS = 60_000;

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
  const children = new Children();
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
  const stop = async (): Promise<void> => {
    await children.stopAll();
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
    const credentialFile = await file('token', service.cluster('east').rootToken);
    const inventory = inventoryText(service, people, server.namespace, { signingKeyFile, credentialFile });
    const worker = await startWorkerProcess(children, {
      TEMPORAL_ADDRESS: server.address,
      TEMPORAL_NAMESPACE: server.namespace,
      RUNBOOKS_INVENTORY: await file('inventory.yaml', inventory),
      RUNBOOKS_SEAL_KEYS_FILE: await file('seal-keys', newSealKey().reveal()),
      RUNBOOKS_KEY_DIR: join(directory, 'keys'),
      RUNBOOKS_KEY_STORAGE: 'disk',
      RUNBOOKS_REPORT_DIR: join(directory, 'reports'),
      RUNBOOKS_LEDGER_DIR: join(directory, 'ledger'),
      RUNBOOKS_TASK_QUEUE: taskQueue,
      RUNBOOKS_LOG_LEVEL: 'warn',
    });
    return { service, taskQueue, workersKey: workers.key, people, workerPeakBytes: () => peakBytes(worker.pid), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function inventoryText(
  service: SimulatedService,
  people: ReadonlyMap<string, SigningKey>,
  namespace: string,
  files: { readonly signingKeyFile: string; readonly credentialFile: string },
): string {
  const gate = { approvals: 1, groups: ['approvers'], validFor: '1h' };
  return stringify({
    version: 1,
    temporal: { namespace },
    workers: { signingKey: { file: files.signingKeyFile } },
    people: Object.fromEntries(
      [...people].map(([name, key]) => [
        name,
        {
          groups: [name === APPROVER ? 'approvers' : 'holders'],
          attestation: 'signed',
          publicKeys: [formatPublicKey(key)],
        },
      ]),
    ),
    deployments: {
      [DEPLOYMENT]: {
        clusters: Object.fromEntries(
          [...service.clusters.values()].map(({ name, addresses }) => [
            name,
            {
              addresses: [...addresses],
              advertisedClusterAddress: 'node-address',
              credential: { file: files.credentialFile },
            },
          ]),
        ),
        drSets: { main: ['east', 'west'] },
        ceremony: { holders: [...HOLDERS], collectFor: '30m', useFor: '30m', tokenSource: 'ceremony' },
        gates: { plan: gate, go: gate },
        // Switched over and back without a pause.
        limits: { coolDown: '1ms' },
      },
    },
  });
}

async function startWorkerProcess(children: Children, env: Readonly<Record<string, string>>): Promise<Child> {
  let ready: () => void = () => undefined;
  const readiness = new Promise<'ready'>((resolve) => (ready = () => resolve('ready')));
  const said: string[] = [];
  const [program, ...words] = runbookCommand();
  const worker = children.start('worker', [program, ...words, 'worker'], {
    env,
    onLine: (line) => (line.startsWith('Worker ready') ? ready() : void said.push(line)),
  });
  let timer: NodeJS.Timeout | undefined;
  const outcome = await Promise.race([
    readiness,
    worker.ended.then((code) => `it ended with ${code}`),
    new Promise<string>((resolve) => (timer = setTimeout(() => resolve('it took too long'), WORKER_READY_MS))),
  ]);
  clearTimeout(timer);
  if (outcome !== 'ready') throw new Error(`The worker did not become ready: ${outcome}.\n${said.join('\n')}`);
  return worker;
}

async function peakBytes(pid: number | undefined): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid ?? 0}/status`, 'utf8').catch(() => '');
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}
