import type { NextCommand } from './next-commands';
import { shareCommands } from './next-commands';
import type { Waiting } from './run-status';
import { GROUPS_ARE_OURS } from './share-groups';

type SharesWanted = Extract<Waiting, { for: 'shares' }>;

/** Those of the holders of whom the same is known, each with his command. */
export interface AskedHolders {
  readonly title: string;
  readonly commands: readonly NextCommand[];
}

/**
 * Who may still give a share, by what is known of them, and at the end the command for whoever cannot. The same words in
 * terminal and Web UI.
 *
 * @param time - how a time is written there
 */
export function askedHolders(workflowId: string, waiting: SharesWanted, time: (at: number) => string): AskedHolders[] {
  const { asked, declined, standBy, decline } = shareCommands(workflowId, waiting);
  const from = waiting.standBy === undefined ? '' : time(waiting.standBy.askedFrom);
  const groups: AskedHolders[] = [
    { title: 'Asked, not in hand yet', commands: asked },
    { title: 'Declined; may give all the same', commands: declined },
    { title: `Standing by: asked at ${from} or as soon as somebody declines; may give now`, commands: standBy },
    { title: 'Whoever cannot give says so', commands: decline },
  ];
  return groups.filter(({ commands }) => commands.length > 0);
}

/** What our own groups have and lack, and who is not invited; empty where there is nothing to say. */
export function shareGroupLines({ groups = [], groupsNotTogether, outOfTerm = [] }: SharesWanted): string[] {
  const lines = groups.map(({ group, needed, held, outOf }) => {
    const has = `${group}: ${held.length} of ${needed}${held.length === 0 ? '' : ` (${held.join(', ')})`}`;
    const lacks = needed - held.length;
    return lacks <= 0 ? `${has}, met` : `${has}, needs ${lacks} more of ${outOf.join(', ') || 'NOBODY who is left'}`;
  });
  const together = 'each group has enough, but no set of shares that makes a token satisfies all of them at once';
  return [
    ...(lines.length > 0 ? [`Groups (${GROUPS_ARE_OURS})`, ...lines] : []),
    ...(groupsNotTogether ? [together] : []),
    ...outOfTerm.map(({ name, why }) => `not invited: ${name}, ${why}`),
  ];
}

/** How many shares are still needed, and of whom where our groups want somebody else than the service. */
export function sharesStillNeeded({ threshold, held, groups = [] }: SharesWanted): string {
  const more = threshold - held.length;
  if (held.length === 0) return `${threshold} key shares`;
  if (more > 0) return `${more} more key share${more === 1 ? '' : 's'} (of ${threshold})`;
  const lacking = groups.filter((group) => group.held.length < group.needed);
  if (groups.length === 0) return `${threshold} key shares`;
  const whose = lacking.map((group) => `${group.needed - group.held.length} of ${group.group}`).join(' and ');
  return `more key shares for the groups${whose === '' ? '' : `: ${whose}`}`;
}
