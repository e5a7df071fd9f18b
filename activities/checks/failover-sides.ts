import type { ClusterObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { AllowedOperation, Check } from '../../src/contracts/plan';
import type { ClusterEntry, Deployment } from '../../src/inventory';
import { drSetOf, findCluster } from '../../src/inventory';
import { check } from './check';
import { PLANNED_OR_STOP } from './signs';
import { mayBeOneSet, rolesOf } from './replication';

/** Who is gone, who may become primary, and who has to follow. */
export type FailoverSides = Exclude<ReturnType<typeof findFailoverSides>, Check>;

/** What names the clusters of a failover, each only where people know better than what is read. */
interface Named {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly alsoGone?: readonly string[] | undefined;
}

/** Finds the DR set without a primary, the cluster that is gone by what its secondaries say, and the successor. */
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
  if (!from)
    return refused(seen, 'one member of the set that was primary', 'Name the primary that is gone with {"from": ...}.');
  const primary = inSet.find((each) => each.dr?.mode === 'primary' && each !== from);
  if (primary) {
    const next = `Nothing fails over: ${primary.cluster} serves already. When ${from.cluster} is back, start drRejoin for it.`;
    return refused(`${primary.cluster} is DR primary of the set`, 'no primary in the set', next);
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
      `which of them followed ${from.cluster}`,
      'Name the one that is to become primary with {"to": ...}, and correct drSets in the inventory.',
    );
  const to =
    input.to === undefined
      ? secondaries.find(({ dr }) => mayBeOneSet(dr?.setId, [...sets][0]))
      : inSet.find((each) => each.cluster === input.to);
  if (!to || to === from) {
    const next = 'Bring a DR secondary of the set back, or restore from a snapshot.';
    return refused(seen, `a DR secondary of ${from.cluster} that answers`, next);
  }
  // Whoever knows the primary that is gone may hear it still: it is no stranger, whatever set it tells.
  const isOfSet = (each: ClusterObservation) => mayBeOneSet(each.dr?.setId, to.dr?.setId) || follows(each);
  return {
    /** The primary that is gone; mostly it says nothing. */
    from,
    to,
    /** Other members of the DR set that answer as DR secondaries. */
    others: secondaries.filter((each) => each !== to && isOfSet(each)),
    /** Those that another primary has, whatever the inventory says. */
    strangers: secondaries.filter((each) => !isOfSet(each)),
    /** Members of the DR set that did not say their role. */
    silent: inSet.filter((each) => each !== from && each !== to && each.dr === undefined),
    /** Others that do not answer, and may be performance secondaries. */
    silentOutside: observations.filter((each) => !each.reachable && !members.includes(each.cluster)),
    performanceSecondaries: followersOf(deployment, from, inSet.filter(isOfSet), observations),
    secondaries: secondaries.filter(isOfSet),
  };
}

/** The set of the clusters that are named; where none is, the only set whose secondaries see no primary. */
function setInQuestion(
  deployment: Deployment,
  { from, to }: Named,
  observations: readonly ClusterObservation[],
): readonly string[] | Check {
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
    next: only ? 'Say which one with {"from": ...} or {"to": ...}.' : `The primary answers. ${PLANNED_OR_STOP}`,
  });
}

/** The primary that secondaries know by its addresses; else the only member that says nothing. */
function lostPrimary(
  deployment: Deployment,
  input: Named,
  inSet: readonly ClusterObservation[],
): ClusterObservation | undefined {
  if (input.from !== undefined) return inSet.find(({ cluster }) => cluster === input.from);
  const byAddress = followedIn(deployment, inSet).filter(({ cluster }) => cluster !== input.to);
  if (byAddress.length === 1) return byAddress[0];
  const silent = (byAddress.length > 0 ? byAddress : inSet).filter((each) => mayBePrimary(input, each));
  return silent.length === 1 ? silent[0] : undefined;
}

/** It does not say a role that speaks against it, and nobody names it as gone. */
function mayBePrimary({ to, alsoGone }: Named, { cluster, dr }: ClusterObservation): boolean {
  const isNone = dr?.mode === 'secondary' || dr?.mode === 'disabled';
  return cluster !== to && !isNone && alsoGone?.includes(cluster) !== true;
}

/** Members of the set that a secondary which answers knows as its primary, by their addresses. */
function followedIn(deployment: Deployment, inSet: readonly ClusterObservation[]): readonly ClusterObservation[] {
  const told = new Set(inSet.filter(({ dr }) => dr?.mode === 'secondary').flatMap(({ dr }) => knownBy(dr)));
  return inSet.filter(({ cluster }) =>
    addressesOf(findCluster(deployment, cluster)).some((address) => told.has(address)),
  );
}

/**
 * Another member than `from` that may be the primary and serve clients that we do not see: it does not say its role, and
 * a secondary follows it, or none is known to follow `from`. To fence and replace the wrong one makes two primaries, so
 * that people must name each such member.
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
      ? 'no secondary tells whom it follows'
      : `secondaries follow ${followed.map(({ cluster }) => cluster).join(', ')}`;
  return check('no other member can be the primary', names[0], false, {
    observed: `${names.join(', ')} did not say a role, and ${followers}`,
    needed: `secondaries follow ${from.cluster}, and every other silent member is named`,
    next: `Find out which one was primary: name that one with {"from": ...}, or bring ${names.join(', ')} back as secondary. Where people know that ${names.join(', ')} serves nobody either, name it: {"alsoGone": ${JSON.stringify(names)}}.`,
  });
}

function knownBy(replication: ReplicationObservation | undefined): string[] {
  const { primaryClusterAddress, knownPrimaryClusterAddresses = [] } = replication ?? {};
  return [primaryClusterAddress, ...knownPrimaryClusterAddresses].flatMap((address) => hostOf(address) ?? []);
}

/** Host and port of every cluster address that a cluster can have: what it advertises, and the port above each API port. */
function addressesOf({ advertisedClusterAddress, addresses }: ClusterEntry): string[] {
  const above = addresses.map((address) => {
    const url = new URL(address);
    const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
    return `${url.hostname}:${port + 1}`;
  });
  const advertised = hostOf(advertisedClusterAddress);
  return advertised === undefined ? above : [...above, advertised];
}

function hostOf(address: string | undefined): string | undefined {
  if (address === undefined || address === '' || address === 'node-address') return undefined;
  return address.replace(/^https?:\/\//, '').replace(/(?<!\/)\/+$/, '');
}

/** Performance secondaries whose primary, by its addresses, is the cluster that is gone. */
function followersOf(
  deployment: Deployment,
  from: ClusterObservation,
  /** Without those of another set, which know another primary. */
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

/** Of several secondaries one is proposed, and another one may be named: what the others have beyond it is lost. */
export function furthestAhead(to: ClusterObservation, secondaries: readonly ClusterObservation[]): Check[] {
  if (secondaries.length < 2) return [];
  const sameTree = ({ dr }: ClusterObservation) => dr?.merkleRoot !== undefined && dr.merkleRoot === to.dr?.merkleRoot;
  const [ahead] = secondaries.filter((each) => walOf(each) > walOf(to) && !sameTree(each));
  const told = secondaries.map(({ cluster, dr }) => `${cluster} last remote WAL ${dr?.lastRemoteWal ?? 'not told'}`);
  return [
    check('furthest ahead', to.cluster, ahead === undefined, {
      observed: told.join('; '),
      needed: 'no other DR secondary of the set has more of the log',
      next: `What ${ahead?.cluster ?? 'another one'} has and ${to.cluster} has not is lost when it follows ${to.cluster}.`,
      otherwise: 'warn',
    }),
  ];
}

/** `0` says that nothing was streamed since the last comparison of trees. */
function walOf({ dr }: ClusterObservation): bigint {
  return BigInt(dr?.lastRemoteWal ?? '0');
}

/**
 * How plans and activities name a member of the DR set that may not answer while people are asked: it cannot be asked for
 * its cluster ID. The inventory's pin where there is one, else what it is, by the ID of the DR set that its secondary tells.
 */
export function identityOfMember(
  { name, clusterId }: ClusterEntry,
  setId: string | undefined,
  role: 'primary' | 'member' = 'member',
): AllowedOperation['on'] {
  return { cluster: name, clusterId: clusterId ?? (setId === undefined ? '' : `${role} of DR set ${setId}`) };
}

/** As {@link identityOfMember}, of the primary that is gone. */
export function identityOfLost(entry: ClusterEntry, setId: string | undefined): AllowedOperation['on'] {
  return identityOfMember(entry, setId, 'primary');
}
