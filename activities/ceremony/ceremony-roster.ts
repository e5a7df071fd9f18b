import { RunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { rosterOf } from '../../src/inventory';

/** Everybody who has joined, stand-by holders last: one invitation of the epoch names them all. */
export function invitedNow(deployment: Deployment) {
  const { holders, standBy } = rosterOf(deployment);
  const { notJoined, ceremony } = deployment;
  return {
    /** Whom the invitation names. */
    facts: { holders: [...holders, ...standBy], ...(standBy.length > 0 && { standBy }) },
    /** What the workflow shows of them. */
    handle: {
      ...(standBy.length > 0 && { standBy, inviteStandByAfterMs: ceremony.inviteStandByAfterMs }),
      ...(notJoined.length > 0 && { notJoined }),
    },
  };
}

/** Who may give this run a token that people generated themselves, as the inventory of this worker says. */
export function providersNow(deployment: Deployment) {
  const { holders, standBy } = rosterOf(deployment);
  const { tokenProviders = [...holders, ...standBy] } = deployment.ceremony;
  return { facts: { holders: tokenProviders.filter((name) => !deployment.notJoined.includes(name)) }, handle: {} };
}

/**
 * Whether those who have joined can give a token. Pure.
 *
 * @param threshold - key shares that the service requires; undefined where it does not tell
 */
export function judgeRoster(deployment: Deployment, threshold: number | undefined) {
  const { holders, standBy } = rosterOf(deployment);
  const names = [...holders, ...standBy];
  const aside = standBy.length === 0 ? '' : `, ${standBy.length} of them standing by`;
  const absent = deployment.notJoined.map((name) => `; ${name} has not joined`).join('');
  return {
    names,
    good: threshold === undefined || names.length >= threshold,
    observed: `${names.length} holders${aside}${absent}`,
    needed: `at least ${threshold ?? 'the threshold'}`,
    next: 'List more holders in the inventory.',
  };
}

/**
 * Who is asked to a rehearsal: those who are named, or everybody on the list. Pure.
 *
 * @throws RunbookError INVALID_INPUT where somebody is named who is not on it
 */
export function rosterOfRehearsal({ name, ceremony }: Deployment, named?: readonly string[]) {
  const people = [
    ...ceremony.holders.map((holder) => ({ name: holder, standBy: false })),
    ...ceremony.standBy.map((holder) => ({ name: holder, standBy: true })),
  ];
  const strangers = [...new Set(named ?? [])].filter((each) => people.every((person) => person.name !== each));
  if (strangers.length > 0)
    throw new RunbookError('INVALID_INPUT', `Not on the roster of ${name}: ${strangers.join(', ')}.`, {
      observed: strangers.join(', '),
      needed: people.map((person) => person.name).join(', '),
      next: 'Name holders or stand-by holders of the inventory; or leave "holders" out.',
    });
  return named === undefined ? people : people.filter((person) => named.includes(person.name));
}
