import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { WalSample } from '../../src/contracts/wal-samples';
import { aliveByHeartbeat, lag, noReindex, soundTree, streams } from '../checks/replication';
import { lagTrend } from '../evidence/wal-sample-series';
import { severity } from './nodes';
import type { Question, Verdicts } from './point';
import { holds, judged, notCheckable, pointOf, pointOfView, questionOf, unread } from './point';
import type { ClusterView, SetView, World } from './world';

/** A switchover refuses; a failover starts, and loses what did not arrive. */
const COSTS_DATA: Verdicts = { switchover: 'fail', failover: 'warn' };

/** Streaming, life of the connection, canary, lag and its trend, trees. Pure. */
export function judgeReplication(world: World, samples: readonly WalSample[]): ReadinessPoint[] {
  const { heartbeatAgeMs } = world.deployment.limits;
  return world.sets.flatMap((set) => [
    ...set.secondaries.flatMap((view) => [
      ...pointOfView(view, 'streaming', streams(view.observation, 'dr'), COSTS_DATA),
      ...pointOfView(view, 'heartbeat', aliveByHeartbeat(view.observation, 'dr', heartbeatAgeMs), COSTS_DATA),
      ...canary(view, world),
      ...lagOf(view, set, world),
      ...trend(view, set, samples),
    ]),
    ...set.members.flatMap((view) => [
      ...tree(view),
      ...pointOfView(view, 'reindex', noReindex(view.observation, 'dr'), severity(view.part)),
    ]),
  ]);
}

function canary({ name, observation }: ClusterView, { deployment }: World): ReadinessPoint[] {
  const { canaryAgeMs } = deployment.readiness;
  const question: Question = {
    id: 'canary',
    cluster: name,
    source: 'api',
    needed: `the primary's canary at most ${canaryAgeMs / 1000} s old`,
    next: `Look at the link between ${name} and its primary: writes arrive late or not at all.`,
  };
  if (!observation.reachable) return unread(question, observation.error ?? 'no answer');
  const ages = (observation.dr?.peers ?? []).flatMap((peer) => peer.canaryAgeMs ?? []);
  if (ages.length === 0) return notCheckable(question, 'versions before 1.17 tell no canary');
  const youngest = Math.min(...ages);
  return holds(question, youngest <= canaryAgeMs, 'warn', `${(youngest / 1000).toFixed(1)} s old`);
}

function lagOf({ observation, drRoots }: ClusterView, { primaries }: SetView, { deployment }: World): ReadinessPoint[] {
  const [primary] = primaries;
  const sameRoot = drRoots.some((root) => primary?.drRoots.includes(root) === true);
  const limit = deployment.limits.lagWalEntries;
  const judged = lag('dr', primary?.observation ?? observation, observation, limit, sameRoot);
  if (!observation.reachable || primary === undefined || primaries.length > 1)
    return unread(questionOf('lag', judged), observation.error ?? 'there is no primary to compare with');
  return pointOf('lag', judged, COSTS_DATA);
}

function trend({ name }: ClusterView, { primaries }: SetView, samples: readonly WalSample[]): ReadinessPoint[] {
  const question: Question = {
    id: 'lag-trend',
    cluster: name,
    source: 'temporal',
    needed: 'the lag does not grow',
    next: `${name} falls behind: look at the write load, the link, and logshipper buffers.`,
  };
  const [primary] = primaries;
  if (primary === undefined) return unread(question, 'there is no primary to compare with');
  const found = lagTrend(samples, primary.name, name);
  if (found.trend === 'not-known')
    return judged(question, 'warn', 'not known', { reason: found.why, next: 'Let walSampler run on a schedule.' });
  return holds(question, found.trend !== 'growing', 'warn', `${found.trend}: ${found.why}`);
}

function tree(view: ClusterView): ReadinessPoint[] {
  const judged = soundTree(view.observation, 'dr');
  if (view.observation.reachable && view.observation.dr?.corruptedMerkleTree === undefined)
    return notCheckable(questionOf('merkle-tree', judged), 'the version does not tell it');
  return pointOfView(view, 'merkle-tree', judged, severity(view.part));
}
