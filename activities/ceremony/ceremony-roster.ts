import { GROUPS_ARE_OURS, canSatisfyGroups, groupRule, groupStates } from '../../src/contracts/share-groups';
import { RunbookError } from '../../src/errors';
import type { Deployment, RosterAt } from '../../src/inventory';
import { endOfTerm, rosterAt } from '../../src/inventory';

/**
 * Everybody who is in office, stand-by holders last: one invitation of the epoch names them all.
 *
 * @returns whom the invitation names, and what the workflow shows of them
 * @throws RunbookError PRECONDITION_FAILED where no set of as many shares as make a token could satisfy the groups
 */
export function invitedNow(deployment: Deployment, threshold: number) {
  const roster = rosterAt(deployment, Date.now());
  const { holders, standBy, outOfTerm, groups } = roster;
  const all = [...holders, ...standBy];
  if (all.length >= threshold && !canSatisfyGroups(groups, all, threshold)) {
    throw new RunbookError('PRECONDITION_FAILED', 'The groups of the ceremony cannot be satisfied by its holders.', {
      observed: `${threshold} key shares; ${observedGroups(roster)}`,
      needed: groupRule(groups),
      next: 'Put more people into the groups, prolong a term of office, or change ceremony.groups in the inventory.',
    });
  }
  return {
    facts: {
      holders: all,
      ...(standBy.length > 0 && { standBy }),
      ...(groups.length > 0 && { groups: groups.map(({ group, shares }) => ({ group, shares })) }),
    },
    handle: {
      ...(standBy.length > 0 && { standBy, inviteStandByAfterMs: deployment.ceremony.inviteStandByAfterMs }),
      ...(groups.length > 0 && { groups }),
      ...(outOfTerm.length > 0 && { outOfTerm }),
    },
  };
}

/** Who may give this run a token that people generated themselves, as the inventory of this worker says. */
export function providersNow(deployment: Deployment) {
  const { tokenProviders } = deployment.ceremony;
  const { holders, standBy, outOfTerm } = rosterAt(deployment, Date.now());
  const inTerm = tokenProviders?.filter((name) => !outOfTerm.some((each) => each.name === name));
  return { facts: { holders: inTerm ?? [...holders, ...standBy] }, handle: {} };
}

/**
 * Whether those in office can give a token that the service and the groups ask for. Pure.
 *
 * @param threshold - key shares that the service requires; undefined where it does not tell
 */
export function judgeRoster(deployment: Deployment, threshold: number | undefined, now = Date.now()) {
  const roster = rosterAt(deployment, now);
  const all = [...roster.holders, ...roster.standBy];
  const { groups, outOfTerm } = roster;
  const absent = outOfTerm.map(({ name, why }) => `; ${name} ${why}`).join('');
  const aside = roster.standBy.length === 0 ? '' : `, ${roster.standBy.length} of them standing by`;
  const rule = groups.length === 0 ? '' : `, of them ${groupRule(groups)} (groups are our policy)`;
  return {
    good: threshold === undefined || (all.length >= threshold && canSatisfyGroups(groups, all, threshold)),
    observed: `${all.length} holders${aside}${groups.length === 0 ? '' : `; ${observedGroups(roster)}`}${absent}`,
    needed: `at least ${threshold ?? 'the threshold'}${rule}`,
    next: 'List more holders in the inventory.',
  };
}

function observedGroups({ groups }: Pick<RosterAt, 'groups'>): string {
  return groups.map(({ group, members }) => `${group}: ${members.join(', ') || 'nobody'}`).join('; ');
}

/**
 * Whether these shares may make a token at all: groups are read from the inventory of this worker, never from an input,
 * right before the shares are used.
 *
 * @throws RunbookError SHARES_MISSING where no set of `threshold` of them satisfies the groups
 */
export function requireGroups(
  { shareGroups: groups }: Deployment,
  holders: readonly string[],
  threshold: number,
  cluster: string,
): void {
  if (canSatisfyGroups(groups, holders, threshold)) return;
  const lacking = groupStates(groups, holders, []).filter(({ held, needed }) => held.length < needed);
  const missing = lacking.map(({ group, needed, held }) => {
    const members = groups.find((each) => each.group === group)?.members ?? [];
    const others = members.filter((name) => !held.includes(name));
    return `${needed - held.length} more of ${group} (${others.join(', ') || 'nobody is left'})`;
  });
  throw new RunbookError('SHARES_MISSING', 'The key shares in hand do not satisfy the groups of the inventory.', {
    cluster,
    observed: `shares of ${holders.join(', ')}`,
    needed: `${threshold} shares, of them ${groupRule(groups)} (${GROUPS_ARE_OURS})`,
    next:
      missing.length > 0
        ? `Still needed: ${missing.join('; ')}. They give their shares (\`runbook share\`), then an operator decides retry.`
        : `No ${threshold} of them satisfy all groups together: a holder who is in several groups gives his share, then an operator decides retry.`,
  });
}

/** Holders and stand-by holders whose term has not ended: who comes into office rehearses before. Pure. */
export function rehearsingPeople({ ceremony }: Deployment, now: number) {
  const ended = (name: string) => {
    const term = ceremony.terms.find((each) => each.name === name);
    const end = term && endOfTerm(term);
    return end !== undefined && now >= end;
  };
  return [
    ...ceremony.holders.map((name) => ({ name, standBy: false })),
    ...ceremony.standBy.map((name) => ({ name, standBy: true })),
  ].filter(({ name }) => !ended(name));
}

/**
 * Who is asked to a rehearsal: those who are named, or everybody on the roster. Pure.
 *
 * @throws RunbookError INVALID_INPUT where somebody is named who is not on the roster, or nobody is on it
 */
export function rosterOfRehearsal(
  deployment: Deployment,
  named: readonly string[] | undefined,
  now: number,
): ReturnType<typeof rehearsingPeople> {
  const people = rehearsingPeople(deployment, now);
  const strangers = [...new Set(named ?? [])].filter((name) => people.every((each) => each.name !== name));
  if (strangers.length > 0) {
    throw new RunbookError('INVALID_INPUT', `Not on the roster of ${deployment.name}: ${strangers.join(', ')}.`, {
      observed: strangers.join(', '),
      needed: people.map(({ name }) => name).join(', ') || 'somebody on the roster',
      next: 'Name holders or stand-by holders of the inventory whose term has not ended; or leave "holders" out.',
    });
  }
  if (people.length === 0) {
    throw new RunbookError('INVALID_INPUT', `Nobody is on the roster of ${deployment.name} now.`, {
      needed: 'holders in the ceremony section of the inventory, whose term has not ended',
      next: 'Put the roster of the inventory in order.',
    });
  }
  return named === undefined ? people : people.filter(({ name }) => named.includes(name));
}
