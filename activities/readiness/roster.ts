import type { ReadinessPoint } from '../../src/contracts/readiness';
import { canSatisfyGroups, groupRule } from '../../src/contracts/share-groups';
import type { Deployment, RosterAt } from '../../src/inventory';
import { endOfTerm, rosterAt } from '../../src/inventory';
import { holds, judged, unread } from './point';
import type { Question } from './point';
import type { SetView, World } from './world';

/** Whether those in office suffice for the threshold and the groups, and whose term ends soon. Pure. */
export function judgeRosters({ deployment, sets }: World, now: number): ReadinessPoint[] {
  return sets.flatMap((set) => {
    const thresholds = set.secondaries.flatMap(({ observation }) => observation.attempt?.required ?? []);
    const needed = thresholds.length === 0 ? undefined : Math.max(...thresholds);
    return [...holders(deployment, set, needed, now), ...terms(deployment, set, needed, now)];
  });
}

function holders(
  deployment: Deployment,
  { name: set }: SetView,
  needed: number | undefined,
  now: number,
): ReadinessPoint[] {
  const roster = rosterAt(deployment, now);
  const names = everybody(roster);
  const { groups, standBy, outOfTerm } = roster;
  const question: Question = {
    id: `holders.${set}`,
    source: 'attested',
    needed:
      groups.length === 0
        ? 'as many holders as the service requires key shares, and one more'
        : `as many holders as the service requires key shares, among them ${groupRule(groups)} (our policy), and one more for each`,
    next:
      groups.length === 0
        ? 'List more holders in the inventory.'
        : 'List more holders in the inventory, or put more of them into the groups.',
  };
  if (deployment.ceremony.tokenSource === 'batch')
    return judged(question, 'ok', `${names.length} listed, none needed: the token source is batch`);
  if (needed === undefined) return unread(question, 'no DR secondary tells its threshold');
  const aside = standBy.length === 0 ? '' : ` (${standBy.length} standing by)`;
  const absent = outOfTerm.map(({ name, why }) => `; not counted: ${name}, ${why}`).join('');
  const observed = `${names.length} listed${aside}, ${needed} needed${absent}`;
  if (names.length < needed) return judged(question, 'fail', observed);
  if (!canSatisfyGroups(groups, names, needed)) {
    const members = groups.map(({ group, members: all }) => `${group}: ${all.join(', ') || 'nobody'}`).join('; ');
    const reason = `no ${needed} of them satisfy the groups`;
    return judged(question, 'fail', `${observed}; ${members}`, { reason });
  }
  if (names.length === needed)
    return judged(question, 'warn', observed, { reason: 'all of them must be there, at any hour' });
  const alone = names.filter((name) => !canSatisfyGroups(groups, without(names, name), needed));
  return holds(question, alone.length === 0, 'warn', observed, {
    reason: `the groups cannot be satisfied without ${alone.join(', nor without ')}`,
  });
}

function terms(
  deployment: Deployment,
  { name: set }: SetView,
  needed: number | undefined,
  now: number,
): ReadinessPoint[] {
  const { ceremony, readiness } = deployment;
  const inOffice = everybody(rosterAt(deployment, now));
  const within = now + readiness.termWarningMs;
  const ending = ceremony.terms.filter((term) => {
    const end = endOfTerm(term);
    return end !== undefined && end > now && end <= within && inOffice.includes(term.name);
  });
  // A site without terms is not told of them.
  if (ceremony.terms.length === 0) return [];
  const question: Question = {
    id: `terms.${set}`,
    source: 'attested',
    needed: `terms of office that last longer than ${Math.round(readiness.termWarningMs / 86_400_000)} days`,
    next: 'Elect who comes next and list him in the inventory, or prolong the term there.',
  };
  if (ending.length === 0) return judged(question, 'ok', `${inOffice.length} in office, no term ends soon`);
  const then = rosterAt(deployment, within);
  const left = everybody(then);
  const tooSmall = needed !== undefined && !canSatisfyGroups(then.groups, left, needed);
  const observed = `${ending.map(({ name, until }) => `${name} until ${until ?? ''}`).join(', ')}; then ${left.length} in office`;
  const rule = then.groups.length === 0 ? '' : ` and ${groupRule(then.groups)}`;
  return judged(question, 'warn', observed, {
    ...(tooSmall && { reason: `the roster would be too small: ${needed} key shares${rule} are needed` }),
  });
}

function everybody({ holders: asked, standBy }: RosterAt): string[] {
  return [...asked, ...standBy];
}

function without(names: readonly string[], name: string): string[] {
  return names.filter((each) => each !== name);
}
