import type { Check } from '../../src/contracts/plan';
import { asWarning, check, notCheckable } from '../checks/check';
import { onePrimary, sameSet, streams, takesPart } from '../checks/replication';
import { defectsOf, versionsOf } from '../checks/versions';
import { describeFilter } from '../filters/paths-filters';
import { concerning, readChecks, stops, unread } from './point';
import type { Judged } from './point';
import type { ClusterReading, DrSet, ServiceContext, Topology } from './topology';

/* What the clusters say of themselves that no plan of a change of the DR primary asks. Pure, but for the filters. */

export function clusterChecks({ deployment, clusters, sets }: Topology): Judged[] {
  const { canaryAgeMs, clockSkewMs } = deployment.readiness;
  return [
    check('dr-sets', undefined, sets.length > 0, {
      observed: [...deployment.drSets].map(([name, members]) => `${name}: ${members.join(', ')}`).join('; '),
      needed: 'at least one DR set of two clusters in the inventory',
      next: 'Onboard a DR secondary: runbook drSecondaryOnboarding.',
    }),
    ...sets.flatMap(oneDrPrimary),
    ...sets.flatMap(({ secondaries }) => secondaries.map((each) => canary(each, canaryAgeMs))),
    ...performanceRoles(clusters),
    ...clusters.flatMap((each) => [
      // Those of both sides are in the plans.
      ...(each.part === 'other' || each.part === 'gone' ? takesPart(each.observation) : []).map((judged) =>
        stops(each.part, judged),
      ),
      stableLeader(each),
      ...pinnedId(each, deployment.clusters.get(each.name)?.clusterId),
      knownDefects(each),
      clock(each, clockSkewMs),
    ]),
  ];
}

function oneDrPrimary({ name, members, primaries }: DrSet): Judged[] {
  const silent = members.filter(({ observation }) => !observation.reachable).map((each) => each.name);
  const unreadable = silent.length === 0 ? '' : `; not readable: ${silent.join(', ')}`;
  const judged = check(`one-dr-primary.${name}`, undefined, primaries.length === 1, {
    observed: `${primaries.map((each) => each.name).join(', ') || 'none'}${unreadable}`,
    needed: `exactly one DR primary in set ${name}`,
    next:
      primaries.length > 1
        ? 'A split: both take writes. Find out which one clients write to; fence and demote the other before anything else.'
        : 'Where the primary is gone this is a failover; where it answers, look at its role.',
  });
  return primaries.length > 1 ? [judged] : concerning('switchover', [judged]);
}

/** The nodes agree on the same active node each time. */
function stableLeader({ name, part, observation, activeNodes }: ClusterReading): Judged {
  const [first, ...others] = [...new Set(activeNodes)];
  const stable = observation.reachable && first !== undefined && others.length === 0;
  const seen = activeNodes.map((node) => node ?? 'none').join(', then ');
  const judged = check('stable-active-node', name, stable, {
    observed: stable ? `${first}, ${activeNodes.length} times` : (observation.error ?? seen),
    needed: 'the nodes agree on the same active node on every reading',
    next: `Find out why leadership of ${name} changes or is missing (network, clocks, storage).`,
  });
  return stops(part, judged);
}

/** Under the right address may be a wrong cluster. */
function pinnedId({ name, part, observation }: ClusterReading, pinned: string | undefined): Judged[] {
  if (pinned === undefined) return [];
  const { clusterId, reachable } = observation;
  const needed = `cluster ID ${pinned}, as the inventory pins it`;
  if (!reachable || clusterId === undefined)
    return [stops(part, unread({ name: 'cluster-id', cluster: name, needed }, 'no node tells its cluster ID'))];
  const next = `Find out which cluster answers at the addresses of ${name}. Was it set up again? Then correct clusterId.`;
  return [stops(part, check('cluster-id', name, clusterId === pinned, { observed: clusterId, needed, next }))];
}

function performanceRoles(clusters: readonly ClusterReading[]): Judged[] {
  const observations = clusters.map(({ observation }) => observation);
  const [primary, ...others] = observations.filter(({ performance }) => performance?.mode === 'primary');
  const secondaries = observations.filter(({ performance }) => performance?.mode === 'secondary');
  if (primary === undefined && secondaries.length === 0) return [];
  const one = onePrimary('performance', observations);
  return [
    // Without one a switchover has nothing to take along; a failover may be what brings it back.
    ...(others.length > 0 ? [one] : [...concerning('switchover', [one]), ...concerning('failover', [asWarning(one)])]),
    ...secondaries.map((each): Check => {
      const streaming = streams(each, 'performance');
      const next = `Look at ${each.cluster}; a switchover sees that it follows, and re-points it where it does not.`;
      return asWarning(
        primary && streaming.verdict === 'ok' ? sameSet('performance', primary, each, next) : streaming,
        next,
      );
    }),
  ];
}

function knownDefects({ name, observation }: ClusterReading): Judged {
  const versions = versionsOf(observation);
  const asked = { name: 'known-bugs', cluster: name, needed: 'no known defect that concerns changes of roles' };
  if (versions.length === 0) return unread(asked, 'no node tells a version');
  const { text, fixed } = defectsOf(versions);
  const next = `Upgrade to one of ${fixed}, or later.`;
  return check(asked.name, name, fixed === '', { observed: text, needed: asked.needed, next, otherwise: 'warn' });
}

function canary({ name, observation }: ClusterReading, limitMs: number): Judged {
  const asked = { name: 'canary', cluster: name, needed: `the primary's canary at most ${limitMs / 1000} s old` };
  if (!observation.reachable) return unread(asked, observation.error ?? 'no answer');
  const ages = (observation.dr?.peers ?? []).flatMap((peer) => peer.canaryAgeMs ?? []);
  if (ages.length === 0) return notCheckable(asked.name, name, { ...asked, observed: 'the version tells no canary' });
  const youngest = Math.min(...ages);
  return check(asked.name, name, youngest <= limitMs, {
    ...asked,
    observed: `${(youngest / 1000).toFixed(1)} s old`,
    next: `Look at the link between ${name} and its primary: writes arrive late or not at all.`,
    otherwise: 'warn',
  });
}

/** Clocks this far apart make tokens and certificates wrong, ms. */
const BROKEN_CLOCK_MS = 60_000;

/** The clock of every node against the worker's. `server_time_utc` has whole seconds. */
function clock({ name, part, healths }: ClusterReading, limit: number): Judged {
  const asked = { name: 'clock', cluster: name, needed: `at most ${limit / 1_000} s from the worker's clock` };
  if (healths.length === 0) return unread(asked, 'no node answers');
  const skews = healths.flatMap(({ address, health: { serverTimeUtc }, askedAt, answeredAt }) =>
    serverTimeUtc === undefined ? [] : [{ address, skew: skewOf(serverTimeUtc * 1_000, askedAt, answeredAt) }],
  );
  const [worst] = skews.toSorted((a, b) => Math.abs(b.skew) - Math.abs(a.skew));
  if (!worst) return notCheckable(asked.name, name, { ...asked, observed: 'no node tells its time' });
  const { address, skew } = worst;
  return check(asked.name, name, Math.abs(skew) <= limit, {
    ...asked,
    observed: skew === 0 ? 'no difference seen' : `${address}: ${(skew / 1_000).toFixed(1)} s`,
    next: `See to the time synchronisation of ${name} and of the workers.`,
    otherwise: Math.abs(skew) > BROKEN_CLOCK_MS && part === 'secondary' ? 'fail' : 'warn',
  });
}

/** The least difference that explains what was seen, ms; the server's second may have begun up to a second before. */
export function skewOf(serverSecond: number, askedAt: number, answeredAt: number): number {
  const least = serverSecond - answeredAt;
  const most = serverSecond + 999 - askedAt;
  if (least > 0) return least;
  return most < 0 ? most : 0;
}

/** The paths filter of each performance secondary: what the inventory wants beside what the primary has. */
export async function filterChecks({ clusters, deployment, access, execution }: ServiceContext): Promise<Judged[]> {
  const primary = clusters.find(({ observation }) => observation.performance?.mode === 'primary');
  if (primary === undefined) return [];
  const source = access(primary.name);
  const secondaries = clusters.filter(({ observation }) => observation.performance?.mode === 'secondary');
  const checks = secondaries.map(async ({ name, observation: { clusterId, performance } }) => {
    const wanted = deployment.pathsFilters[name];
    const needed = wanted === undefined ? 'the paths filter that the inventory wants' : describeFilter(wanted);
    const asked = { name: 'paths-filter', cluster: name, needed };
    if (wanted === undefined) {
      const observed = `the inventory does not say what ${name} may see (pathsFilters)`;
      return [notCheckable(asked.name, name, { observed, needed })];
    }
    // A filter may stand under the id of the token and under the cluster ID; every one that is there must fit.
    const ids = [...new Set([performance?.secondaryId, clusterId].flatMap((id) => id ?? []))];
    return readChecks(execution.signal, asked, async (signal) => {
      const token = await source.credential();
      const { pathsFilter } = source.client.performance.primary;
      const found = await Promise.all(ids.map((id) => pathsFilter.read(id, { token, signal })));
      const there = new Set(found.flatMap((each) => (each === undefined ? [] : [describeFilter(each)])));
      const [first = describeFilter('none'), ...others] = there;
      const [observed, why] =
        others.length > 0
          ? [[first, ...others].join(' and '), 'its two ids disagree']
          : [first, 'a change of roles takes the filter along as it is'];
      return check(asked.name, name, others.length === 0 && first === needed, {
        ...{ observed, needed, next: `Run filterReconciliation: ${why}.` },
        otherwise: 'warn',
      });
    });
  });
  return (await Promise.all(checks)).flat();
}
