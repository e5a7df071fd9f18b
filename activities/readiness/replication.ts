import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { WalSample } from '../../src/contracts/wal-samples';
import { describeReplication, heartbeatAge, isAlive } from '../observe';
import { lagTrend } from '../evidence/wal-sample-series';
import { severity } from './nodes';
import type { Question, Verdicts } from './point';
import { holds, judged, notCheckable, unread } from './point';
import type { ClusterView, SetView, World } from './world';

/** A switchover refuses; a failover starts, and loses what did not arrive. */
const COSTS_DATA: Verdicts = { switchover: 'fail', failover: 'warn' };

/** Streaming, life of the connection, canary, lag and its trend, trees. Pure. */
export function judgeReplication(world: World, samples: readonly WalSample[]): ReadinessPoint[] {
  return world.sets.flatMap((set) => [
    ...set.secondaries.flatMap((view) => [
      ...streaming(view),
      ...alive(view, world),
      ...canary(view, world),
      ...lag(view, set, world),
      ...trend(view, set, samples),
    ]),
    ...set.members.flatMap((view) => [...tree(view), ...reindex(view)]),
  ]);
}

function streaming({ name, observation }: ClusterView): ReadinessPoint[] {
  const question: Question = {
    id: 'streaming',
    cluster: name,
    source: 'api',
    needed: 'DR secondary in state stream-wals',
    next: `Wait until ${name} streams; run merkleCheck where it never gets there.`,
  };
  if (!observation.reachable) return unread(question, observation.error ?? 'no answer');
  const { dr } = observation;
  const good = dr?.mode === 'secondary' && dr.state === 'stream-wals';
  return holds(question, good, COSTS_DATA, describeReplication(dr));
}

/** `stream-wals` is still told with a dead primary: only heartbeats prove life. */
function alive({ name, observation }: ClusterView, { deployment }: World): ReadinessPoint[] {
  const { heartbeatAgeMs } = deployment.limits;
  const question: Question = {
    id: 'heartbeat',
    cluster: name,
    source: 'api',
    needed: `connected, heartbeat at most ${heartbeatAgeMs / 1000} s old`,
    next: `Find out why ${name} hears nothing from its primary (cluster port, certificates, load balancer).`,
  };
  if (!observation.reachable) return unread(question, observation.error ?? 'no answer');
  const { dr } = observation;
  const age = heartbeatAge(dr);
  const connected = dr?.peers.some((peer) => peer.connected) === true;
  const told = age === undefined ? 'not told' : `${(age / 1000).toFixed(1)} s old`;
  const observed =
    dr === undefined || dr.peers.length === 0
      ? 'no peer told'
      : `${connected ? 'connected' : 'disconnected'}, heartbeat ${told}`;
  return holds(question, isAlive(dr, heartbeatAgeMs), COSTS_DATA, observed);
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

function lag({ name, observation, drRoots }: ClusterView, { primaries }: SetView, { deployment }: World) {
  const limit = deployment.limits.lagWalEntries;
  const question: Question = {
    id: 'lag',
    cluster: name,
    source: 'api',
    needed: `at most ${limit} WAL entries`,
    next: `Wait until ${name} has caught up; where it never does, look at the write load and the link.`,
  };
  const [primary] = primaries;
  if (!observation.reachable || primary === undefined || primaries.length > 1)
    return unread(question, observation.error ?? 'there is no primary to compare with');
  const [sent, received] = [primary.observation.dr?.lastWal, observation.dr?.lastRemoteWal];
  const sameRoot = drRoots.some((root) => primary.drRoots.includes(root));
  if (sent === undefined || received === undefined || received === '0') {
    const observed = `last WAL ${sent ?? 'not told'}, last remote WAL ${received ?? 'not told'}`;
    if (sameRoot)
      return judged(question, 'ok', `${observed}; equal Merkle roots: nothing is missing, nothing streamed yet`);
    return judged(question, COSTS_DATA, `${observed}; Merkle roots differ`, {
      reason: 'an index of 0 is not lag, it says that nothing was streamed yet; but the trees differ too',
      next: `Write something on ${primary.name}, then check again.`,
    });
  }
  const entries = BigInt(sent) - BigInt(received);
  const shown = entries < 0n ? 0n : entries;
  return holds(question, entries <= BigInt(limit), COSTS_DATA, `${shown} WAL entries`);
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

function tree({ name, part, observation }: ClusterView): ReadinessPoint[] {
  const question: Question = {
    id: 'merkle-tree',
    cluster: name,
    source: 'api',
    needed: 'not told to be corrupted',
    next: `Run merkleCheck on a DR secondary, then drReindex; never the primary first.`,
  };
  if (!observation.reachable) return unread(question, observation.error ?? 'no answer');
  const { corruptedMerkleTree } = observation.dr ?? {};
  if (corruptedMerkleTree === undefined) return notCheckable(question, 'the version does not tell it');
  return holds(question, !corruptedMerkleTree, severity(part), corruptedMerkleTree ? 'corrupted' : 'not corrupted');
}

function reindex({ name, part, observation }: ClusterView): ReadinessPoint[] {
  const question: Question = {
    id: 'reindex',
    cluster: name,
    source: 'api',
    needed: 'no reindex under way',
    next: `Wait until the reindex of ${name} has ended; never stop a node meanwhile.`,
  };
  if (!observation.reachable) return unread(question, observation.error ?? 'no answer');
  const running = observation.dr?.reindexInProgress === true;
  return holds(question, !running, severity(part), running ? 'in progress' : 'none');
}
