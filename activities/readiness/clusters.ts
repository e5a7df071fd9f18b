import type { Check } from '../../src/contracts/plan';
import { oneLine } from '../../src/contracts/words';
import { isRunbookError } from '../../src/errors';
import { asWarning, check, notCheckable } from '../checks/check';
import { correctPin, onePrimary, sameSet, streams, takesPart } from '../checks/replication';
import { leaderNameText } from '../../src/vault';
import { describeFilter, readFiltersOf, stateOf } from '../filters/paths-filters';
import { asWanted } from '../plans/filter-reconciliation';
import { concerning, readChecks, stops, unread } from './reading';
import type { ClusterReading, DrSet, Judged, ServiceContext, Topology } from './reading';

/* Checks on the clusters that no plan of a change of the DR primary makes. Pure, except for the filters. */

export function clusterChecks({ deployment, clusters, sets }: Topology): Judged[] {
  return [
    check('dr-sets', undefined, sets.length > 0, {
      observed: [...deployment.drSets].map(([name, members]) => `${name}: ${members.join(', ')}`).join('; '),
      needed: 'at least one DR set of two clusters in the inventory',
      next: 'Onboard a DR secondary: runbook drSecondaryOnboarding.',
    }),
    ...sets.flatMap(oneDrPrimary),
    ...sets.flatMap(notYetIn),
    ...performanceRoles(clusters),
    ...clusters.flatMap((each) => [
      // The plans make these checks for both sides.
      ...(each.part === 'other' || each.part === 'gone' ? takesPart(each.observation) : []).map((judged) =>
        stops(each.part, judged),
      ),
      ...pinnedId(each, deployment.clusters.get(each.name)?.clusterId),
      ...(each.part === 'gone' ? [] : [clock(each, deployment.readiness.clockSkewMs)]),
      ...license(each),
    ]),
  ];
}

export function oneDrPrimary({ name, members, primaries }: DrSet): Judged[] {
  const silent = members.filter(({ observation }) => !observation.reachable).map((each) => each.name);
  const unreadable = silent.length === 0 ? '' : `; not readable: ${silent.join(', ')}`;
  const judged = check(`one-dr-primary.${name}`, undefined, primaries.length === 1, {
    observed: `${primaries.map((each) => each.name).join(', ') || 'none'}${unreadable}`,
    needed: `exactly one DR primary in set ${name}`,
    next:
      primaries.length > 1
        ? 'Split brain: both accept writes. Before anything else, find out which one clients write to; fence and demote the other.'
        : 'If the primary is gone, this is a failover; if it answers, check its role.',
  });
  return primaries.length > 1 ? [judged] : concerning('switchover', [judged]);
}

/** Clusters that the inventory lists in a set, and that have no DR replication. */
function notYetIn({ name: set, members, secondaries }: DrSet): Judged[] {
  return members
    .filter(({ part }) => part === 'other')
    .map(({ name }) =>
      check('in-its-set', name, false, {
        observed: `not yet in DR set ${set}: it has no DR replication`,
        needed: 'a DR secondary of the set',
        next: `Onboard it with drSecondaryOnboarding, which wipes it, or remove it from drSets.${set}.`,
        otherwise: secondaries.length === 0 ? 'fail' : 'warn',
      }),
    );
}

/** The wrong cluster may answer at the right address. */
function pinnedId({ name, part, observation }: ClusterReading, pinned: string | undefined): Judged[] {
  if (pinned === undefined) return [];
  const { clusterId, reachable } = observation;
  const needed = `cluster ID ${pinned}, as pinned in the inventory`;
  if (!reachable || clusterId === undefined)
    return [stops(part, unread({ name: 'cluster-id', cluster: name, needed }, 'no node reports its cluster ID'))];
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
    // Without a performance primary a switchover has nothing to take along; a failover may bring one back.
    ...(others.length > 0 ? [one] : [...concerning('switchover', [one]), ...concerning('failover', [asWarning(one)])]),
    ...secondaries.map((each): Check => {
      const streaming = streams(each, 'performance');
      const next = `Check ${each.cluster}. A switchover verifies that it follows, and re-points it if it does not.`;
      return asWarning(
        primary && streaming.verdict === 'ok' ? sameSet('performance', primary, each, next) : streaming,
        next,
      );
    }),
  ];
}

/** People need time to get a new license, ms. */
const LICENSE_MS = 30 * 86_400_000;

/** The license, as the nodes report it with their health; none for a node that reports none. */
function license({ name, part, healths }: ClusterReading): Judged[] {
  const found = healths.flatMap(({ health }) => health.license ?? []);
  const ends = found.flatMap(({ expiryTime = '' }) => {
    const at = Date.parse(expiryTime);
    return Number.isNaN(at) ? [] : at;
  });
  const end = ends.length === 0 ? Infinity : Math.min(...ends);
  const ended = found.some(({ terminated }) => terminated === true) || end <= Date.now();
  if (found.length === 0 || (!ended && end > Date.now() + LICENSE_MS)) return [];
  const at = Number.isFinite(end) ? ` (${new Date(end).toISOString()})` : '';
  const judged = check('license', name, false, {
    observed: `${ended ? 'ended' : 'ends soon'}${at}`,
    needed: 'a license for more than 30 days: with an ended one a node does not unseal after its next restart',
    next: `Put the new license on every node of ${name} and reload it (SIGHUP, or sys/config/reload/license).`,
    otherwise: ended ? 'fail' : 'warn',
  });
  return [stops(part, judged)];
}

/** Clocks that are this far apart break tokens and certificates, ms. */
const BROKEN_CLOCK_MS = 60_000;

/** Compares the clock of every node with the worker's. `server_time_utc` has whole seconds. */
function clock({ name, part, healths }: ClusterReading, limit: number): Judged {
  const asked = { name: 'clock', cluster: name, needed: `at most ${limit / 1_000} s from the worker's clock` };
  if (healths.length === 0) return unread(asked, 'no node answers');
  const skews = healths.flatMap(({ address, health: { serverTimeUtc }, askedAt, answeredAt }) =>
    serverTimeUtc === undefined ? [] : [{ address, skew: skewOf(serverTimeUtc * 1_000, askedAt, answeredAt) }],
  );
  const [worst] = skews.toSorted((a, b) => Math.abs(b.skew) - Math.abs(a.skew));
  if (!worst) return notCheckable(asked.name, name, { ...asked, observed: 'no node reports its time' });
  const { address, skew } = worst;
  return check(asked.name, name, Math.abs(skew) <= limit, {
    ...asked,
    observed: skew === 0 ? 'no difference found' : `${address}: ${(skew / 1_000).toFixed(1)} s`,
    next: `Fix the time synchronization of ${name} and of the workers.`,
    otherwise: Math.abs(skew) > BROKEN_CLOCK_MS && part === 'secondary' ? 'fail' : 'warn',
  });
}

/** The minimum difference that explains the times read, ms; the server's second may have begun up to a second earlier. */
export function skewOf(serverSecond: number, askedAt: number, answeredAt: number): number {
  const minimum = serverSecond - answeredAt;
  const maximum = serverSecond + 999 - askedAt;
  if (minimum > 0) return minimum;
  return maximum < 0 ? maximum : 0;
}

/**
 * Which address the leader of each cluster names as its own. Information: nodes often advertise a load balancer or a
 * service name. It is never called; which listed node leads is known from what each node says about itself.
 */
export async function advertisedChecks({ deployment, clusters, access, execution }: ServiceContext): Promise<Judged[]> {
  const checks = clusters.flatMap(({ name, observation: { activeNode } }) => {
    if (activeNode === undefined) return [];
    const asked = { name: 'leader-address', cluster: name, needed: 'any: runs call only the listed addresses' };
    return [
      readChecks(execution.signal, asked, async (signal) => {
        const { leaderAddress = '' } = await access(name).client.sys.leader({ node: activeNode, signal });
        const { addresses = [] } = deployment.clusters.get(name) ?? {};
        return check(asked.name, name, true, { ...asked, observed: leaderNameText(leaderAddress, addresses) });
      }),
    ];
  });
  return (await Promise.all(checks)).flat();
}

/** Compares the paths filter of each performance secondary in the inventory with the primary's, under both ids. */
export async function filterChecks({ clusters, deployment, access, execution }: ServiceContext): Promise<Judged[]> {
  const primary = clusters.find(({ observation }) => observation.performance?.mode === 'primary');
  const checks = clusters.flatMap(({ name, observation }) => {
    const wanted = deployment.pathsFilters[name];
    if (primary === undefined || wanted === undefined || observation.performance?.mode !== 'secondary') return [];
    const asked = { name: 'filter as wanted', cluster: name, needed: describeFilter(wanted) };
    const next = 'Run filterReconciliation: a change of roles carries the filter over unchanged.';
    return [
      readChecks(execution.signal, asked, async (signal) => {
        const read = await readFiltersOf(access(primary.name), access(name), signal);
        return asWanted({ ...read, wanted: stateOf(wanted) }, next);
      }),
    ];
  });
  return (await Promise.all(checks)).flat();
}

/** The audit devices of the primary of each set, which its secondaries share. */
export async function auditChecks({ sets, access, execution }: ServiceContext): Promise<Judged[]> {
  const checks = sets.flatMap(({ primaries: [primary] }) => {
    if (primary === undefined) return [];
    const { name: cluster } = primary;
    const needed = 'at least two: if the only one blocks, every authenticated call fails while health is good';
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

/** What autopilot says of the nodes of the primary of each set. Nothing where another storage is used. */
export async function autopilotChecks({ sets, access, execution }: ServiceContext): Promise<Judged[]> {
  const checks = sets.flatMap(({ primaries: [primary] }) => {
    if (primary === undefined) return [];
    const { name: cluster } = primary;
    const asked = { name: 'autopilot', cluster, needed: 'every node of the Raft storage healthy' };
    return [
      readChecks(execution.signal, asked, async (signal) => {
        const own = access(cluster);
        const token = await own.credential();
        const state = await own.client.sys.autopilotState({ token, signal }).catch((error: unknown) => {
          if (isRunbookError(error, 'NOT_FOUND') || isRunbookError(error, 'BAD_REQUEST')) return undefined;
          throw error;
        });
        if (state === undefined) return [];
        const bad = state.servers
          .filter(([, { healthy }]) => healthy === false)
          .map(([id, { status }]) => `${id} (${status ?? 'no status'})`);
        return check(asked.name, cluster, state.healthy, {
          observed: `${state.healthy ? 'healthy' : `unhealthy: ${oneLine(bad.join(', ')) || 'no node is named'}`}; failure tolerance ${state.failureTolerance}`,
          needed: asked.needed,
          next: `Look at \`vault operator raft autopilot state\` on ${cluster}: a node that lags or is gone may cost the quorum in the next election.`,
          otherwise: 'warn',
        });
      }),
    ];
  });
  return (await Promise.all(checks)).flat();
}
