import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { WalSample } from '../../src/contracts/wal-samples';
import type { Check } from '../../src/contracts/plan';
import { aliveByHeartbeat, lag, noReindex, soundTree, streams } from '../checks/replication';
import { lagTrend } from '../evidence/wal-sample-series';
import { describeFilter } from '../filters/paths-filters';
import { answer, holds, holdsAs, pointsOf, questionOf, readPoints, unknowable, unread } from './point';
import type { Answer, Verdicts } from './point';
import { severity } from './topology';
import type { ClusterReading, DrSet, ServiceContext, Topology } from './topology';

/** A switchover refuses; a failover starts, and loses what did not arrive. */
const COSTS_DATA: Verdicts = { switchover: 'fail', failover: 'warn' };

/** Streaming, life of the connection, canary, lag and its trend, trees. Pure. */
export function replicationPoints({ deployment, sets }: Topology, samples: readonly WalSample[]): ReadinessPoint[] {
  const { heartbeatAgeMs } = deployment.limits;
  return sets.flatMap((set) => [
    ...set.secondaries.flatMap((each) => [
      ...judgedBy('streaming', each, streams(each.observation, 'dr'), COSTS_DATA),
      ...judgedBy('heartbeat', each, aliveByHeartbeat(each.observation, 'dr', heartbeatAgeMs), COSTS_DATA),
      ...canary(each, deployment.readiness.canaryAgeMs),
      ...lagOf(each, set, deployment.limits.lagWalEntries),
      ...trend(each, set, samples),
    ]),
    ...set.members.flatMap((each) => [
      ...tree(each),
      ...judgedBy('reindex', each, noReindex(each.observation, 'dr'), severity(each.part)),
    ]),
  ]);
}

/** A check that plans make too, of a cluster that may not have been read. */
function judgedBy(id: string, { observation }: ClusterReading, check: Check, otherwise: Verdicts): ReadinessPoint[] {
  const { reachable, error = 'no answer' } = observation;
  return pointsOf(questionOf(id, check), reachable ? holdsAs(check, otherwise) : unread(error));
}

function canary({ name, observation }: ClusterReading, limitMs: number): ReadinessPoint[] {
  const judge = (): Answer => {
    if (!observation.reachable) return unread(observation.error ?? 'no answer');
    const ages = (observation.dr?.peers ?? []).flatMap((peer) => peer.canaryAgeMs ?? []);
    if (ages.length === 0) return unknowable('versions before 1.17 tell no canary');
    const youngest = Math.min(...ages);
    return holds(youngest <= limitMs, 'warn', `${(youngest / 1000).toFixed(1)} s old`);
  };
  const question = {
    id: 'canary',
    cluster: name,
    needed: `the primary's canary at most ${limitMs / 1000} s old`,
    next: `Look at the link between ${name} and its primary: writes arrive late or not at all.`,
  };
  return pointsOf(question, judge());
}

function lagOf({ observation, drRoots }: ClusterReading, { primaries }: DrSet, limit: number): ReadinessPoint[] {
  const [primary] = primaries;
  const sameRoot = drRoots.some((root) => primary?.drRoots.includes(root) === true);
  const judged = lag('dr', primary?.observation ?? observation, observation, limit, sameRoot);
  const comparable = observation.reachable && primaries.length === 1;
  const why = observation.error ?? 'there is no primary to compare with';
  return pointsOf(questionOf('lag', judged), comparable ? holdsAs(judged, COSTS_DATA) : unread(why));
}

function trend({ name }: ClusterReading, { primaries: [primary] }: DrSet, samples: readonly WalSample[]) {
  const judge = (): Answer => {
    if (primary === undefined) return unread('there is no primary to compare with');
    const found = lagTrend(samples, primary.name, name);
    if (found.trend === 'not-known')
      return answer('warn', 'not known', { reason: found.why, next: 'Let walSampler run on a schedule.' });
    return holds(found.trend !== 'growing', 'warn', `${found.trend}: ${found.why}`);
  };
  const next = `${name} falls behind: look at the write load, the link, and logshipper buffers.`;
  const question = {
    id: 'lag-trend',
    cluster: name,
    source: 'temporal',
    needed: 'the lag does not grow',
    next,
  } as const;
  return pointsOf(question, judge());
}

function tree(reading: ClusterReading): ReadinessPoint[] {
  const { observation, part } = reading;
  const judged = soundTree(observation, 'dr');
  if (observation.reachable && observation.dr?.corruptedMerkleTree === undefined)
    return pointsOf(questionOf('merkle-tree', judged), unknowable('the version does not tell it'));
  return judgedBy('merkle-tree', reading, judged, severity(part));
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
    return readPoints(
      execution.signal,
      question,
      async (signal) => {
        const token = await source.credential();
        const read = (id: string) => source.client.performance.primary.pathsFilter.read(id, { token, signal });
        return Promise.all(ids.map(read));
      },
      (found) => {
        const there = new Set(found.flatMap((each) => (each === undefined ? [] : [describeFilter(each)])));
        const [first = describeFilter('none'), ...others] = there;
        const observed = [first, ...others].join(' and ');
        if (others.length > 0) return answer('warn', observed, { reason: 'its two ids disagree' });
        return holds(first === needed, 'warn', observed, {
          reason: 'a change of roles takes the filter along as it is',
        });
      },
    );
  });
  return (await Promise.all(points)).flat();
}
