import { join } from 'node:path';
import { stringify } from 'yaml';
import type { SimulatedCluster, SimulatedService, Topology } from '../../src/simulator';
import type { TestPerson } from './people';
import { makePerson } from './people';

const HOLDERS = ['ada', 'bert', 'cleo', 'dora', 'emil'];

/** Members of an inventory entry that differ from the defaults. */
type Members = Readonly<Record<string, unknown>>;

/** Options of the inventory of a simulated deployment. */
export interface SiteOptions {
  /** Default: one set of all clusters. */
  readonly drSets?: Readonly<Record<string, readonly string[]>>;
  readonly limits?: Members;
  readonly person?: (name: string) => Members | undefined;
  readonly cluster?: (name: string) => Members;
}

/** Clusters with one node each, or with the given numbers of nodes. */
export const clusters = (...names: readonly (string | Readonly<Record<string, number>>)[]) =>
  names.flatMap((each) =>
    typeof each === 'string'
      ? { name: each, nodes: 1 }
      : Object.entries(each).map(([name, nodes]) => ({ name, nodes })),
  );

/** The two clusters of most tests; use three nodes if a leader change matters. */
export function pair(nodes = 1, version?: string): Pick<Topology, 'clusters' | 'dr'> {
  const cluster = { nodes, ...(version === undefined ? {} : { version }) };
  return {
    clusters: ['east', 'west'].map((name) => ({ name, ...cluster })),
    dr: [{ primary: 'east', secondaries: ['west'] }],
  };
}

/** As on most real sites, the nodes advertise an address that no inventory lists, unless a test says otherwise. */
export function behindLoadBalancers({ clusters: members, ...topology }: Topology): Topology {
  return {
    ...topology,
    clusters: members.map((each) => ({ apiAddr: `https://vault.${each.name}.example:8200`, ...each })),
  };
}

/** A paths filter that several deployments use. */
export const FILTER = { mode: 'deny' as const, paths: ['us-customers/'] };

/**
 * Clusters with one node each, by DR set. The first cluster of each set is the DR primary of the others in it. The
 * first cluster of the first set is the performance primary of the first clusters of the other sets, with these paths
 * filters.
 */
export function replicating(
  drSets: Readonly<Record<string, readonly string[]>>,
  filters: Readonly<Record<string, typeof FILTER>> = {},
  more: Partial<Topology> = {},
): Pick<SiteOptions, 'drSets'> & { readonly topology: Partial<Topology> } {
  const sets = Object.values(drSets);
  const [[primary = ''] = [], ...further] = sets;
  const secondaries = further.map(([name = '']) => ({ name, ...(filters[name] && { filter: filters[name] }) }));
  return {
    drSets,
    topology: {
      mounts: [...new Set(['kv/', 'secret/', ...Object.values(filters).flatMap(({ paths }) => paths)])],
      clusters: clusters(...sets.flat()),
      ...(secondaries.length > 0 && { performance: { primary, secondaries } }),
      dr: sets.flatMap(([of = '', ...followers]) =>
        followers.length > 0 ? [{ primary: of, secondaries: followers }] : [],
      ),
      ...more,
    },
  };
}

const GATES = {
  plan: { approvals: 1, groups: ['approvers'], validFor: '4h' },
  go: { approvals: 1, groups: ['approvers'], validFor: '10m' },
};

/** A holder for each key share, and the approvers. */
export function peopleOf(
  keyShares: readonly string[],
  approvers: readonly string[],
  groups: readonly string[],
): Map<string, TestPerson> {
  const holders = keyShares.map((share, index) => makePerson(HOLDERS[index] ?? `holder${index}`, ['holders'], share));
  return new Map([...holders, ...approvers.map((name) => makePerson(name, groups))].map((each) => [each.name, each]));
}

/** File name of the workers' token for a cluster. Clusters that share the tokens of the first cluster share its file. */
export function tokenFile(service: SimulatedService, name: string): string {
  const [first] = service.clusters.values();
  return service.cluster(name).rootToken === first?.rootToken ? 'token' : `token-${name}`;
}

/** The first cluster, and the clusters that do not share its token file. */
export function withTokenFiles(service: SimulatedService): SimulatedCluster[] {
  const clusters = [...service.clusters.values()];
  return clusters.filter(({ name }, index) => index === 0 || tokenFile(service, name) !== 'token');
}

/** The clusters of a deployment in its inventory. */
function clustersIn(
  service: SimulatedService,
  names: readonly string[],
  directory: string,
  members: SiteOptions['cluster'] = () => ({}),
) {
  const entryOf = (name: string) => ({
    addresses: [...service.cluster(name).addresses],
    advertisedClusterAddress: 'node-address',
    credential: { file: join(directory, tokenFile(service, name)) },
    ...members(name),
  });
  return Object.fromEntries(names.map((name) => [name, entryOf(name)]));
}

/** The text of the inventory of one deployment. */
export function inventoryText(
  {
    service,
    directory,
    people,
  }: {
    readonly service: SimulatedService;
    readonly directory: string;
    readonly people: ReadonlyMap<string, TestPerson>;
  },
  name: string,
  names: readonly string[],
  { drSets = { main: names }, limits, person, cluster }: SiteOptions,
  { deployment, ...more }: { readonly deployment?: Members; readonly temporal?: Members } = {},
): string {
  const listed = ({ name: each, groups, publicKey }: TestPerson): [string, Members] => {
    const own = person?.(each) ?? {};
    const key = own['attestation'] !== 'claimed' && { publicKeys: [publicKey] };
    return [each, { groups: [...groups], attestation: 'signed', ...key, ...own }];
  };
  return stringify({
    version: 1,
    ...more,
    workers: { signingKey: { file: join(directory, 'workers.jwk') } },
    people: Object.fromEntries([...people.values()].map(listed)),
    deployments: {
      [name]: {
        clusters: clustersIn(service, names, directory, cluster),
        drSets,
        ceremony: {
          holders: [...people.keys()].filter((each) => HOLDERS.includes(each)),
          collectFor: '30m',
          useFor: '30m',
        },
        gates: GATES,
        limits,
        // Most tests have no writing clients.
        quiesce: 'attested',
        // A Schedule would start runs beside those of the tests.
        schedules: { walSampler: 'off', readiness: 'off', batchTokenRotation: 'off' },
        ...deployment,
      },
    },
  });
}
