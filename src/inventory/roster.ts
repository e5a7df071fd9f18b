import type { ShareGroup } from '../contracts/share-groups';
import type { Deployment } from './types';

/** A term of office, both days included, in UTC. */
export interface Term {
  readonly name: string;
  /** Date (YYYY-MM-DD). */
  readonly from?: string | undefined;
  readonly until?: string | undefined;
}

/** Who can be asked for key shares at one time. */
export interface RosterAt {
  readonly holders: readonly string[];
  readonly standBy: readonly string[];
  readonly outOfTerm: readonly { readonly name: string; readonly why: string }[];
  /** With those members who are in term. */
  readonly groups: readonly ShareGroup[];
}

/** When the last day of a term ends, epoch ms; undefined where it has no end. */
export function endOfTerm({ until }: Pick<Term, 'until'>): number | undefined {
  return until === undefined ? undefined : Date.parse(`${until}T00:00:00.000Z`) + 24 * 3_600_000;
}

/** Why somebody is not in office at this time; undefined where he is. Pure. */
export function outOfTerm(term: Term | undefined, now: number): string | undefined {
  if (term?.from !== undefined && now < Date.parse(`${term.from}T00:00:00.000Z`)) return `in office from ${term.from}`;
  const end = term && endOfTerm(term);
  return end !== undefined && now >= end ? `in office until ${term?.until ?? ''}` : undefined;
}

/** The roster of a deployment's ceremonies: a holder out of term is not invited. Pure. */
export function rosterAt({ ceremony, shareGroups }: Deployment, now: number): RosterAt {
  const why = (name: string) =>
    outOfTerm(
      ceremony.terms.find((term) => term.name === name),
      now,
    );
  const inOffice = (names: readonly string[]) => names.filter((name) => why(name) === undefined);
  const all = [...ceremony.holders, ...ceremony.standBy];
  const present = inOffice(all);
  return {
    holders: inOffice(ceremony.holders),
    standBy: inOffice(ceremony.standBy),
    outOfTerm: all.flatMap((name) => {
      const reason = why(name);
      return reason === undefined ? [] : [{ name, why: reason }];
    }),
    groups: shareGroups.map((each) => ({ ...each, members: each.members.filter((name) => present.includes(name)) })),
  };
}
