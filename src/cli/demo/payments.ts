import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { policyFor } from '../../../activities/tokens/policies';
import { workersKeys } from '../setup/files';
import { makeAppRole } from '../setup/login';
import { RUNBOOK_NAMES } from '../../contracts/names';
import { findDeployment, parseInventory } from '../../inventory';
import type { Inventory } from '../../inventory';
import { formatPublicKey, addPin, isMemoryBacked } from '../../keys';
import { Secret } from '../../secret';
import { startSimulator } from '../../simulator';
import type { SimulatedService, Topology } from '../../simulator';
import { ServiceClient } from '../../vault';
import { Clients } from './clients';
import { DEPLOYMENT, makePeople } from './people';

/** The environment for which the workers' key is pinned. */
const ENVIRONMENT = 'demo';
const DR_SETS = { main: ['east', 'west', 'north'], europe: ['europe', 'europe-dr'] };
const TOKEN_LIFE_MS = 24 * 3_600_000;
const GATE = { approvals: 1, groups: ['approvers'], excludeRequester: true };
const HOOKS = ['quiesce', 'release', 'traffic', 'fence', 'unfence'] as const;

/** What distinguishes one simulated deployment from another. */
export interface Site {
  readonly topology: Topology;
  /** Members of the deployment in the inventory, other than clusters, people, and gates. `directory`: of the site's files. */
  members(clientsAddress: string, directory: string): Readonly<Record<string, unknown>>;
  /** Further members of the inventory. */
  inventory?(directory: string): Readonly<Record<string, unknown>>;
  /** Files that its inventory names, by name. */
  readonly files?: Readonly<Record<string, string>>;
  /** How workers obtain a token, if not from a file. */
  credential?(service: SimulatedService, directory: string): Promise<Readonly<Record<string, unknown>>>;
  /** The cluster that the clients use at first; if absent, they try the addresses of all clusters. */
  readonly clientsTarget?: string;
  /** Lines that introduce the deployment; without them no client writes to it. */
  readonly about?: readonly string[];
}

/** What the nodes of a cluster name as their address, as behind a load balancer: the inventory does not list it. */
const behind = (cluster: string) => ({ apiAddr: `https://vault.${cluster}.example:8200` });

/**
 * `east` primary with the DR secondaries `west` and `north`; `europe`, a performance secondary of `east` with a paths
 * filter, and `europe-dr`, its DR secondary.
 */
const TOPOLOGY: Topology = {
  seed: 7,
  // The data in `us-customers` must not leave its region.
  mounts: ['kv/', 'secret/', 'us-customers/'],
  clusters: [
    { name: 'east', nodes: 3, ...behind('east') },
    { name: 'west', nodes: 3, ...behind('west') },
    { name: 'north', nodes: 1, ...behind('north') },
    { name: 'europe', nodes: 1, ...behind('europe') },
    { name: 'europe-dr', nodes: 1, ...behind('europe-dr') },
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

/** The deployment of `npm run demo`, with every optional feature. */
export const PAYMENTS: Site = {
  topology: TOPOLOGY,
  members: membersOf,
  clientsTarget: 'east',
  about: [
    'Simulated service east: primary; west, north: its DR secondaries',
    '                  europe: performance secondary of east; europe-dr: DR secondary of europe',
    'Clients           write continuously; hooks pause them and direct them to a cluster',
  ],
};

interface PaymentsOptions {
  /** Directory for finished reports, not removed by `stop`; default: the worker writes none. */
  readonly reportDirectory?: string | undefined;
  readonly taskQueue: string;
  readonly uiAddress?: string;
  readonly site?: Site;
  /** `realistic` (default): clusters restart for seconds after a role change. `quick`: for tests. */
  readonly pace?: 'quick' | 'realistic';
}

/** Starts the simulated deployment `payments` on loopback and writes the files that its workers and people need. */
export async function startPayments(options: PaymentsOptions) {
  const { site = PAYMENTS, pace = 'realistic' } = options;
  const directory = await mkdtemp(join(tmpdir(), 'replication-runbooks-'));
  const keys = await keyDirectory();
  const undo = [directory, keys.path].map((path) => () => rm(path, { recursive: true, force: true }));
  const stop = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    const simulator = await startSimulator({ pace, ...site.topology }, join(directory, 'simulated.json'));
    undo.push(() => simulator.stop());
    const { service, state } = simulator;

    const credentials = await writeCredentials(directory, service);
    const login = await site.credential?.(service, directory);
    for (const [name, content] of Object.entries(site.files ?? {}))
      await writeFile(join(directory, name), content, { mode: 0o600 });
    const people = await makePeople(join(directory, 'people'), service.cluster('east').keyShares);
    const keyFiles = { signingKey: join(directory, 'workers.key'), sealKeys: join(directory, 'seal-keys') };
    const pinsFile = join(directory, 'pins.json');
    await addPin(pinsFile, ENVIRONMENT, formatPublicKey(await workersKeys(keyFiles)));

    const clients = new Clients(service, site.clientsTarget, credentials.clientsToken);
    const clientsAddress = await clients.start();
    undo.push(() => clients.stop());

    const inventoryFile = join(directory, 'inventory.yaml');
    const { uiAddress } = options;
    const text = stringify({
      version: 1,
      temporal: { ...(uiAddress && { uiAddress }) },
      workers: { signingKey: { file: keyFiles.signingKey } },
      people: Object.fromEntries(
        [...people.values()].map(({ name, groups, publicKey }) => [name, { groups, publicKeys: [publicKey] }]),
      ),
      deployments: {
        [DEPLOYMENT]: {
          clusters: clustersOf(service, (name) => login ?? { file: credentials.fileOf(name) }),
          ceremony: {
            holders: [...people.values()].filter(({ groups }) => groups.includes('holders')).map(({ name }) => name),
            tokenSource: 'ceremony',
          },
          gates: { plan: { ...GATE, validFor: '4h' }, go: { ...GATE, validFor: '10m' } },
          ...site.members(clientsAddress, directory),
        },
      },
      ...site.inventory?.(directory),
    });
    await writeFile(inventoryFile, text, { mode: 0o600 });
    writePolicies(service, parseInventory(text, inventoryFile));
    const environment: Readonly<Record<string, string>> = {
      RUNBOOKS_INVENTORY: inventoryFile,
      RUNBOOKS_SEAL_KEYS_FILE: keyFiles.sealKeys,
      RUNBOOKS_KEY_DIR: keys.path,
      RUNBOOKS_KEY_STORAGE: keys.storage,
      ...(options.reportDirectory !== undefined && { RUNBOOKS_REPORT_DIR: options.reportDirectory }),
      RUNBOOKS_TASK_QUEUE: options.taskQueue,
      RUNBOOKS_PINS: pinsFile,
    };
    return {
      ...{ service, people, clients, inventoryFile, about: site.about ?? [] },
      /** Directory with keys, shares, tokens, and the inventory; mode 0700, removed by `stop`. */
      directory,
      /** Base URL of the clients' hooks and probe. */
      clientsAddress,
      /** Shell script that kills and restarts clusters: `kill east`, `restart east`. */
      simulated: `${usageCheck([...service.clusters.keys()])}\nexec curl -sSf -H 'authorization: Bearer ${state.control.token}' -X POST ${state.control.address}/control/"$1"/"$2"/"$3"`,
      /** Environment of workers and the command line. */
      environment,
      /** Stops the service and the clients, and removes the directory. */
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Ends the script for wrong words: without a command, nothing could be said of them but a status. */
function usageCheck(clusters: readonly string[]): string {
  const usage = `Usage: simulated kill CLUSTER | restart CLUSTER | partition CLUSTER CLUSTER | heal. Clusters: ${clusters.join(', ')}`;
  return `case "$#:$1" in 2:kill|2:restart|3:partition|1:heal) ;; *) echo '${usage}' >&2; exit 2 ;; esac`;
}

/** A running simulated deployment with everything that workers and people need. No part of it is real. */
export type Payments = Awaited<ReturnType<typeof startPayments>>;

function clustersOf({ clusters }: SimulatedService, credentialOf: (name: string) => object) {
  const entries = [...clusters.values()].map(({ name, addresses }) => {
    const credential = credentialOf(name);
    return [name, { addresses: [...addresses], advertisedClusterAddress: 'node-address', credential }] as const;
  });
  return Object.fromEntries(entries);
}

function membersOf(clientsAddress: string): Readonly<Record<string, unknown>> {
  return {
    drSets: DR_SETS,
    pathsFilters: { europe: { mode: 'deny', paths: ['us-customers/'] } },
    // The demonstration may switch over and back within minutes.
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

/** Creates a memory-backed key directory if the host has one, otherwise a directory on disk. */
async function keyDirectory(): Promise<{ readonly path: string; readonly storage: 'memory' | 'disk' }> {
  const isMemory = await isMemoryBacked('/dev/shm').catch(() => false);
  const path = await mkdtemp(join(isMemory ? '/dev/shm' : tmpdir(), 'replication-runbooks-'));
  return { path, storage: isMemory ? 'memory' : 'disk' };
}

const ALL = ['create', 'read', 'update', 'delete', 'list'];

/** Grants exactly what `runbook policy` prints for all runbooks. */
function writePolicies(service: SimulatedService, inventory: Inventory): void {
  const { name: policy, grants } = policyFor(findDeployment(inventory, DEPLOYMENT), 'credential', RUNBOOK_NAMES);
  const rules = grants.map(({ path, capabilities }) => ({ path, capabilities: [...capabilities] }));
  service.cluster('east').writePolicy(policy, rules);
}

/** Creates tokens with exactly the rights that runbooks and clients need. A DR secondary has the tokens of its primary. */
async function writeCredentials(directory: string, service: SimulatedService) {
  const folder = join(directory, 'tokens');
  await mkdir(folder, { mode: 0o700 });
  const east = service.cluster('east');
  east.writePolicy('clients', [
    { path: 'secret/*', capabilities: ALL },
    { path: 'kv/*', capabilities: ALL },
  ]);
  const fileOf = (cluster: string) => join(folder, cluster.startsWith('europe') ? 'europe' : 'main');
  for (const name of ['east', 'europe']) {
    const token = service.clusters.get(name)?.createToken({ policies: ['runbooks'], ttlMs: TOKEN_LIFE_MS });
    if (token !== undefined) await writeFile(fileOf(name), token, { mode: 0o600 });
  }
  const clientsToken = east.createToken({ policies: ['clients'], ttlMs: TOKEN_LIFE_MS });
  return { fileOf, clientsToken };
}

/* A typical deployment before anything was built for runbooks: `npm run demo -- --plain`. */

/**
 * Two clusters and nothing else. The primary writes canaries continuously, as a real one does. `west` auto-unseals: its
 * holders give the key shares of the cluster that it joined (facts 8.9).
 */
const PLAIN_TOPOLOGY: Topology = {
  seed: 7,
  mounts: ['kv/', 'secret/'],
  timing: { canaryMs: 2_000 },
  clusters: [
    { name: 'east', nodes: 3, ...behind('east') },
    { name: 'west', nodes: 3, seal: { type: 'transit' }, ...behind('west') },
  ],
  dr: [{ primary: 'east', secondaries: ['west'] }],
};

/** No hooks, so nothing can direct the clients: they try the addresses of all clusters, and the quota pauses them. */
const PLAIN_MEMBERS = {
  drSets: { main: ['east', 'west'] },
  quiesce: 'quota',
  limits: { coolDown: '1s', primaryGone: '10s', heartbeatAge: '5s' },
  objectives: { outage: '30s', loss: 'none', unprotected: '2m' },
};

/** The AppRole that `runbook init --mount runbooks` creates. */
async function appRoleOf(service: SimulatedService, directory: string): Promise<Fields> {
  const { name, addresses, rootToken } = service.cluster('east');
  const client = new ServiceClient({ name, addresses });
  try {
    const { roleId, secretId, mount, ownMount } = await makeAppRole(
      client,
      new Secret('service-token', rootToken),
      join(directory, 'secret-id'),
      { mount: 'runbooks', begun: false },
    );
    return { approle: { roleId, secretId: { file: secretId }, mount, ownMount } };
  } finally {
    await client.close();
  }
}

type Fields = Readonly<Record<string, unknown>>;

export const PLAIN: Site = {
  topology: PLAIN_TOPOLOGY,
  members: () => PLAIN_MEMBERS,
  credential: appRoleOf,
  about: [
    'Simulated service east: primary, writes canaries; west: DR secondary, auto-unseals; KV version 2, no hooks',
    'Clients           write continuously, to whichever cluster accepts the write',
    'Workers           log in with the AppRole that runbook init creates and the policy that runbook policy prints',
  ],
};
