import type { ClusterObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { AllowedOperation, Check } from '../../src/contracts/plan';
import type { ClusterEntry, Deployment } from '../../src/inventory';
import { drSetOf, findCluster } from '../../src/inventory';
import { check } from './check';
import { PLANNED_OR_STOP } from './signs';
import { mayBeOneSet, rolesOf } from './replication';

/** The cluster that is gone, the one that may become primary, and those that have to follow. */
export type FailoverSides = Exclude<ReturnType<typeof findFailoverSides>, Check>;

/** The clusters that the input names, each only if people know better than what is read. */
interface Named {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly alsoGone?: readonly string[] | undefined;
}

/** Finds the DR set without a primary, the cluster that is gone according to its secondaries, and the candidate. */
export function findFailoverSides(deployment: Deployment, input: Named, observations: readonly ClusterObservation[]) {
  for (const name of [input.from, input.to, ...(input.alsoGone ?? [])])
    if (name !== undefined) findCluster(deployment, name);
  const members = setInQuestion(deployment, input, observations);
  if ('verdict' in members) return members;
  const inSet = observations.filter(({ cluster }) => members.includes(cluster));
  const refused = (observed: string, needed: string, next: string) =>
    check('a DR primary that is gone and its secondary', undefined, false, { observed, needed, next });
  const seen = rolesOf(inSet, 'dr');
  const from = lostPrimary(deployment, input, inSet);
  if (!from) return refused(seen, 'the former primary of the set', 'Name the primary that is gone with {"from": ...}.');
  const primary = inSet.find((each) => each.dr?.mode === 'primary' && each !== from);
  if (primary) {
    const next = `There is nothing to fail over: ${primary.cluster} is already serving. When ${from.cluster} is back, start drRejoin for it.`;
    return refused(`${primary.cluster} is the DR primary of the set`, 'no primary in the set', next);
  }
  const doubtful = otherPrimary(deployment, input, from, inSet);
  if (doubtful) return doubtful;
  const secondaries = inSet
    .filter((each) => each !== from && each.dr?.mode === 'secondary')
    .toSorted((a, b) => Number(walOf(b) - walOf(a)));
  const primaryAddresses = new Set(addressesOf(findCluster(deployment, from.cluster)));
  const follows = ({ dr }: ClusterObservation) => knownBy(dr).some((address) => primaryAddresses.has(address));
  const followers = secondaries.some(follows) ? secondaries.filter(follows) : secondaries;
  const sets = new Set(followers.flatMap(({ dr }) => dr?.setId || []));
  if (input.to === undefined && sets.size > 1)
    return refused(
      `secondaries of several replication sets: ${followers.map(({ cluster, dr }) => `${cluster} ${dr?.setId ?? 'none'}`).join(', ')}`,
      `certainty about which of them followed ${from.cluster}`,
      'Name the one that should become primary with {"to": ...}, and correct drSets in the inventory.',
    );
  const to =
    input.to === undefined
      ? secondaries.find(({ dr }) => mayBeOneSet(dr?.setId, [...sets][0]))
      : inSet.find((each) => each.cluster === input.to);
  if (!to || to === from) {
    const next = 'Bring back a DR secondary of the set, or restore from a snapshot.';
    return refused(seen, `a DR secondary of ${from.cluster} that answers`, next);
  }
  // A cluster that knows the lost primary may still hear it: it is no stranger, whatever set it reports.
  const isOfSet = (each: ClusterObservation) => mayBeOneSet(each.dr?.setId, to.dr?.setId) || follows(each);
  return {
    /** The primary that is gone; it usually does not answer. */
    from,
    to,
    /** Other members of the DR set that answer as DR secondaries. */
    others: secondaries.filter((each) => each !== to && isOfSet(each)),
    /** DR secondaries of another primary, whatever the inventory says. */
    strangers: secondaries.filter((each) => !isOfSet(each)),
    /** Members of the DR set whose role could not be read. */
    silent: inSet.filter((each) => each !== from && each !== to && each.dr === undefined),
    /** Other clusters that do not answer and may be performance secondaries. */
    silentOutside: observations.filter((each) => !each.reachable && !members.includes(each.cluster)),
    performanceSecondaries: followersOf(deployment, from, inSet.filter(isOfSet), observations),
    secondaries: secondaries.filter(isOfSet),
  };
}

/** The DR set of the named clusters; if none is named, the only set that has secondaries and no primary. */
function setInQuestion(deployment: Deployment, { from, to }: Named, observations: readonly ClusterObservation[]) {
  const named = from ?? to;
  if (named !== undefined) return drSetOf(deployment, named).members;
  const without = [...deployment.drSets].filter(([, members]) => {
    const modes = observations.filter(({ cluster }) => members.includes(cluster)).map(({ dr }) => dr?.mode);
    return modes.includes('secondary') && !modes.includes('primary');
  });
  const [only, ...more] = without;
  if (only && more.length === 0) return only[1];
  return check('a DR set without a primary', undefined, false, {
    observed: only ? `several: ${without.map(([name]) => name).join(', ')}` : rolesOf(observations, 'dr'),
    needed: 'one DR set with secondaries and no primary that answers',
    next: only ? 'Name it with {"from": ...} or {"to": ...}.' : `The primary answers. ${PLANNED_OR_STOP}`,
  });
}

/** The primary whose addresses the secondaries know; otherwise the only member that may be the primary. */
function lostPrimary(deployment: Deployment, input: Named, inSet: readonly ClusterObservation[]) {
  if (input.from !== undefined) return inSet.find(({ cluster }) => cluster === input.from);
  const byAddress = followedIn(deployment, inSet).filter(({ cluster }) => cluster !== input.to);
  if (byAddress.length === 1) return byAddress[0];
  const silent = (byAddress.length > 0 ? byAddress : inSet).filter((each) => mayBePrimary(input, each));
  return silent.length === 1 ? silent[0] : undefined;
}

/** Its role does not rule it out, and the input does not name it as the candidate or as also gone. */
function mayBePrimary({ to, alsoGone }: Named, { cluster, dr }: ClusterObservation): boolean {
  const isNone = dr?.mode === 'secondary' || dr?.mode === 'disabled';
  return cluster !== to && !isNone && alsoGone?.includes(cluster) !== true;
}

/** Members of the set whose addresses an answering secondary knows as those of its primary. */
function followedIn(deployment: Deployment, inSet: readonly ClusterObservation[]): readonly ClusterObservation[] {
  const known = new Set(inSet.filter(({ dr }) => dr?.mode === 'secondary').flatMap(({ dr }) => knownBy(dr)));
  return inSet.filter(({ cluster }) =>
    addressesOf(findCluster(deployment, cluster)).some((address) => known.has(address)),
  );
}

/**
 * A member other than `from` that may be the primary and serve clients that we do not see: its role is not known, and
 * either a secondary follows it or no secondary is known to follow `from`. Fencing and replacing the wrong cluster makes
 * two primaries, so people must name each such member.
 */
function otherPrimary(
  deployment: Deployment,
  input: Named,
  from: ClusterObservation,
  inSet: readonly ClusterObservation[],
): Check | undefined {
  const silent = inSet.filter((each) => each !== from && mayBePrimary(input, each));
  const followed = followedIn(deployment, inSet);
  const primaries = silent.filter((each) => followed.includes(each));
  const possible = primaries.length > 0 || followed.includes(from) ? primaries : silent;
  if (possible.length === 0) return undefined;
  const names = possible.map(({ cluster }) => cluster);
  const followers =
    followed.length === 0
      ? 'no secondary reports which cluster it follows'
      : `secondaries follow ${followed.map(({ cluster }) => cluster).join(', ')}`;
  return check('no other member can be the primary', names[0], false, {
    observed: `no known role: ${names.join(', ')}; ${followers}`,
    needed: `secondaries that follow ${from.cluster}, and every other member whose role is unknown named in the input`,
    next: `Find out which one was the primary: name it with {"from": ...}, or bring back ${names.join(', ')} as secondary. If you know that ${names.join(', ')} is not serving either, add {"alsoGone": ${JSON.stringify(names)}}.`,
  });
}

function knownBy(replication: ReplicationObservation | undefined): string[] {
  const { primaryClusterAddress, knownPrimaryClusterAddresses = [] } = replication ?? {};
  return [primaryClusterAddress, ...knownPrimaryClusterAddresses].flatMap((address) => hostOf(address) ?? []);
}

/** Host and port of every possible cluster address: the advertised one, and the port above each API port. */
function addressesOf({ advertisedClusterAddress, addresses }: ClusterEntry): string[] {
  const above = addresses.map((address) => {
    const url = new URL(address);
    const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
    return `${url.hostname}:${port + 1}`;
  });
  const advertised = hostOf(advertisedClusterAddress);
  return advertised === undefined ? above : [...above, advertised];
}

/** Host and port of a cluster address, to compare: the service reports it with or without a scheme. */
export function hostOf(address: string | undefined): string | undefined {
  if (address === undefined || address === '' || address === 'node-address') return undefined;
  return address.replace(/^https?:\/\//, '').replace(/(?<!\/)\/+$/, '');
}

/** Performance secondaries whose primary has the addresses of the cluster that is gone. */
function followersOf(
  deployment: Deployment,
  from: ClusterObservation,
  /** Excludes members of another set, which know another primary. */
  inSet: readonly ClusterObservation[],
  observations: readonly ClusterObservation[],
): readonly ClusterObservation[] {
  const gone = new Set([
    ...addressesOf(findCluster(deployment, from.cluster)),
    ...inSet.filter((each) => each.dr?.mode === 'secondary').flatMap(({ dr }) => knownBy(dr)),
  ]);
  return observations.filter(
    (each) =>
      !inSet.includes(each) &&
      each.dr?.mode !== 'secondary' &&
      each.performance?.mode === 'secondary' &&
      knownBy(each.performance).some((address) => gone.has(address)),
  );
}

/** Compares the candidate with the other secondaries: data that only they have is lost. */
export function furthestAhead(to: ClusterObservation, secondaries: readonly ClusterObservation[]): Check[] {
  if (secondaries.length < 2) return [];
  const sameTree = ({ dr }: ClusterObservation) => dr?.merkleRoot !== undefined && dr.merkleRoot === to.dr?.merkleRoot;
  const [ahead] = secondaries.filter((each) => walOf(each) > walOf(to) && !sameTree(each));
  const wals = secondaries.map(
    ({ cluster, dr }) => `${cluster} last remote WAL ${dr?.lastRemoteWal ?? 'not reported'}`,
  );
  return [
    check('furthest ahead', to.cluster, ahead === undefined, {
      observed: wals.join('; '),
      needed: 'no other DR secondary of the set is further ahead',
      next: `Data that ${ahead?.cluster ?? 'another one'} has and ${to.cluster} lacks is lost when it follows ${to.cluster}.`,
      otherwise: 'warn',
    }),
  ];
}

/** `0` means that nothing was streamed since the last comparison of trees. */
function walOf({ dr }: ClusterObservation): bigint {
  return BigInt(dr?.lastRemoteWal ?? '0');
}

/**
 * How plans and activities identify a member of the DR set that may not answer while people are asked, so that its
 * cluster ID cannot be read: by the ID that the inventory pins, otherwise by its role and the ID of the DR set.
 */
export function identityOfMember(
  { name, clusterId }: ClusterEntry,
  setId: string | undefined,
  role: 'primary' | 'member' = 'member',
): AllowedOperation['on'] {
  return { cluster: name, clusterId: clusterId ?? (setId === undefined ? '' : `${role} of DR set ${setId}`) };
}

/** As {@link identityOfMember}, for the primary that is gone. */
export function identityOfLostPrimary(entry: ClusterEntry, setId: string | undefined): AllowedOperation['on'] {
  return identityOfMember(entry, setId, 'primary');
}
