import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { WalSample } from '../../src/contracts/wal-samples';
import { aliveByHeartbeat, lag, noReindex, soundTree, streams } from '../checks/replication';
import { lagTrend } from '../evidence/wal-lag';
import { describeFilter } from '../filters/paths-filters';
import { answer, checked, holds, judged, pointsOf, readPoints, unknowable, unread } from './point';
import type { Verdicts } from './point';
import { SEVERITY, whyNotRead } from './topology';
import type { ClusterReading, DrSet, ServiceContext, Topology } from './topology';

/** A switchover refuses; a failover starts, and loses what did not arrive. */
const COSTS_DATA: Verdicts = { switchover: 'fail', failover: 'warn' };

/** Streaming, life of the connection, canary, lag and its trend, trees. Pure. */
export function replicationPoints({ deployment, sets }: Topology, samples: readonly WalSample[]): ReadinessPoint[] {
  const { heartbeatAgeMs, lagWalEntries } = deployment.limits;
  return sets.flatMap((set) => [
    ...set.secondaries.flatMap((each) => [
      ...checked('streaming', streams(each.observation, 'dr'), COSTS_DATA, whyNotRead(each)),
      ...checked('heartbeat', aliveByHeartbeat(each.observation, 'dr', heartbeatAgeMs), COSTS_DATA, whyNotRead(each)),
      ...canary(each, deployment.readiness.canaryAgeMs),
      ...lagOf(each, set, lagWalEntries),
      ...trend(each, set, samples),
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

function trend({ name }: ClusterReading, { primaries: [primary] }: DrSet, samples: readonly WalSample[]) {
  return judged({
    id: 'lag-trend',
    cluster: name,
    source: 'temporal',
    needed: 'the lag does not grow',
    next: `${name} falls behind: look at the write load, the link, and logshipper buffers.`,
    judge: () => {
      if (primary === undefined) return unread('there is no primary to compare with');
      const found = lagTrend(samples, primary.name, name);
      if (found.trend === 'not-known')
        return answer('warn', 'not known', { reason: found.why, next: 'Let walSampler run on a schedule.' });
      return holds(found.trend !== 'growing', 'warn', `${found.trend}: ${found.why}`);
    },
  });
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
