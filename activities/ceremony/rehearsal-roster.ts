import { RunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { endOfTerm } from '../../src/inventory';

/** Somebody on the roster of a deployment's ceremonies. */
interface OnRoster {
  readonly name: string;
  readonly standBy: boolean;
}

/** Holders and stand-by holders whose term has not ended: who comes into office rehearses before. Pure. */
export function rehearsingPeople({ ceremony }: Deployment, now: number): OnRoster[] {
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
): readonly OnRoster[] {
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
