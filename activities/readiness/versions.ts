import type { ReadinessPoint } from '../../src/contracts/readiness';
import { knownBugs } from '../checks/versions';
import type { Concern } from '../checks/versions';
import { noneOlder, versionsOf, versionsText } from '../checks/versions';
import type { Question } from './point';
import { holds, judged, unread } from './point';
import type { ClusterView, SetView, World } from './world';

/** What a switchover and a failover do, as the table of defects names it. */
const CONCERNS: readonly Concern[] = ['update-primary by token', 'merkle trees', 'operation tokens', 'role changes'];

/** Versions of every node, their order along each replication, and known defects. Pure. */
export function judgeVersions({ clusters, sets }: World): ReadinessPoint[] {
  return [
    ...clusters.flatMap((view) => [...oneVersion(view), ...defects(view)]),
    ...sets.flatMap((set) => set.secondaries.flatMap((view) => order(view, set))),
  ];
}

function oneVersion({ name, part, observation }: ClusterView): ReadinessPoint[] {
  const question: Question = {
    id: 'versions-alike',
    cluster: name,
    source: 'api',
    needed: 'one version on all nodes',
    next: `Finish the upgrade of ${name} first.`,
  };
  const versions = versionsOf(observation);
  if (versions.length === 0) return unread(question, 'no node tells a version');
  const otherwise = part === 'other' ? 'warn' : ({ switchover: 'fail', failover: 'warn' } as const);
  return holds(question, versions.length === 1, otherwise, versions.join(', '));
}

function order({ name, observation }: ClusterView, { primaries: [primary] }: SetView): ReadinessPoint[] {
  const question: Question = {
    id: 'versions-order',
    cluster: name,
    source: 'api',
    needed: 'the version of its primary, or a newer one',
  };
  const above = primary?.observation;
  const observed = above ? versionsText(observation, above) : 'there is no primary to compare with';
  if (!above || [observation, above].some((each) => versionsOf(each).length === 0)) return unread(question, observed);
  const { verdict, next } = noneOlder(above, observation);
  if (verdict === 'fail')
    return judged(question, 'fail', observed, { reason: 'replicating from newer to older is not safe', next });
  if (noneOlder(observation, above).verdict === 'ok') return judged(question, 'ok', observed);
  return judged(question, 'warn', observed, {
    reason: 'the former primary cannot follow an upgraded one',
    next: `Start with {"acknowledgeNewerSecondary": true}, or upgrade ${above.cluster} soon: it stays out until then.`,
  });
}

function defects(view: ClusterView): ReadinessPoint[] {
  const question: Question = {
    id: 'known-bugs',
    cluster: view.name,
    source: 'api',
    needed: 'no known defect that concerns changes of roles',
  };
  const versions = versionsOf(view.observation);
  if (versions.length === 0) return unread(question, 'no node tells a version');
  const { dr, performance } = view.observation;
  const takesPart = { dr: replicates(dr?.mode), performance: replicates(performance?.mode) };
  const found = versions.flatMap((version) =>
    knownBugs(version)
      .filter(({ concerns }) => concerns.some((each) => CONCERNS.includes(each)))
      .filter(({ kind }) => kind === undefined || takesPart[kind])
      .map((bug) => ({ version, ...bug })),
  );
  const unique = [...new Map(found.map((bug) => [bug.id, bug])).values()];
  return holds(
    question,
    unique.length === 0,
    'warn',
    unique.length === 0
      ? `${versions.join(', ')}: none of the known ones`
      : unique.map(({ version, id, text }) => `${version}: ${id}. ${text}`).join(' '),
    { next: `Upgrade to ${[...new Set(unique.flatMap(({ fixedIn }) => fixedIn))].join(' or ')}, or later.` },
  );
}

function replicates(mode: string | undefined): boolean {
  return mode === 'primary' || mode === 'secondary';
}
