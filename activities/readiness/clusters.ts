import type { ReadinessPoint } from '../../src/contracts/readiness';
import {
  aliveByHeartbeat,
  everyNodeAnswers,
  everyNodeUnsealed,
  lag,
  noReindex,
  onePrimary,
  quorum,
  sameSet,
  soundTree,
  streams,
} from '../checks/replication';
import { defectsOf, noneOlder, versionsOf, versionsText } from '../checks/versions';
import { describeReplication } from '../observe';
import { describeFilter } from '../filters/paths-filters';
import { answer, checked, holds, judged, unknowable, unread, pointsOf, readPoints } from './point';
import type { Answer, Verdicts } from './point';
import { SEVERITY, whyNotRead } from './topology';
import type { ClusterReading, DrSet, Topology, ServiceContext } from './topology';

/* What the clusters say of themselves: nodes, roles, versions, clocks. Pure. */

/** Every node reachable and unsealed, quorum, one stable active node. */
export function nodePoints({ clusters }: Topology): ReadinessPoint[] {
  return clusters.flatMap(({ name, part, observation, activeNodes }) => {
    // Without some nodes both start, and people are warned; without a quorum neither.
    const warned = part === 'primary' || part === 'gone' ? ({ switchover: 'warn' } as const) : 'warn';
    const someAnswer = observation.nodes.some(({ reachable }) => reachable);
    const [first, ...others] = [...new Set(activeNodes)];
    const stable = observation.reachable && first !== undefined && others.length === 0;
    const seen = activeNodes.map((node) => node ?? 'none').join(', then ');
    return [
      ...checked('nodes-reachable', everyNodeAnswers(observation), warned),
      ...checked('nodes-unsealed', everyNodeUnsealed(observation), warned, someAnswer ? undefined : 'no node answers'),
      ...checked('quorum', quorum(observation), SEVERITY[part]),
      ...judged({
        id: 'stable-active-node',
        cluster: name,
        needed: 'the nodes agree on the same active node on every reading',
        next: `Find out why leadership of ${name} changes or is missing (network, clocks, storage).`,
        judge: () =>
          holds(stable, SEVERITY[part], stable ? `${first}, ${activeNodes.length} times` : (observation.error ?? seen)),
      }),
    ];
  });
}

/** That each cluster is the one that the inventory pins: under the right address may be a wrong cluster. */
export function identityPoints({ deployment, clusters }: Topology): ReadinessPoint[] {
  return clusters.flatMap(({ name, part, observation: { clusterId, reachable } }) => {
    const pinned = deployment.clusters.get(name)?.clusterId;
    if (pinned === undefined) return [];
    return judged({
      id: 'cluster-id',
      cluster: name,
      needed: `cluster ID ${pinned}, as the inventory pins it`,
      next: `Find out which cluster answers at the addresses of ${name}. Was it set up again? Then correct clusterId.`,
      judge: () =>
        reachable && clusterId !== undefined
          ? holds(clusterId === pinned, SEVERITY[part], clusterId)
          : unread('no node tells its cluster ID'),
    });
  });
}

/** Roles consistent, exactly one DR primary in each set and one performance primary. */
export function rolePoints(topology: Topology): ReadinessPoint[] {
  const { sets, deployment } = topology;
  const sizes = [...deployment.drSets].map(([name, members]) => `${name}: ${members.join(', ')}`);
  return [
    ...judged({
      id: 'dr-sets',
      source: 'attested',
      needed: 'at least one DR set of two clusters in the inventory',
      next: 'Onboard a DR secondary: runbook drSecondaryOnboarding.',
      judge: () => holds(sets.length > 0, 'fail', sizes.join('; ')),
    }),
    ...sets.flatMap((set) => [...oneDrPrimary(set), ...set.members.flatMap((each) => role(each, set))]),
    ...performanceRoles(topology),
  ];
}

function oneDrPrimary({ name, members, primaries }: DrSet): ReadinessPoint[] {
  const silent = members.filter(({ observation }) => !observation.reachable).map((each) => each.name);
  const unreadable = silent.length === 0 ? '' : `; not readable: ${silent.join(', ')}`;
  const observed = `${primaries.map((each) => each.name).join(', ') || 'none'}${unreadable}`;
  return judged({
    id: `one-dr-primary.${name}`,
    needed: `exactly one DR primary in set ${name}`,
    next: 'Where the primary is gone this is a failover; where it answers, look at its role.',
    judge: () => {
      if (primaries.length === 1) return answer('ok', observed);
      if (primaries.length > 1)
        return answer('fail', observed, {
          reason: 'a split: both take writes',
          next: 'Find out which one clients write to; fence and demote the other before anything else.',
        });
      return silent.length === 0
        ? answer('fail', observed, { reason: 'no member is primary' })
        : answer({ switchover: 'fail', failover: 'ok' }, observed, { reason: 'the primary may be gone' });
    },
  });
}

function role(reading: ClusterReading, { primaries: [primary] }: DrSet): ReadinessPoint[] {
  const { name, part, observation, healths } = reading;
  return judged({
    id: 'role',
    cluster: name,
    needed: 'DR primary or DR secondary of the set, and every node says the same',
    next: `Look at the DR status of ${name}; attach it again where it left the set.`,
    judge: () => {
      const why = whyNotRead(reading);
      if (why !== undefined) return unread(why);
      const { dr } = observation;
      if (dr?.mode !== 'primary' && dr?.mode !== 'secondary') return answer(SEVERITY[part], describeReplication(dr));
      if (primary !== undefined && (dr.setId === undefined || dr.setId !== primary.observation.dr?.setId))
        return answer(SEVERITY[part], describeReplication(dr), {
          reason: `it is of set ${dr.setId ?? 'none'}, not of the primary's`,
        });
      // Nodes that just started tell no mode, or an old one.
      const others = healths.flatMap(({ address, health: { replicationDrMode: mode } }) =>
        mode === undefined || mode === dr.mode ? [] : [`; ${address} says ${mode}`],
      );
      const next = `Wait until every node of ${name} tells the same role.`;
      return holds(others.length === 0, 'warn', `${dr.mode}${others.join('')}`, { next });
    },
  });
}

function performanceRoles({ clusters }: Topology): ReadinessPoint[] {
  const observations = clusters.map(({ observation }) => observation);
  const [primary, ...others] = observations.filter(({ performance }) => performance?.mode === 'primary');
  const secondaries = observations.filter(({ performance }) => performance?.mode === 'secondary');
  if (primary === undefined && secondaries.length === 0) return [];
  const unreadable = observations.some(({ reachable }) => !reachable);
  const none = { switchover: 'fail', failover: unreadable ? 'ok' : 'warn' } as const;
  return [
    ...checked('one-performance-primary', onePrimary('performance', observations), others.length > 0 ? 'fail' : none),
    ...secondaries.flatMap((each) => {
      const streaming = streams(each, 'performance');
      const next = `Look at ${each.cluster}; a switchover sees that it follows, and re-points it where it does not.`;
      const following =
        primary && streaming.verdict === 'ok' ? sameSet('performance', primary, each, next) : { ...streaming, next };
      return checked('performance-secondary', following, 'warn');
    }),
  ];
}

/** Versions of every node, their order along each replication, and known defects. */
export function versionPoints({ clusters, sets }: Topology): ReadinessPoint[] {
  const ofClusters = clusters.flatMap((reading) => {
    const { name, part, observation } = reading;
    const versions = versionsOf(observation);
    const otherwise = part === 'other' ? 'warn' : ({ switchover: 'fail', failover: 'warn' } as const);
    const told = (judge: () => Answer) => () => (versions.length === 0 ? unread('no node tells a version') : judge());
    return judged(
      {
        id: 'versions-alike',
        cluster: name,
        needed: 'one version on all nodes',
        next: `Finish the upgrade of ${name} first.`,
        judge: told(() => holds(versions.length === 1, otherwise, versions.join(', '))),
      },
      {
        id: 'known-bugs',
        cluster: name,
        needed: 'no known defect that concerns changes of roles',
        judge: told(() => defectsIn(versions)),
      },
    );
  });
  const along = sets.flatMap((set) =>
    set.secondaries.flatMap((each) =>
      judged({
        id: 'versions-order',
        cluster: each.name,
        needed: 'the version of its primary, or a newer one',
        judge: () => versionOrder(each, set),
      }),
    ),
  );
  return [...ofClusters, ...along];
}

function versionOrder({ observation }: ClusterReading, { primaries: [primary] }: DrSet): Answer {
  const above = primary?.observation;
  const observed = above ? versionsText(observation, above) : 'there is no primary to compare with';
  if (!above || [observation, above].some((each) => versionsOf(each).length === 0)) return unread(observed);
  const { verdict, next } = noneOlder(above, observation);
  if (verdict === 'fail')
    return answer('fail', observed, { reason: 'replicating from newer to older is not safe', next });
  return holds(noneOlder(observation, above).verdict === 'ok', 'warn', observed, {
    reason: 'the former primary cannot follow an upgraded one',
    next: `Start with {"acknowledgeNewerSecondary": true}, or upgrade ${above.cluster} soon: it stays out until then.`,
  });
}

function defectsIn(versions: readonly string[]): Answer {
  const { text, fixed } = defectsOf(versions);
  return holds(fixed === '', 'warn', text, { next: `Upgrade to one of ${fixed}, or later.` });
}

/** Clocks this far apart make tokens and certificates wrong, ms. */
const BROKEN_CLOCK_MS = 60_000;

/** The clock of every node against the worker's. `server_time_utc` has whole seconds. */
export function clockPoints({ clusters, deployment }: Topology): ReadinessPoint[] {
  const limit = deployment.readiness.clockSkewMs;
  return clusters.flatMap(({ name, part, healths }) =>
    judged({
      id: 'clock',
      cluster: name,
      needed: `at most ${limit / 1_000} s from the worker's clock`,
      next: `See to the time synchronisation of ${name} and of the workers.`,
      judge: () => {
        if (healths.length === 0) return unread('no node answers');
        const skews = healths.flatMap(({ address, health: { serverTimeUtc }, askedAt, answeredAt }) =>
          serverTimeUtc === undefined ? [] : [{ address, skew: skewOf(serverTimeUtc * 1_000, askedAt, answeredAt) }],
        );
        const [worst] = skews.toSorted((a, b) => Math.abs(b.skew) - Math.abs(a.skew));
        if (!worst) return unknowable('no node tells its time');
        const { address, skew } = worst;
        const observed = skew === 0 ? 'no difference seen' : `${address}: ${(skew / 1_000).toFixed(1)} s`;
        const broken = Math.abs(skew) > BROKEN_CLOCK_MS && part === 'secondary';
        return holds(Math.abs(skew) <= limit, broken ? 'fail' : 'warn', observed);
      },
    }),
  );
}

/** The least difference that explains what was seen, ms; the server's second may have begun up to a second before. */
export function skewOf(serverSecond: number, askedAt: number, answeredAt: number): number {
  const least = serverSecond - answeredAt;
  const most = serverSecond + 999 - askedAt;
  if (least > 0) return least;
  return most < 0 ? most : 0;
}

/** A switchover refuses; a failover starts, and loses what did not arrive. */
const COSTS_DATA: Verdicts = { switchover: 'fail', failover: 'warn' };

/** Streaming, life of the connection, canary, lag, trees. Pure. */
export function replicationPoints({ deployment, sets }: Topology): ReadinessPoint[] {
  const { heartbeatAgeMs, lagWalEntries } = deployment.limits;
  return sets.flatMap((set) => [
    ...set.secondaries.flatMap((each) => [
      ...checked('streaming', streams(each.observation, 'dr'), COSTS_DATA, whyNotRead(each)),
      ...checked('heartbeat', aliveByHeartbeat(each.observation, 'dr', heartbeatAgeMs), COSTS_DATA, whyNotRead(each)),
      ...canary(each, deployment.readiness.canaryAgeMs),
      ...lagOf(each, set, lagWalEntries),
    ]),
    ...set.members.flatMap((each) => [
      ...tree(each),
      ...checked('reindex', noReindex(each.observation, 'dr'), SEVERITY[each.part], whyNotRead(each)),
    ]),
  ]);
}

function canary(reading: ClusterReading, limitMs: number): ReadinessPoint[] {
  const { name, observation } = reading;
  return judged({
    id: 'canary',
    cluster: name,
    needed: `the primary's canary at most ${limitMs / 1000} s old`,
    next: `Look at the link between ${name} and its primary: writes arrive late or not at all.`,
    judge: () => {
      const why = whyNotRead(reading);
      if (why !== undefined) return unread(why);
      const ages = (observation.dr?.peers ?? []).flatMap((peer) => peer.canaryAgeMs ?? []);
      if (ages.length === 0) return unknowable('versions before 1.17 tell no canary');
      const youngest = Math.min(...ages);
      return holds(youngest <= limitMs, 'warn', `${(youngest / 1000).toFixed(1)} s old`);
    },
  });
}

function lagOf(reading: ClusterReading, { primaries }: DrSet, limit: number): ReadinessPoint[] {
  const { observation, drRoots } = reading;
  const [primary] = primaries;
  const sameRoot = drRoots.some((root) => primary?.drRoots.includes(root) === true);
  const compared = lag('dr', primary?.observation ?? observation, observation, limit, sameRoot);
  const why = primaries.length === 1 ? undefined : 'there is no primary to compare with';
  return checked('lag', compared, COSTS_DATA, whyNotRead(reading) ?? why);
}

function tree(reading: ClusterReading): ReadinessPoint[] {
  const { observation, part } = reading;
  const sound = soundTree(observation, 'dr');
  const why = whyNotRead(reading);
  return why === undefined && observation.dr?.corruptedMerkleTree === undefined
    ? pointsOf({ id: 'merkle-tree', ...sound }, unknowable('the version does not tell it'))
    : checked('merkle-tree', sound, SEVERITY[part], why);
}

/** The paths filter of each performance secondary: what the inventory wants beside what the primary has. */
export async function filterPoints(context: ServiceContext): Promise<ReadinessPoint[]> {
  const { clusters, deployment, access, execution } = context;
  const primary = clusters.find(({ observation }) => observation.performance?.mode === 'primary');
  if (primary === undefined) return [];
  const source = access(primary.name);
  const secondaries = clusters.filter(({ observation }) => observation.performance?.mode === 'secondary');
  const points = secondaries.map(async ({ name, observation: { clusterId, performance } }) => {
    const wanted = deployment.pathsFilters[name];
    const needed = wanted === undefined ? 'the paths filter that the inventory wants' : describeFilter(wanted);
    const question = { id: 'paths-filter', cluster: name, needed, next: 'Run filterReconciliation.' };
    if (wanted === undefined)
      return pointsOf(question, unknowable(`the inventory does not say what ${name} may see (pathsFilters)`));
    // A filter may stand under the id of the token and under the cluster ID; every one that is there must fit.
    const ids = [...new Set([performance?.secondaryId, clusterId].flatMap((id) => id ?? []))];
    const read = async (signal: AbortSignal) => {
      const token = await source.credential();
      return Promise.all(ids.map((id) => source.client.performance.primary.pathsFilter.read(id, { token, signal })));
    };
    return readPoints(execution.signal, read, {
      ...question,
      judge: (found) => {
        const there = new Set(found.flatMap((each) => (each === undefined ? [] : [describeFilter(each)])));
        const [first = describeFilter('none'), ...others] = there;
        const observed = [first, ...others].join(' and ');
        if (others.length > 0) return answer('warn', observed, { reason: 'its two ids disagree' });
        return holds(first === needed, 'warn', observed, {
          reason: 'a change of roles takes the filter along as it is',
        });
      },
    });
  });
  return (await Promise.all(points)).flat();
}
