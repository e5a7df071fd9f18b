import { mkdir, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { policyFor } from '../../activities/tokens/policies';
import { RUNBOOK_NAMES } from '../contracts/names';
import { findDeployment, parseInventory } from '../inventory';
import type { Inventory } from '../inventory';
import { formatPublicKey, addPin, newSealKey, newSigningKey } from '../keys';
import { startSimulator } from '../simulator';
import type { SimulatedService, Topology } from '../simulator';
import { Clients } from './clients';
import { DEPLOYMENT, makePeople } from './people';
import type { DemoPerson } from './people';
import { makeAppRole, PLAIN_MEMBERS, PLAIN_TOPOLOGY } from './plain';
import { simulatedCommand } from './programs';

/** The environment for which the workers' key is pinned. */
const ENVIRONMENT = 'demo';
const DR_SETS = { main: ['east', 'west', 'north', 'spare'], europe: ['europe', 'europe-dr'], asia: ['asia'] } as const;
/** Clusters without replication: what an onboarding may wipe. */
const UNUSED = ['spare', 'asia'] as const;
const TOKEN_LIFE_MS = 24 * 3_600_000;
const HOOKS = ['quiesce', 'release', 'traffic', 'fence', 'unfence', 'dump'] as const;

/**
 * `east` primary with the DR secondaries `west` and `north`; `europe`, a performance secondary of `east` with a paths
 * filter, and `europe-dr`, its DR secondary; `spare` and `asia` without replication.
 */
const TOPOLOGY: Topology = {
  seed: 7,
  // `us-customers` must not leave its region.
  mounts: ['kv/', 'secret/', 'us-customers/'],
  clusters: [
    { name: 'east', nodes: 3 },
    { name: 'west', nodes: 3 },
    { name: 'north', nodes: 1 },
    { name: 'europe', nodes: 1 },
    { name: 'europe-dr', nodes: 1 },
    { name: 'spare', nodes: 3 },
    { name: 'asia', nodes: 1 },
  ],
  performance: {
    primary: 'east',
    secondaries: [{ name: 'europe', filter: { mode: 'deny', paths: ['us-customers/'] } }],
  },
  dr: [
    { primary: 'east', secondaries: ['west', 'north'] },
    { primary: 'europe', secondaries: ['europe-dr'] },
  ],
};

interface PaymentsOptions {
  /** Where finished reports go; it is left in place. */
  readonly reportDirectory: string;
  readonly taskQueue: string;
  readonly namespace: string;
  readonly uiAddress?: string;
  /** A site without hooks and static tokens. */
  readonly plain?: boolean;
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
  readonly clients: Clients;
  /** Address of the clients' hooks and their probe. */
  readonly clientsAddress: string;
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
    // A way in for people, on loopback; its token is in the state file.
    const stateFile = join(directory, 'simulated.json');
    const simulator = await startSimulator(
      { ...(options.plain ? PLAIN_TOPOLOGY : TOPOLOGY), pace: options.pace ?? 'realistic' },
      stateFile,
    );
    undo.push(() => simulator.stop());
    const { service } = simulator;

    const credentials = await writeCredentials(directory, service);
    const appRole = options.plain ? await makeAppRole(service, directory) : undefined;
    const people = await makePeople(join(directory, 'people'), service.cluster('east').keyShares);
    const { signingKeyFile, sealKeysFile, pinsFile } = await writeWorkersKeys(directory);

    const clusters = [...service.clusters.values()];
    const nodes = new Map(clusters.map(({ name, addresses }) => [name, addresses]));
    const clients = new Clients(nodes, appRole ? undefined : 'east', credentials.clientsToken);
    const clientsAddress = await clients.start();
    undo.push(() => clients.stop());

    const inventoryFile = join(directory, 'inventory.yaml');
    const text = inventoryText({
      name: DEPLOYMENT,
      clusters: clusters.map(({ name, addresses }) => ({
        ...{ name, addresses },
        credential: appRole ?? { file: credentials.fileOf(name) },
      })),
      people: people.values(),
      signingKeyFile,
      temporal: { namespace: options.namespace, ...(options.uiAddress && { uiAddress: options.uiAddress }) },
      members: appRole ? PLAIN_MEMBERS : membersOf(directory, clientsAddress),
    });
    await writeFile(inventoryFile, text, { mode: 0o600 });
    const primaries = ['east', ...(appRole ? [] : UNUSED)];
    writePolicies(service, parseInventory(text, inventoryFile), DEPLOYMENT, primaries);
    const environment = {
      RUNBOOKS_INVENTORY: inventoryFile,
      RUNBOOKS_SEAL_KEYS_FILE: sealKeysFile,
      RUNBOOKS_KEY_DIR: keys.path,
      RUNBOOKS_KEY_STORAGE: keys.storage,
      RUNBOOKS_REPORT_DIR: options.reportDirectory,
      RUNBOOKS_TASK_QUEUE: options.taskQueue,
      RUNBOOKS_PINS: pinsFile,
    };
    return {
      ...{ service, directory, inventoryFile, people, clients, clientsAddress },
      simulatedCommand: [...simulatedCommand(), stateFile],
      newCredential: credentials.renew,
      environment,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function membersOf(directory: string, clientsAddress: string): Readonly<Record<string, unknown>> {
  return {
    drSets: DR_SETS,
    batchTokens: { main: { sink: { file: join(directory, 'main-batch-token') } } },
    pathsFilters: { europe: { mode: 'deny', paths: ['us-customers/'] }, asia: 'none' },
    // A deployment of a demonstration is switched over and back within minutes.
    limits: { coolDown: '1s', primaryGone: '10s', heartbeatAge: '5s' },
    objectives: { outage: '30s', loss: 'none', unprotected: '5m' },
    hooks: {
      ...Object.fromEntries(
        HOOKS.map((name) => [name, { url: `${clientsAddress}/hooks`, timeout: '15s', idempotent: true }]),
      ),
      probe: { url: `${clientsAddress}/probe`, expectStatus: [200] },
    },
  };
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

/** What `runbook policy` prints for every runbook, and no more. */
export function writePolicies(
  service: SimulatedService,
  inventory: Inventory,
  name: string,
  clusters: readonly string[],
): void {
  const deployment = findDeployment(inventory, name);
  for (const kind of ['credential', 'createRoleAndPolicy'] as const) {
    const { name: policy, grants } = policyFor(inventory, deployment, kind, RUNBOOK_NAMES);
    const rules = grants.map(({ path, capabilities }) => ({ path, capabilities: [...capabilities] }));
    for (const cluster of clusters) service.cluster(cluster).writePolicy(policy, rules);
  }
}

/** Tokens that may do what runbooks and clients need, and no more. A DR secondary has those of its primary. */
async function writeCredentials(directory: string, service: SimulatedService) {
  const folder = join(directory, 'tokens');
  await mkdir(folder, { mode: 0o700 });
  const east = service.cluster('east');
  const others = ['europe', ...UNUSED].filter((name) => service.clusters.has(name));
  east.writePolicy('clients', [
    { path: 'secret/*', capabilities: ALL },
    { path: 'kv/*', capabilities: ALL },
  ]);
  const fileOf = (cluster: string): string => {
    if (UNUSED.some((name) => name === cluster)) return join(folder, cluster);
    return join(folder, cluster.startsWith('europe') ? 'europe' : 'main');
  };
  const renew = async (cluster: string, policies = ['runbooks']): Promise<void> => {
    const token = service.cluster(cluster).createToken({ policies, ttlMs: TOKEN_LIFE_MS });
    await writeFile(fileOf(cluster), token, { mode: 0o600 });
  };
  await renew('east', ['runbooks', 'runbooks-batch-setup']);
  for (const name of others) await renew(name);
  const clientsToken = east.createToken({ policies: ['clients'], ttlMs: TOKEN_LIFE_MS });
  return { fileOf, renew, clientsToken };
}

/** A person as an inventory lists one who signs. */
interface InventoryPerson {
  readonly name: string;
  readonly groups: readonly string[];
  /** `<kid>:<x>` */
  readonly publicKey: string;
}

/** What the inventory of a simulated deployment is made of. */
interface InventoryFacts {
  readonly name: string;
  /** API addresses of each cluster, and how workers get a token for it. */
  readonly clusters: readonly {
    readonly name: string;
    readonly addresses: readonly string[];
    readonly credential: Readonly<Record<string, unknown>>;
  }[];
  /** Those of group `holders` hold the key shares, those of `approvers` approve. */
  readonly people: Iterable<InventoryPerson>;
  readonly signingKeyFile: string;
  readonly temporal: { readonly namespace: string; readonly uiAddress?: string };
  /** Further members of the deployment: DR sets, limits, hooks. */
  readonly members: Readonly<Record<string, unknown>>;
}

/** The inventory file (docs/inventory.md) of one simulated deployment. */
export function inventoryText({ name, clusters, people, signingKeyFile, temporal, members }: InventoryFacts): string {
  const listed = [...people];
  const gate = { approvals: 1, groups: ['approvers'], excludeRequester: true };
  const deployment = {
    clusters: Object.fromEntries(
      clusters.map((cluster) => [
        cluster.name,
        {
          addresses: [...cluster.addresses],
          advertisedClusterAddress: 'node-address',
          credential: cluster.credential,
        },
      ]),
    ),
    ceremony: {
      holders: listed.filter(({ groups }) => groups.includes('holders')).map((person) => person.name),
      tokenSource: 'ceremony',
    },
    gates: { plan: { ...gate, validFor: '4h' }, go: { ...gate, validFor: '10m' } },
    ...members,
  };
  return stringify({
    version: 1,
    temporal,
    workers: { signingKey: { file: signingKeyFile } },
    people: Object.fromEntries(
      listed.map(({ name, groups, publicKey }) => [
        name,
        { groups: [...groups], attestation: 'signed', publicKeys: [publicKey] },
      ]),
    ),
    deployments: { [name]: deployment },
  });
}
