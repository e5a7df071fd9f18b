import type { ReadinessPoint } from '../../src/contracts/readiness';
import { describeReplication } from '../observe';
import { severity } from './nodes';
import { holds, judged, unread } from './point';
import type { Question } from './point';
import type { ClusterView, SetView, World } from './world';

/** Roles consistent, exactly one DR primary in each set and one performance primary. Pure. */
export function judgeRoles(world: World): ReadinessPoint[] {
  return [
    ...somewhereToSwitch(world),
    ...world.sets.flatMap((set) => [...oneDrPrimary(set), ...set.members.flatMap((view) => role(view, set))]),
    ...onePerformancePrimary(world),
    ...performanceRoles(world),
  ];
}

function somewhereToSwitch({ sets, deployment }: World): ReadinessPoint[] {
  const question: Question = {
    id: 'dr-sets',
    source: 'attested',
    needed: 'at least one DR set of two clusters in the inventory',
    next: 'Onboard a DR secondary: runbook drSecondaryOnboarding.',
  };
  const sizes = [...deployment.drSets].map(([name, members]) => `${name}: ${members.join(', ')}`);
  return holds(question, sets.length > 0, 'fail', sizes.join('; '));
}

function oneDrPrimary({ name, members, primaries }: SetView): ReadinessPoint[] {
  const question: Question = {
    id: `one-dr-primary.${name}`,
    source: 'api',
    needed: `exactly one DR primary in set ${name}`,
    next:
      primaries.length > 1
        ? 'Find out which one clients write to; fence and demote the other before anything else.'
        : 'Where the primary is gone this is a failover; where it answers, look at its role.',
  };
  const silent = members.filter(({ observation }) => !observation.reachable).map((each) => each.name);
  const observed = `${primaries.map((each) => each.name).join(', ') || 'none'}${silent.length === 0 ? '' : `; not readable: ${silent.join(', ')}`}`;
  if (primaries.length > 1) return judged(question, 'fail', observed, { reason: 'a split: both take writes' });
  if (primaries.length === 1) return judged(question, 'ok', observed);
  const [first] = silent;
  return first === undefined
    ? judged(question, { switchover: 'fail', failover: 'fail' }, observed, { reason: 'no member is primary' })
    : judged(question, { switchover: 'fail', failover: 'ok' }, observed, { reason: 'the primary may be gone' });
}

function role({ name, part, observation, healths }: ClusterView, { primaries }: SetView): ReadinessPoint[] {
  const question: Question = {
    id: 'role',
    cluster: name,
    source: 'api',
    needed: 'DR primary or DR secondary of the set, and every node says the same',
    next: `Look at the DR status of ${name}; attach it again where it left the set.`,
  };
  if (!observation.reachable) return unread(question, observation.error ?? 'no answer');
  const { dr } = observation;
  const [primary] = primaries;
  const known = dr?.mode === 'primary' || dr?.mode === 'secondary';
  const sameSet = primary === undefined || (dr?.setId !== undefined && dr.setId === primary.observation.dr?.setId);
  if (!known || !sameSet) {
    return judged(question, severity(part), describeReplication(dr), {
      reason: known ? `it is of set ${dr?.setId ?? 'none'}, not of the primary's` : undefined,
    });
  }
  // Nodes that just started tell no mode, or an old one.
  const others = healths.filter(
    ({ health }) => health.replicationDrMode !== undefined && health.replicationDrMode !== dr.mode,
  );
  return holds(
    question,
    others.length === 0,
    'warn',
    `${dr.mode}${others.map(({ address, health }) => `; ${address} says ${health.replicationDrMode}`).join('')}`,
    { next: `Wait until every node of ${name} tells the same role.` },
  );
}

function onePerformancePrimary({ clusters }: World): ReadinessPoint[] {
  const primaries = clusters.filter(({ observation }) => observation.performance?.mode === 'primary');
  const secondaries = clusters.filter(({ observation }) => observation.performance?.mode === 'secondary');
  if (primaries.length === 0 && secondaries.length === 0) return [];
  const question: Question = {
    id: 'one-performance-primary',
    source: 'api',
    needed: 'exactly one performance primary that can be read',
    next: 'Find out which one the secondaries follow, and demote the other.',
  };
  const observed = primaries.map((each) => each.name).join(', ') || 'none';
  if (primaries.length > 1) return judged(question, 'fail', observed);
  const unreadable = clusters.some(({ observation }) => !observation.reachable);
  return holds(
    question,
    primaries.length === 1,
    { switchover: 'fail', failover: unreadable ? 'ok' : 'warn' },
    observed,
  );
}

function performanceRoles({ clusters }: World): ReadinessPoint[] {
  const primary = clusters.find(({ observation }) => observation.performance?.mode === 'primary');
  const setId = primary?.observation.performance?.setId;
  return clusters
    .filter(({ observation }) => observation.performance?.mode === 'secondary')
    .flatMap(({ name, observation: { performance } }) => {
      const question: Question = {
        id: 'performance-secondary',
        cluster: name,
        source: 'api',
        needed: 'streams from the performance primary of the deployment',
        next: `Look at ${name}; a switchover sees that it follows, and re-points it where it does not.`,
      };
      const good = performance?.state === 'stream-wals' && (setId === undefined || performance.setId === setId);
      return holds(question, good, 'warn', describeReplication(performance));
    });
}
