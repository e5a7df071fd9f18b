import { isRunbookError, RunbookError } from '../../errors';
import type { ErrorCode } from '../../errors';
import { clusterAddress } from '../../inventory';
import { ServiceClient, leaderNameText, readTrustedRoots } from '../../vault';
import type { ReplicationStatus } from '../../vault';
import { oneLine } from '../../contracts/words';
import { columns } from '../text';

/* What clusters report about themselves, without a credential: `runbook init` writes its files from it. */

/** A cluster as a person names it. */
export interface NamedCluster {
  readonly name: string;
  readonly addresses: readonly string[];
}

export function clientOf({ name, addresses }: NamedCluster, caFile: string | undefined) {
  const target = { name, addresses, ...(caFile !== undefined && { caFile }) };
  return new ServiceClient(target);
}

/** What a cluster reports about itself. @throws RunbookError that says what to correct */
export async function readCluster(cluster: NamedCluster, caFile: string | undefined) {
  const client = clientOf(cluster, caFile);
  try {
    return await readOne(client, cluster);
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'INVALID_INPUT') throw error;
    const { name, addresses } = cluster;
    const next: Partial<Record<ErrorCode, string | undefined>> = {
      TLS_FAILED: error.next,
      NO_ACTIVE_NODE: `Name every node of ${name}, and no load balancer: --cluster ${name}=ADDRESS,ADDRESS. If all are named, wait until one leads.`,
    };
    const reach = `Check that this machine can reach ${addresses.join(', ')}. A cluster that is down cannot be set up.`;
    throw error.with({ next: next[error.code] ?? reach });
  } finally {
    await client.close();
  }
}

/** What a cluster reports about itself without a credential. */
async function readOne(client: ServiceClient, { name, addresses }: NamedCluster) {
  const asked = await Promise.all(
    addresses.map((node) => client.sys.health({ node }).catch(() => ({ silent: node }) as const)),
  );
  const healths = asked.flatMap((each) => ('silent' in each ? [] : [each]));
  const [clusterId, ...others] = new Set(healths.flatMap((each) => each.clusterId ?? []));
  if (others.length > 0)
    throw new RunbookError(
      'INVALID_INPUT',
      `The addresses of ${name} belong to several clusters. Nothing was written.`,
      {
        observed: `cluster IDs ${[clusterId, ...others].join(', ')}`,
        needed: 'the nodes of one cluster',
      },
    );
  const [{ dr, performance }, { leaderAddress = '' }] = await client.atActiveNode((node) =>
    Promise.all([client.sys.replicationStatus({ node }), client.sys.leader({ node })]),
  );
  const { type, threshold, shares, recoverySeal } = await client.sys.sealStatus();
  const hasPerformance = performance.mode === 'primary' || performance.mode === 'secondary';
  return {
    ...{ name, addresses, threshold, shares, clusterId },
    silent: asked.flatMap((each) => ('silent' in each ? [each.silent] : [])),
    versions: [...new Set(healths.flatMap(({ version }) => version ?? []))],
    role: [`DR ${dr.mode}`, ...(hasPerformance ? [`performance ${performance.mode}`] : [])].join(', '),
    drSet: ('clusterId' in dr && dr.clusterId) || undefined,
    leaderName: leaderNameText(leaderAddress, addresses),
    /** Of a performance secondary: the ids under which its primary may keep its paths filter. */
    filterIds:
      performance.mode === 'secondary'
        ? [...new Set([performance.secondaryId, clusterId].flatMap((id) => id || []))]
        : undefined,
    ...advertisedBy({ dr, performance }, addresses),
    seal: `${type ?? 'unknown'} seal, ${shares ?? '?'} ${recoverySeal === true ? 'recovery' : 'key'} shares, threshold ${threshold ?? '?'}`,
  };
}

/**
 * The address that a primary gives its secondaries (`primary_cluster_addr`), in the form that the inventory takes. The
 * service takes and reports it with any scheme or none, and always speaks TLS there.
 *
 * @returns `odd`: what it reports, if that is no address; nothing if it is a node's own host
 */
function advertisedBy(
  kinds: Readonly<Record<'dr' | 'performance', ReplicationStatus>>,
  addresses: readonly string[],
): { readonly advertised?: string; readonly odd?: string } {
  const given = [kinds.dr, kinds.performance].flatMap((each) =>
    each.mode === 'primary' ? each.primaryClusterAddr || [] : [],
  );
  const [reported] = given;
  if (reported === undefined) return {};
  const { success, data: advertised } = clusterAddress.safeParse(`https://${reported.trim().replace(/^\w+:\/\//, '')}`);
  if (!success) return { odd: reported };
  const hosts = addresses.map((address) => new URL(address).hostname);
  return hosts.includes(new URL(advertised).hostname) ? {} : { advertised };
}

export type FoundCluster = Awaited<ReturnType<typeof readOne>>;

/** Groups clusters by DR replication; a cluster without it is its own set. */
export function drSetsOf(clusters: readonly FoundCluster[]) {
  const sets = new Map<string, FoundCluster[]>();
  for (const each of clusters) {
    const set = each.drSet ?? each.name;
    sets.set(set, [...(sets.get(set) ?? []), each]);
  }
  return [...sets.values()].map((members) => ({ name: sets.size === 1 ? 'main' : (members[0]?.name ?? ''), members }));
}

interface Found {
  readonly people: readonly string[];
  readonly holders: readonly string[];
  readonly caFile?: string | undefined;
  readonly clusters: readonly FoundCluster[];
}

/** What a person compares with what they know, before anything is written. */
export async function foundLines({ people, holders, caFile, clusters }: Found): Promise<string[]> {
  const most = Math.max(0, ...clusters.map(({ threshold }) => threshold ?? 0));
  const tooFew =
    holders.length < most ? 'there can never be enough shares' : 'all of them must be available at any hour';
  return [
    ...(await clusterLines(clusters, caFile)),
    ...warningLines([
      ...drSetsOf(clusters).map(({ members }) => {
        const primaries = members.filter(({ role }) => role.startsWith('DR primary')).map(({ name }) => name);
        if (primaries.length > 1)
          return `${primaries.join(' and ')} are primaries of the same DR set: both accept writes. Find out which one clients write to before you continue.`;
        const [orphan] = primaries.length === 0 ? members.filter(({ role }) => role.startsWith('DR secondary')) : [];
        return orphan !== undefined && `the primary of ${orphan.name} is not among these clusters. Name it too.`;
      }),
      clusters.some(({ drSet }) => drSet === undefined) && 'not every cluster uses DR replication.',
      people.length < 3 &&
        `only ${people.length} to operate and approve: some gates cannot be opened. The person who requests a run cannot approve it, and a forced promotion needs two approvers. Name at least 3.`,
      holders.length <= most && `${holders.length} holders for a threshold of ${most}: ${tooFew}. Name more.`,
    ]),
  ];
}

const warningLines = (texts: readonly (string | false)[]): string[] =>
  texts.flatMap((text) => (text === false ? [] : [`Warning: ${text}`]));

/** What clusters report about themselves. */
export async function clusterLines(clusters: readonly FoundCluster[], caFile: string | undefined): Promise<string[]> {
  const rows = clusters.map(({ name, addresses, silent, versions, role, seal, clusterId }) => [
    ...[name, `${addresses.length - silent.length} of ${addresses.length} nodes answer`, versions.join(', ')],
    ...[role, seal, `ID ${clusterId ?? 'unknown'}`],
  ]);
  const silent = clusters.flatMap((each) => each.silent);
  return [
    ...columns(rows),
    ...clusters.map(({ name, leaderName }) => `${name}: ${leaderName}`),
    ...(caFile === undefined ? [] : await authorities(caFile)),
    ...warningLines([
      ...clusters.map(
        ({ name, odd }) =>
          odd !== undefined &&
          `${name} reports ${oneLine(JSON.stringify(odd))} as primary_cluster_addr, which is no address: node-address is written. Correct it with advertisedClusterAddress, before a run makes ${name} a primary.`,
      ),
      silent.length > 0 && `no answer from ${silent.join(', ')}.`,
    ]),
  ];
}

/** The certificates that will be trusted, by subject and fingerprint: a person compares them with their CA. */
async function authorities(file: string): Promise<string[]> {
  const { certificates, leftOut } = await readTrustedRoots('init', file);
  return [
    ...certificates.map(
      ({ subject, fingerprint256 }) => `CA: ${subject.replaceAll('\n', ', ')}, SHA-256 ${fingerprint256}`,
    ),
    ...leftOut.map((each) => `Warning: ${file}: ${each}. It is left out.`),
  ];
}
