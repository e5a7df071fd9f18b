import type { PathsFilterFacts, SecondaryOnboardingRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { PerformanceSecondaryOnboardingInput, ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { needsApproval } from '../filters/filter-difference';
import { kindName, rolesText } from '../joining/onboarding-read';
import { describeFilter } from '../filters/paths-filters';
import { check } from './switchover-rule';
import { compareVersions } from './versions';

/** What is to become of a cluster that is onboarded. */
export interface OnboardingWorld {
  readonly kind: ReplicationKind;
  readonly deployment: Deployment;
  readonly primary: ClusterObservation;
  readonly secondary: ClusterObservation;
}

/** What must hold of the cluster that is wiped, and between both. Pure. */
export function onboardingRules(world: OnboardingWorld): Precondition[] {
  return [...membership(world), ...secondaryRules(world), versions(world), ...trees(world), idFree(world)];
}

function membership({ kind, deployment, primary, secondary }: OnboardingWorld): Precondition[] {
  const set = drSetOf(deployment, primary.cluster);
  const together = set.members.includes(secondary.cluster);
  return [
    check(
      'two clusters',
      secondary.cluster,
      primary.cluster !== secondary.cluster,
      `primary ${primary.cluster}, secondary ${secondary.cluster}`,
      'two clusters',
      'A cluster is never its own secondary.',
    ),
    check(
      kind === 'dr' ? 'in the DR set of the primary' : 'in another DR set than the primary',
      secondary.cluster,
      kind === 'dr' ? together : !together,
      `DR set ${drSetOf(deployment, secondary.cluster).name}; ${primary.cluster} is in ${set.name}`,
      kind === 'dr' ? `listed under drSets.${set.name}` : `not listed under drSets.${set.name}`,
      `Write into the inventory what ${secondary.cluster} is to be (drSets), restart the workers, and start again.`,
    ),
  ];
}

function secondaryRules({ secondary }: OnboardingWorld): Precondition[] {
  const { cluster, nodes, dr, performance } = secondary;
  const disabled = dr?.mode === 'disabled' && performance?.mode === 'disabled';
  return [
    check(
      'no replication of any kind',
      cluster,
      disabled,
      secondary.reachable ? rolesText(secondary) : (secondary.error ?? 'not readable'),
      'DR disabled, performance disabled',
      `What replicates is never wiped. If ${cluster} may really be given up, end its replication first (secondaryDecommission, replicationTeardown).`,
    ),
    check(
      'every node answers and is unsealed',
      cluster,
      nodes.every((node) => node.reachable && node.sealed === false && node.initialized !== false),
      nodes
        .map((node) => `${node.address} ${node.reachable ? (node.sealed ? 'sealed' : 'unsealed') : 'does not answer'}`)
        .join('; '),
      'all initialised and unsealed, so that the ones that seal themselves later are seen',
      `Bring the nodes of ${cluster} in order, or take the ones that are gone out of the inventory.`,
    ),
    check(
      'one active node',
      cluster,
      secondary.reachable,
      secondary.activeNode ?? secondary.error ?? 'none',
      'the nodes agree on one active node',
      `Look at the nodes of ${cluster}.`,
    ),
  ];
}

/** Every node counts: replicating from newer to older is not safe (interface 9.2). */
function versions({ primary, secondary }: OnboardingWorld): Precondition {
  const of = ({ nodes }: ClusterObservation) => [...new Set(nodes.flatMap((node) => node.version ?? []))];
  const [above, below] = [of(primary), of(secondary)];
  const known = above.length > 0 && secondary.nodes.every((node) => node.version !== undefined);
  const inOrder = known && below.every((version) => above.every((other) => compareVersions(version, other) >= 0));
  return check(
    'versions in order',
    secondary.cluster,
    inOrder,
    `${primary.cluster} ${above.join(', ') || 'not told'}; ${secondary.cluster} ${below.join(', ') || 'not told'}`,
    `no node of ${secondary.cluster} older than any of ${primary.cluster}`,
    `Upgrade ${secondary.cluster} first: replicating from newer to older is not safe.`,
  );
}

function trees({ kind, primary }: OnboardingWorld): Precondition[] {
  const replication = primary[kind];
  return [
    check(
      'no reindex under way',
      primary.cluster,
      replication?.reindexInProgress !== true,
      replication?.reindexInProgress ? 'reindex in progress' : 'none',
      'none',
      'Wait until the reindex has ended.',
    ),
    check(
      'Merkle tree not corrupted',
      primary.cluster,
      replication?.corruptedMerkleTree !== true,
      replication?.corruptedMerkleTree ? 'corrupted' : 'not told to be corrupted',
      'not corrupted',
      'Repair the primary before its tree is copied.',
    ),
  ];
}

/** The cluster ID of the secondary is the id of its token: an old one of it is revoked, a connected one never. */
function idFree({ kind, primary, secondary }: OnboardingWorld): Precondition {
  const id = secondary.clusterId ?? '';
  const replication = primary[kind];
  const connected = replication?.peers.some((peer) => peer.id === id && peer.connected) === true;
  const known = replication?.knownSecondaries?.includes(id) === true;
  return check(
    'id free on the primary',
    primary.cluster,
    id !== '' && !connected && !known,
    connected
      ? `${id} is connected`
      : known
        ? `${id} is known and not connected: it is revoked first`
        : `${id || 'no cluster ID'} not known`,
    'a cluster ID that no secondary has as its id',
    connected
      ? `Find out which cluster uses the id of ${secondary.cluster}.`
      : `${kindName(kind)} activation tokens that were issued under it before stop working.`,
    connected || id === '' ? 'fail' : 'warn',
  );
}

/** The paths filter that a performance secondary is to get; undefined where it gets everything. */
export function wantedFilter(
  deployment: Deployment,
  { secondary, filter }: Pick<PerformanceSecondaryOnboardingInput, 'secondary' | 'filter'>,
): { readonly filter?: PathsFilterFacts } | 'not-said' {
  const wanted = filter === 'inventory' ? deployment.pathsFilters[secondary] : filter;
  if (wanted === undefined) return 'not-said';
  return wanted === 'none' ? {} : { filter: { mode: wanted.mode, paths: [...wanted.paths] } };
}

/** That it is said what the secondary may see, and that no other filter stands under its id. */
export function filterRules(
  { deployment, primary, secondary }: OnboardingWorld,
  wanted: ReturnType<typeof wantedFilter>,
  existing: PathsFilterFacts | undefined,
): Precondition[] {
  const { cluster } = secondary;
  if (wanted === 'not-said')
    return [
      check(
        'what it may see is said',
        cluster,
        false,
        `no entry for ${cluster} under deployments.${deployment.name}.pathsFilters`,
        'a filter, or the word none',
        `Write into the inventory, under deployments.${deployment.name}.pathsFilters: {${cluster}: none} or {${cluster}: {mode: deny, paths: [<mount or namespace>/]}}; or start with {"filter": "none"} or {"filter": {"mode": "deny", "paths": ["<mount or namespace>/"]}}.`,
      ),
    ];
  const widens = needsApproval(existing ?? 'none', wanted.filter ?? 'none');
  return [
    check('what it may see is said', cluster, true, describeFilter(wanted.filter), 'a filter, or the word none'),
    check(
      'no wider than the filter that stands',
      primary.cluster,
      !widens,
      `${describeFilter(existing)} under ${secondary.clusterId ?? 'its id'}`,
      `none, or one that ${describeFilter(wanted.filter)} does not widen`,
      `Change or delete that filter first, by filterReconciliation or by hand.`,
    ),
  ];
}

/** What people must know before they approve. */
export function onboardingWarnings(
  { kind, primary, secondary, deployment }: OnboardingWorld,
  route: SecondaryOnboardingRoute,
): string[] {
  const { cluster } = secondary;
  const standbys = (deployment.clusters.get(cluster)?.addresses.length ?? 1) > 1;
  return [
    `${cluster} (cluster ID ${route.id}) is WIPED: all of its secrets, mounts, policies, audit devices, tokens and leases are gone for good. Nothing but a snapshot that exists before brings them back.`,
    `The unseal keys of ${cluster} are gone too: the key shares of ${primary.cluster} count for it afterwards, and its own open nothing any more.`,
    ...(standbys
      ? [
          `The standby nodes of ${cluster} seal themselves and wait for people with key shares of ${primary.cluster}; ${cluster} may be without an active node until then.`,
        ]
      : []),
    kind === 'dr'
      ? `Everything that ${primary.cluster} holds is copied to ${cluster}.`
      : route.filter
        ? `What ${primary.cluster} holds is copied to ${cluster}, but for what its paths filter keeps away: ${describeFilter(route.filter)}.`
        : `Everything that ${primary.cluster} replicates is copied to ${cluster}: it gets no paths filter.`,
    `The workers' credential for ${cluster} is void afterwards.`,
    ...(route.enablesPrimary
      ? [
          `${primary.cluster} becomes ${kindName(kind)} primary first and restarts its subsystems: requests to it fail for some seconds.`,
        ]
      : []),
  ];
}

/** The steps of the plan, in order. */
export function onboardingSteps(route: SecondaryOnboardingRoute): string[] {
  const { kind, primary, secondary, filter } = route;
  return [
    ...(route.enablesPrimary ? [`Enable ${primary} as ${kindName(kind)} primary`] : []),
    ...(filter ? [`Write the paths filter of ${secondary} on ${primary}, under ${route.id}`] : []),
    `Issue an activation token on ${primary} under ${route.id} (${route.form === 'auto' ? 'encrypted, else wrapped' : route.form}) and enable ${secondary} with it: WIPES ${secondary}`,
    `Wait until people have unsealed the nodes of ${secondary} with key shares of ${primary}`,
    `Watch the first copy until ${secondary} streams`,
    `Write a marker on ${primary} and see it arrive`,
    'Compare the Merkle roots',
    ...(filter ? [`Compare the dynamic filter of ${secondary} on both sides`] : []),
    'Read the final state',
  ];
}
