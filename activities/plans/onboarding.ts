import { finalReading, secondReading } from '../../src/moves/every-run';
import { compareFilters, compareRoots } from '../../src/moves/following';
import {
  checkCredential,
  primaryEnabling,
  enableSecondary,
  followCopy,
  issueToken,
  waitConnected,
  writeFirstFilter,
} from '../../src/moves/joining';
import type { Listed, Move, Named } from '../../src/moves/move';
import { verifyWrite, writeMarker } from '../../src/moves/primary';
import type {
  Assessment,
  FilterState,
  PathsFilterFacts,
  SecondaryOnboardingRoute,
} from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { keyShares } from '../../src/contracts/words';
import { RunbookError, orElse } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { operationsOf } from '../approvals/planning';
import type { Planning } from '../approvals/planning';
import { check, refuses } from '../checks/check';
import {
  everyNodeAnswers,
  everyNodeUnsealed,
  healthyTree,
  noReplication,
  asPinned,
  oneActiveNode,
  otherReadable,
  roleText,
} from '../checks/replication';
import { noneOlder, supportedVersion } from '../checks/versions';
import type { Rights } from '../checks/rights';
import { currentExecution } from '../execution';
import { describeFilter, filterOfId, filterUnder, isWider, notMounted } from '../filters/paths-filters';
import { advertised, othersOfSet } from '../joining/enable-secondary';
import { kindName, rolesText } from '../observe';
import { outsideDetail, publicKeyPrint } from '../joining/join-by-token';
import { ofNoCluster } from './filter-reconciliation';
import { snapshotWanted } from '../snapshots/snapshots';
import { issuingRights, observe } from './observed';
import type { Observed, PlanInput } from './observed';

/** A cluster without replication becomes primary. One that is already primary is left unchanged, without an approval. */
export async function assessPrimaryEnablement(request: PlanInput<'primaryEnablement'>) {
  const { kind, cluster } = request.input;
  const observed = await observe('primaryEnablement', request, [cluster]);
  const primary = observed.of(cluster);
  const moves: Listed<Move> = [
    secondReading,
    {
      ...primaryEnabling(kind, cluster, observed.deployment.name),
      note: `its secondaries get ${advertised(observed.access(cluster).entry)}`,
      operations: [{ kind, endpoint: 'primary/enable', gate: 'plan', on: primary }],
    },
    { step: verifyWrite(cluster) },
    finalReading,
  ];
  const mayBeEnabled = primary[kind]?.mode === 'disabled' && primary.dr?.mode !== 'secondary';
  return {
    ...observed.base(primary[kind]?.mode !== 'primary' && 'plan'),
    preconditions: [
      ...primaryChecks(observed, kind, primary),
      ...(mayBeEnabled ? await observed.rights(operationsOf(moves), {}, cluster) : []),
    ],
    route: { kind, cluster },
    plan: observed.plan({
      clusters: [primary],
      moves,
      warnings: [
        `${cluster} restarts its subsystems: requests to it fail for a few seconds. Nothing on it is wiped.`,
        `Ending this replication later (replicationTeardown) cuts off every secondary that was added in the meantime.`,
      ],
      choices: { kind },
    }),
  };
}

/** A cluster without replication becomes a DR secondary, which wipes it. */
export function assessDrSecondaryOnboarding(request: PlanInput<'drSecondaryOnboarding'>) {
  return planOnboarding('dr', request, 'none');
}

/** A cluster without replication becomes a performance secondary, which wipes it. */
export function assessPerformanceSecondaryOnboarding(request: PlanInput<'performanceSecondaryOnboarding'>) {
  const { deployment, secondary = '', filter } = request.input;
  const { pathsFilters } = currentExecution().clusters.deployment(deployment);
  return planOnboarding('performance', request, filter === 'inventory' ? pathsFilters[secondary] : filter);
}

/**
 * Onboards either a cluster of the inventory or a secondary of another team. For the latter, only the primary is judged,
 * and the token is encrypted to the key that people compared.
 *
 * @param wanted - the paths filter for a performance secondary; undefined if none was specified
 */
async function planOnboarding(
  kind: ReplicationKind,
  request: PlanInput<'drSecondaryOnboarding' | 'performanceSecondaryOnboarding'>,
  wanted: FilterState | undefined,
): Promise<Assessment<SecondaryOnboardingRoute>> {
  const { input } = request;
  const { outside, form } = input;
  const observed = await observe(`${kind}SecondaryOnboarding`, request, [input.primary, input.secondary]);
  const { deployment, signal } = observed;
  const base = observed.base('wipe');
  const primary = observed.of(input.primary);
  const secondary = input.secondary === undefined ? undefined : observed.of(input.secondary);
  const id = outside?.id ?? secondary?.clusterId ?? '';
  const cluster = secondary?.cluster ?? id;
  const source = observed.access(primary.cluster);
  const isPrimary = primary[kind]?.mode === 'primary' && primary.dr?.mode !== 'secondary';
  const isKept = kind === 'performance' && isPrimary && id !== '';
  const existing = isKept ? await filterUnder(source, id, signal).catch(orElse(signal, (error) => error)) : undefined;
  const judged = [
    ...primaryChecks(observed, kind, primary),
    ...(secondary ? secondaryChecks(kind, deployment, primary, secondary) : [ofNoCluster(id, observed.observations)]),
    ...healthyTree(primary, kind),
    idFree(kind, primary, id, cluster),
  ];
  const ofFilter =
    kind === 'performance' ? filterChecks(deployment, primary.cluster, { cluster, id }, wanted, existing) : [];
  if (wanted === undefined) return { ...base, preconditions: [...judged, ...ofFilter] };
  const filter = wanted === 'none' ? undefined : { mode: wanted.mode, paths: [...wanted.paths] };
  const route = {
    ...{ kind, primary: primary.cluster, secondary: cluster, id, enablesPrimary: !isPrimary },
    form: outside ? ('public-key' as const) : form,
    outside,
    snapshot: secondary && snapshotWanted(deployment, 'wipe', cluster).wanted,
    filter,
  };
  const parts = secondary ? partsOfOurs(deployment, route, primary, secondary) : partsOfAnothers(route, primary);
  const enabling: Move = {
    ...primaryEnabling(kind, primary.cluster, deployment.name),
    operations: [{ kind, endpoint: 'primary/enable', gate: 'wipe', on: primary }],
    warnings: [
      `${primary.cluster} becomes ${kindName(kind)} primary first and restarts its subsystems: requests to it fail for a few seconds.`,
    ],
  };
  const { snapshot, moves: joining } = parts;
  const moves = [secondReading, snapshot, !isPrimary && enabling, ...joining, finalReading];
  // Rights are read only from clusters in the required roles: others may not even serve the lookup.
  const holds = !refuses(judged);
  const rights = holds ? await observed.rights(operationsOf(moves), parts.rights, secondary && primary.cluster) : [];
  const plan = observed.plan({
    clusters: [primary, ...(secondary ? [secondary] : [])],
    moves,
    warnings: [...parts.warnings, ...(filter && holds ? await notMounted(source, [filter]) : [])],
    choices: { kind, ...parts.choices, ...(kind === 'performance' && { filter: describeFilter(filter) }) },
  });
  return { ...base, preconditions: [...judged, ...ofFilter, ...rights], route, plan };
}

type PlanParts = Required<Omit<Planning, 'runbook' | 'input' | 'clusters'>> & {
  /** Of the secondary, before it is wiped. */
  readonly snapshot?: Move | false;
  /** In addition to those of the operations. */
  readonly rights: Readonly<Record<string, Rights>>;
};

function partsOfAnothers({ kind, primary: from, id, filter, outside }: SecondaryOnboardingRoute, on: Named): PlanParts {
  if (outside === undefined) throw new TypeError('neither a cluster nor an outside secondary is named');
  const expected = kind === 'dr' ? undefined : { filter: filter ?? ('none' as const) };
  return {
    rights: { [from]: issuingRights(kind, kind === 'dr' ? undefined : id, filter !== undefined) },
    moves: [
      filter && {
        step: writeFirstFilter(id, from),
        note: describeFilter(filter),
        operations: [
          {
            ...({ kind: 'performance', endpoint: 'primary/paths-filter', gate: 'wipe' } as const),
            ...{ on, detail: filterOfId(id, filter) },
          },
        ],
      },
      {
        step: issueToken(id, from),
        note: `encrypted to their public key, for ${outside.ttl}`,
        operations: [
          { kind, endpoint: 'primary/secondary-token', gate: 'wipe', on, detail: outsideDetail(outside, expected) },
        ],
      },
      { step: waitConnected(id, from), note: 'people hand the token over' },
    ],
    warnings: [
      `${id} is not a cluster of this inventory: another team owns it, and this run cannot read it. Everything that ${from} ${kind === 'dr' ? 'holds' : 'replicates'} is copied to it${filter ? `, except what its paths filter keeps away (${describeFilter(filter)})` : ''}.`,
      `The creator of the public key can use the token. Before you approve, compare the SHA-256 of the key with the other team through another channel: ${publicKeyPrint(outside)}.`,
      `Using the token WIPES the cluster of the other team: they must make sure that it is the right one.`,
    ],
    choices: { outside: id, ttl: outside.ttl },
  };
}

/** What must hold for a cluster that is, or becomes, primary of a kind of replication. */
function primaryChecks({ deployment, observations }: Observed, kind: ReplicationKind, primary: ClusterObservation) {
  const { cluster, dr } = primary;
  const others = othersOfSet(deployment, kind, cluster);
  const inSet = observations.filter((each) => others.includes(each.cluster));
  const primaries = inSet.filter((each) => each[kind]?.mode === 'primary').map((each) => each.cluster);
  const name = kindName(kind);
  const mode = primary[kind]?.mode;
  const mayBecome = mode === 'disabled' || mode === 'primary';
  return [
    oneActiveNode(primary),
    supportedVersion(primary),
    ...asPinned(primary),
    check('no DR secondary', cluster, dr !== undefined && dr.mode !== 'secondary' && dr.mode !== 'bootstrapping', {
      observed: rolesText(primary),
      needed: 'a cluster that is not a DR secondary, which has only the roles of its primary',
      next: `Name the DR primary of ${cluster} instead.`,
    }),
    check(`${name} replication is disabled, or primary already`, cluster, mayBecome, {
      observed: roleText(primary, kind),
      needed: 'disabled or primary',
      next: `${cluster} follows another primary: that one is the primary of the set.`,
    }),
    check(`no other ${name} primary`, undefined, primaries.length === 0, {
      observed: primaries.map((each) => `${each} is primary`).join(', ') || 'none',
      needed: 'none other than this one: two primaries of one set lose data',
      next: `Find out which one clients write to. A set has one primary.`,
    }),
    ...inSet
      .filter((each) => isSilent(each, kind))
      .map((each) => {
        const next = `Make ${each.cluster} readable again: it may be ${name} primary. If it is gone for good, remove it from the inventory.`;
        // If this cluster is already primary, nothing is done that could make two primaries.
        return { ...otherReadable(each, next), verdict: mode === 'primary' ? ('warn' as const) : ('fail' as const) };
      }),
  ];
}

/** Whether the role of a cluster in a kind of replication is unknown: it may be primary. A DR secondary never is. */
function isSilent(seen: ClusterObservation, kind: ReplicationKind): boolean {
  if (!seen.reachable) return true;
  return (seen[kind]?.mode ?? 'unknown') === 'unknown' && seen.dr?.mode !== 'secondary';
}

/** What must hold for the cluster that is wiped, and between the two clusters. */
function secondaryChecks(
  kind: ReplicationKind,
  deployment: Deployment,
  primary: ClusterObservation,
  secondary: ClusterObservation,
): Check[] {
  const { cluster } = secondary;
  const set = drSetOf(deployment, primary.cluster);
  const together = set.members.includes(cluster);
  const [place, list] =
    kind === 'dr' ? ['in the DR set of the primary', 'listed'] : ['in another DR set than the primary', 'not listed'];
  return [
    check('two clusters', cluster, primary.cluster !== cluster, {
      observed: `primary ${primary.cluster}, secondary ${cluster}`,
      needed: 'two clusters',
      next: 'A cluster is never its own secondary.',
    }),
    check(place, cluster, together === (kind === 'dr'), {
      observed: `DR set ${drSetOf(deployment, cluster).name}; ${primary.cluster} is in ${set.name}`,
      needed: `${list} under drSets.${set.name}`,
      next: `Add the intended role of ${cluster} to the inventory (drSets), and start again.`,
    }),
    noReplication(secondary),
    // All nodes, so that those that seal themselves later are noticed.
    ...asPinned(secondary),
    oneActiveNode(secondary),
    everyNodeAnswers(secondary),
    everyNodeUnsealed(secondary),
    noneOlder(primary, secondary),
  ];
}

/** The cluster ID of the secondary is the id of its token: an old use of that id is revoked, a connected one never. */
function idFree(kind: ReplicationKind, primary: ClusterObservation, id: string, secondary: string): Check {
  const replication = primary[kind];
  const connected = replication?.peers.some((peer) => peer.id === id && peer.connected) === true;
  const known = replication?.knownSecondaries?.includes(id) === true;
  return check('id free on the primary', primary.cluster, id !== '' && !connected && !known, {
    observed: connected
      ? `${id} is connected`
      : known
        ? `${id} is known and not connected: it is revoked first`
        : `${id || 'no cluster ID'} not listed`,
    needed: 'a cluster ID that no secondary uses as its id',
    next: connected
      ? `Find out which cluster uses the id of ${secondary}.`
      : `${kindName(kind)} activation tokens that were issued earlier under this id stop working.`,
    otherwise: connected || id === '' ? 'fail' : 'warn',
  });
}

/** Whether the paths filter of the secondary is specified, and not wider than an existing one under its id. */
function filterChecks(
  deployment: Deployment,
  primary: string,
  { cluster, id }: { readonly cluster: string; readonly id: string },
  wanted: FilterState | undefined,
  /** The existing filter, or why it cannot be read. */
  existing: PathsFilterFacts | RunbookError | undefined,
): Check[] {
  const place = `deployments.${deployment.name}.pathsFilters`;
  const specified = check('its paths filter is specified', cluster, wanted !== undefined, {
    observed: wanted === undefined ? `no entry for ${cluster} under ${place}` : describeFilter(wanted),
    needed: 'a filter, or the word none',
    next: `Add to the inventory, under ${place}: {${cluster}: none} or {${cluster}: {mode: deny, paths: [<mount or namespace>/]}}; or start with {"filter": "none"} or {"filter": {"mode": "deny", "paths": ["<mount or namespace>/"]}}.`,
  });
  if (wanted === undefined) return [specified];
  const unread = existing instanceof RunbookError ? existing : undefined;
  const current = existing instanceof RunbookError ? undefined : existing;
  const narrows = !unread && !isWider(current ?? 'none', wanted);
  return [
    specified,
    check('no wider than the existing filter', primary, narrows, {
      observed: unread ? `it could not be read: ${unread.code}` : `${describeFilter(current)} under ${id || 'its id'}`,
      needed: `none, or one that ${describeFilter(wanted)} does not widen`,
      // If a right is missing, the refusal names the policy line.
      next: unread
        ? (unread.next ?? `Find out why the paths filters of ${primary} cannot be read, then start again.`)
        : `Change or delete that filter first, with filterReconciliation or manually.`,
    }),
  ];
}

function partsOfOurs(
  deployment: Deployment,
  { kind, id, form, filter }: SecondaryOnboardingRoute,
  primary: ClusterObservation,
  secondary: ClusterObservation,
): PlanParts {
  const [from, cluster] = [primary.cluster, secondary.cluster];
  const standbys = (deployment.clusters.get(cluster)?.addresses.length ?? 1) > 1;
  const filterText = describeFilter(filter);
  const snapshot = snapshotWanted(deployment, 'wipe', cluster);
  const publicKey = form !== 'wrapped' && { [`sys/replication/${kind}/secondary/generate-public-key`]: ['update'] };
  return {
    rights: { [cluster]: { ...publicKey, ...snapshot.rights } },
    snapshot: snapshot.move,
    moves: [
      filter && { step: writeFirstFilter(cluster, from), note: `under ${id}: ${filterText}` },
      {
        step: enableSecondary(kind, cluster, from),
        note: `WIPES ${cluster}; with an activation token under ${id} (${form === 'auto' ? 'encrypted, otherwise wrapped' : form})`,
        operations: [
          {
            ...({ kind, endpoint: 'secondary/enable', gate: 'wipe', on: secondary, with: primary } as const),
            detail: kind === 'performance' ? filterText : undefined,
          },
        ],
      },
      { step: followCopy(cluster), note: `until it streams; people ${standbysNeed(primary, secondary)}` },
      { step: writeMarker(from, cluster) },
      filter ? { step: checkCredential(cluster) } : { step: compareRoots(from, cluster) },
      filter && { step: compareFilters(cluster), when: `${cluster} accepts a credential by then` },
    ],
    warnings: [
      `${cluster} (cluster ID ${id}) is WIPED: all of its secrets, mounts, policies, audit devices, tokens and leases are gone for good. Only a snapshot taken beforehand can bring them back.`,
      keysAfterJoining(primary, secondary),
      standbys &&
        `The standby nodes of ${cluster} seal themselves, and stay sealed until people ${standbysNeed(primary, secondary)}; ${cluster} may be without an active node until then.`,
      kind === 'dr'
        ? `Everything that ${from} holds is copied to ${cluster}.`
        : filter
          ? `Everything that ${from} holds is copied to ${cluster}, except what its paths filter keeps away: ${filterText}.`
          : `Everything that ${from} replicates is copied to ${cluster}: it gets no paths filter.`,
      `The workers' credential for ${cluster} is no longer valid afterwards.`,
    ],
    choices: { form },
  };
}

/** Whose key shares count on a secondary once it has joined (facts 8.9). */
function keysAfterJoining({ cluster: from, seal: source }: ClusterObservation, secondary: ClusterObservation): string {
  const { cluster, seal } = secondary;
  const own = seal?.recovery ? 'recovery keys' : 'unseal keys';
  const does = seal?.recovery ? 'are its recovery keys' : 'unseal it';
  return `The ${own} of ${cluster} are gone too: the ${keyShares(source?.recovery)} of ${from} ${does} afterwards, and its own no longer work.`;
}

/** What people do with a standby that sealed itself. */
function standbysNeed({ cluster: from, seal: source }: ClusterObservation, { seal }: ClusterObservation): string {
  if (seal?.recovery) return `restart the service on each, which then unseals itself (${seal.type ?? 'auto-unseal'})`;
  return `unseal each with ${keyShares(source?.recovery)} of ${from}`;
}
