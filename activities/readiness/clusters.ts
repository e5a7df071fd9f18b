import type { Check } from '../../src/contracts/plan';
import { asWarning, check, notCheckable } from '../checks/check';
import { correctPin, onePrimary, sameSet, streams, takesPart } from '../checks/replication';
import { describeFilter, readFiltersOf, stateOf } from '../filters/paths-filters';
import { asWanted } from '../plans/filter-reconciliation';
import { concerning, readChecks, stops, unread } from './reading';
import type { ClusterReading, DrSet, Judged, ServiceContext, Topology } from './reading';

/* What the clusters say of themselves that no plan of a change of the DR primary asks. Pure, but for the filters. */

export function clusterChecks({ deployment, clusters, sets }: Topology): Judged[] {
  return [
    check('dr-sets', undefined, sets.length > 0, {
      observed: [...deployment.drSets].map(([name, members]) => `${name}: ${members.join(', ')}`).join('; '),
      needed: 'at least one DR set of two clusters in the inventory',
      next: 'Onboard a DR secondary: runbook drSecondaryOnboarding.',
    }),
    ...sets.flatMap(oneDrPrimary),
    ...performanceRoles(clusters),
    ...clusters.flatMap((each) => [
      // Those of both sides are in the plans.
      ...(each.part === 'other' || each.part === 'gone' ? takesPart(each.observation) : []).map((judged) =>
        stops(each.part, judged),
      ),
      ...pinnedId(each, deployment.clusters.get(each.name)?.clusterId),
      clock(each, deployment.readiness.clockSkewMs),
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

/** Under the right address may be a wrong cluster. */
function pinnedId({ name, part, observation }: ClusterReading, pinned: string | undefined): Judged[] {
  if (pinned === undefined) return [];
  const { clusterId, reachable } = observation;
  const needed = `cluster ID ${pinned}, as the inventory pins it`;
  if (!reachable || clusterId === undefined)
    return [stops(part, unread({ name: 'cluster-id', cluster: name, needed }, 'no node tells its cluster ID'))];
  const next = correctPin(name);
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

/** The paths filter of each performance secondary: what the inventory wants beside what the primary has, under both ids. */
export async function filterChecks({ clusters, deployment, access, execution }: ServiceContext): Promise<Judged[]> {
  const primary = clusters.find(({ observation }) => observation.performance?.mode === 'primary');
  const checks = clusters.flatMap(({ name, observation }) => {
    const wanted = deployment.pathsFilters[name];
    if (primary === undefined || wanted === undefined || observation.performance?.mode !== 'secondary') return [];
    const asked = { name: 'filter as wanted', cluster: name, needed: describeFilter(wanted) };
    const next = 'Run filterReconciliation: a change of roles takes the filter along as it is.';
    return [
      readChecks(execution.signal, asked, async (signal) => {
        const read = await readFiltersOf(access(primary.name), access(name), signal);
        return asWanted({ ...read, wanted: stateOf(wanted) }, next);
      }),
    ];
  });
  return (await Promise.all(checks)).flat();
}

/** Of the primary of a set, which its secondaries share. */
export async function auditChecks({ sets, access, execution }: ServiceContext): Promise<Judged[]> {
  const checks = sets.flatMap(({ primaries: [primary] }) => {
    if (primary === undefined) return [];
    const { name: cluster } = primary;
    const needed = 'at least two: where the only one blocks, every authenticated call fails while health is good';
    const asked = { name: 'audit-devices', cluster, needed };
    return [
      readChecks(execution.signal, asked, async (signal) => {
        const own = access(cluster);
        const devices = await own.client.sys.auditDevices({ token: await own.credential(), signal });
        return check(asked.name, cluster, devices.length > 1, {
          observed: devices.map(({ path }) => path).join(', ') || 'none: nothing is audited',
          needed,
          next: `Enable another audit device on ${cluster}, at a path that is writable on its secondaries too.`,
          otherwise: devices.length === 0 ? 'fail' : 'warn',
        });
      }),
    ];
  });
  return (await Promise.all(checks)).flat();
}
