import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatPublicKey, addPin, newSealKey, newSigningKey } from '../keys';
import { ControlEndpoint, startSimulatedService } from '../simulator';
import type { SimulatedService } from '../simulator';
import { ClientsAddress } from './clients-address';
import type { ClientsFiles } from './clients-address';
import { inventoryText } from './inventory-file';
import { makePeople } from './people';
import type { DemoPerson } from './people';
import { demoCommand } from './programs';
import type { ControlFile } from './simulated';
import { paymentsTopology } from './topology';

/** The name of the simulated deployment. */
export const DEPLOYMENT = 'payments';
/** The environment for which the workers' key is pinned. */
const ENVIRONMENT = 'demo';
const DR_SETS = { main: ['east', 'west', 'north', 'spare'], europe: ['europe', 'europe-dr'], asia: ['asia'] } as const;
/** Clusters without replication: what an onboarding may wipe. */
const UNUSED = ['spare', 'asia'] as const;
const TOKEN_LIFE_MS = 24 * 3_600_000;

interface PaymentsOptions {
  /** Where finished reports go; it is left in place. */
  readonly reportDirectory: string;
  readonly taskQueue: string;
  readonly namespace: string;
  readonly uiAddress?: string;
  readonly seed?: number;
  /** `realistic` (default) restarts for seconds after a role change, `quick` is for tests. */
  readonly pace?: 'quick' | 'realistic';
}

/** A running simulated deployment with everything that a worker and its people need. Nothing of it is real. */
export interface Payments {
  readonly service: SimulatedService;
  /** Files of the scenario: keys, shares, tokens, inventory; mode 0700, removed by {@link stop}. */
  readonly directory: string;
  readonly inventoryFile: string;
  readonly people: ReadonlyMap<string, DemoPerson>;
  /** The address that clients use; the traffic hook points it to another cluster. */
  readonly clientsAddress: string;
  readonly clientsTokenFile: string;
  readonly clientsFiles: ClientsFiles;
  /** Command with which a person ends clusters, restarts them, cuts them off from each other. */
  readonly simulatedCommand: readonly [string, ...string[]];
  /** What people do after a cluster was wiped: makes a new token for the workers and puts it where they read it. */
  newCredential(cluster: string): Promise<void>;
  /** What workers and the command line need in their environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Ends the service and the clients' address and removes the directory. */
  stop(): Promise<void>;
}

/** Starts the simulated deployment `payments` on loopback and writes the files of its workers and people. */
export async function startPayments(options: PaymentsOptions): Promise<Payments> {
  const directory = await mkdtemp(join(tmpdir(), 'replication-runbooks-'));
  const keys = await keyDirectory(directory);
  const undo: (() => Promise<void>)[] = [() => rm(directory, { recursive: true, force: true }), keys.remove];
  const stop = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    const service = await startSimulatedService(paymentsTopology(options));
    undo.push(() => service.stop());
    const simulatedCommand = await startControl(directory, service, undo);
    const credentials = await writeCredentials(directory, service);
    const people = await makePeople(join(directory, 'people'), service.cluster('east').keyShares);
    const { signingKeyFile, sealKeysFile, pinsFile } = await writeWorkersKeys(directory);

    const clientsFiles = {
      target: join(directory, 'clients-target'),
      quiesce: join(directory, 'clients-quiesce'),
      writer: join(directory, 'clients-writer.json'),
    };
    await writeFile(clientsFiles.target, 'east', { mode: 0o600 });
    const nodes = new Map([...service.clusters.values()].map(({ name, addresses }) => [name, addresses]));
    const clients = new ClientsAddress(nodes, clientsFiles, credentials.clientsToken);
    const clientsAddress = await clients.start();
    undo.push(() => clients.stop());

    const hook = [...demoCommand('hook'), clientsFiles.target, clientsFiles.quiesce, clientsFiles.writer];
    const inventoryFile = join(directory, 'inventory.yaml');
    const text = inventoryText({
      deployment: DEPLOYMENT,
      clusters: new Map(
        [...nodes].map(([name, addresses]) => [name, { addresses, credentialFile: credentials.fileOf(name) }]),
      ),
      drSets: DR_SETS,
      people,
      signingKeyFile,
      namespace: options.namespace,
      ...(options.uiAddress === undefined ? {} : { uiAddress: options.uiAddress }),
      batchTokens: { main: { sink: { file: join(directory, 'main-batch-token') } } },
      pathsFilters: { europe: { mode: 'deny', paths: ['us-customers/'] }, asia: 'none' },
      hooks: { command: hook, probe: `${clientsAddress}/probe` },
    });
    await writeFile(inventoryFile, text, { mode: 0o600 });
    const environment = {
      RUNBOOKS_INVENTORY: inventoryFile,
      RUNBOOKS_SEAL_KEYS_FILE: sealKeysFile,
      RUNBOOKS_KEY_DIR: keys.path,
      RUNBOOKS_KEY_STORAGE: keys.storage,
      RUNBOOKS_REPORT_DIR: options.reportDirectory,
      RUNBOOKS_LEDGER_DIR: join(directory, 'ledger'),
      RUNBOOKS_TASK_QUEUE: options.taskQueue,
      RUNBOOKS_PINS: pinsFile,
    };
    return {
      service,
      directory,
      inventoryFile,
      people,
      clientsAddress,
      clientsTokenFile: credentials.clientsTokenFile,
      clientsFiles,
      simulatedCommand,
      newCredential: (cluster) => credentials.renew(cluster),
      environment,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A way in for people, on loopback; its token is in a file of the scenario. */
async function startControl(
  directory: string,
  service: SimulatedService,
  undo: (() => Promise<void>)[],
): Promise<readonly [string, ...string[]]> {
  const token = randomBytes(24).toString('base64url');
  const control = new ControlEndpoint(service, token);
  const address = await control.start(0);
  undo.push(() => control.stop());
  const file = join(directory, 'control.json');
  await writeFile(file, JSON.stringify({ address, token } satisfies ControlFile), { mode: 0o600 });
  return [...demoCommand('simulated'), file];
}

/** Memory-backed where the host has such a place. */
async function keyDirectory(
  directory: string,
): Promise<{ path: string; storage: 'memory' | 'disk'; remove: () => Promise<void> }> {
  const TMPFS_MAGIC = 0x01021994;
  const shared = await statfs('/dev/shm').catch(() => undefined);
  if (shared?.type === TMPFS_MAGIC) {
    const path = await mkdtemp('/dev/shm/replication-runbooks-').catch(() => undefined);
    if (path !== undefined)
      return { path, storage: 'memory', remove: () => rm(path, { recursive: true, force: true }) };
  }
  return { path: join(directory, 'ceremony-keys'), storage: 'disk', remove: () => Promise.resolve() };
}

async function writeWorkersKeys(
  directory: string,
): Promise<{ signingKeyFile: string; sealKeysFile: string; pinsFile: string }> {
  const signingKeyFile = join(directory, 'workers.key');
  const sealKeysFile = join(directory, 'seal-keys');
  const pinsFile = join(directory, 'pins.json');
  const { key, jwk } = newSigningKey();
  await writeFile(signingKeyFile, jwk.reveal(), { mode: 0o600 });
  await writeFile(sealKeysFile, newSealKey().reveal(), { mode: 0o600 });
  await addPin(pinsFile, ENVIRONMENT, formatPublicKey(key));
  return { signingKeyFile, sealKeysFile, pinsFile };
}

const ALL = ['create', 'read', 'update', 'delete', 'list'];

/** Tokens that may do what runbooks and clients need, and no more. A DR secondary has those of its primary. */
async function writeCredentials(
  directory: string,
  service: SimulatedService,
): Promise<{
  fileOf: (cluster: string) => string;
  renew: (cluster: string) => Promise<void>;
  clientsToken: string;
  clientsTokenFile: string;
}> {
  const folder = join(directory, 'tokens');
  await mkdir(folder, { mode: 0o700 });
  const east = service.cluster('east');
  for (const cluster of [east, ...UNUSED.map((name) => service.cluster(name))]) {
    cluster.writePolicy('runbooks', [
      { path: 'sys/replication/*', capabilities: [...ALL, 'sudo'] },
      { path: 'sys/audit', capabilities: ['read', 'sudo'] },
      { path: 'sys/license/status', capabilities: ['read'] },
      { path: 'kv/*', capabilities: ALL },
    ]);
  }
  east.writePolicy('batch-tokens', [
    { path: 'auth/token/create/runbooks-batch', capabilities: ['update'] },
    { path: 'auth/token/roles/runbooks-batch', capabilities: ['create', 'read'] },
    { path: 'sys/policies/acl/runbooks-batch', capabilities: ['create', 'read', 'update'] },
  ]);
  east.writePolicy('clients', [
    { path: 'secret/*', capabilities: ALL },
    { path: 'kv/*', capabilities: ALL },
  ]);
  const write = async (name: string, token: string): Promise<string> => {
    const file = join(folder, name);
    await writeFile(file, token, { mode: 0o600 });
    return file;
  };
  const mainPolicies = ['runbooks', 'batch-tokens'];
  const main = await write('main', east.createToken({ policies: mainPolicies, ttlMs: TOKEN_LIFE_MS }));
  const europe = await write(
    'europe',
    service.cluster('europe').createToken({ policies: ['runbooks'], ttlMs: TOKEN_LIFE_MS }),
  );
  const unused = new Map<string, string>();
  for (const name of UNUSED) {
    const token = service.cluster(name).createToken({ policies: ['runbooks'], ttlMs: TOKEN_LIFE_MS });
    unused.set(name, await write(name, token));
  }
  const clientsToken = east.createToken({ policies: ['clients'], ttlMs: TOKEN_LIFE_MS });
  const clientsTokenFile = await write('clients', clientsToken);
  const fileOf = (cluster: string): string => unused.get(cluster) ?? (cluster.startsWith('europe') ? europe : main);
  const renew = async (cluster: string): Promise<void> => {
    await writeFile(
      fileOf(cluster),
      service.cluster(cluster).createToken({ policies: ['runbooks'], ttlMs: TOKEN_LIFE_MS }),
    );
  };
  return { fileOf, renew, clientsToken, clientsTokenFile };
}
