import { shareCommands } from './next-commands';
import type { NextCommand } from './next-commands';
import type { Waiting } from './run-status';
import { GROUPS_ARE_OURS } from './share-groups';
import { said } from './words';

type SharesWanted = Extract<Waiting, { for: 'shares' }>;

/** One thing to say of who is asked for key shares, with the command for it, or with what stands below it. */
export interface ShareLine {
  readonly text: string;
  readonly command?: string;
  readonly below?: readonly ShareLine[];
}

/**
 * Who may still give a share, by what is known of them and each with the exact command; what our own groups lack; who is
 * not invited. The same words in terminal and Web UI.
 *
 * @param time - how a time is written there
 */
export function shareLines(workflowId: string, waiting: SharesWanted, time: (at: number) => string): ShareLine[] {
  const { asked, declined, standBy, decline } = shareCommands(workflowId, waiting);
  const from = waiting.standBy === undefined ? '' : time(waiting.standBy.askedFrom);
  return [
    ...people('Asked, not in hand yet', asked),
    ...people('Declined; may give all the same', declined),
    ...people(`Standing by, asked at ${from} or as soon as somebody declines; may give now`, standBy),
    ...decline.map(({ command }) => ({ text: 'Whoever cannot give', command })),
    ...groupLines(waiting),
    ...(waiting.outOfTerm ?? []).map(({ name, why }) => ({ text: `Not invited: ${name}, ${why}` })),
  ];
}

function people(text: string, commands: readonly NextCommand[]): ShareLine[] {
  if (commands.length === 0) return [];
  const below = commands.map(({ who, command, said }) => ({
    text: said === undefined ? who : `${who} (${said})`,
    command,
  }));
  return [{ text, below }];
}

/** What our own groups have and lack. */
function groupLines({ groups = [], groupsNotTogether }: SharesWanted): ShareLine[] {
  if (groups.length === 0) return [];
  const states = groups.map(({ group, needed, held, outOf }) => {
    const has = `${group}: ${held.length} of ${needed}${held.length === 0 ? '' : ` (${held.join(', ')})`}`;
    const lacks = needed - held.length;
    return lacks <= 0 ? `${has}, met` : `${has}, needs ${lacks} more of ${outOf.join(', ') || 'NOBODY who is left'}`;
  });
  const together = 'each group has enough, but no set of shares that makes a token satisfies all of them at once';
  const below = [...states, ...(groupsNotTogether ? [together] : [])].map((text) => ({ text }));
  return [{ text: `Groups (${GROUPS_ARE_OURS})`, below }];
}

/** All lines one after the other, without commands: for messages, which list the commands themselves. */
export function shareFacts(waiting: SharesWanted): string[] {
  const { standBy, declined = [], outOfTerm = [] } = waiting;
  return [
    ...declined.map(
      ({ by, reason }) => `Declined: ${said(by.name)}${by.how === 'claimed' ? ' (UNVERIFIED)' : ''}, ${said(reason)}`,
    ),
    ...(standBy
      ? [`Standing by, asked from ${new Date(standBy.askedFrom).toISOString()}: ${standBy.holders.join(', ')}`]
      : []),
    ...groupLines(waiting).flatMap(({ text, below = [] }) => [text, ...below.map((line) => line.text)]),
    ...outOfTerm.map(({ name, why }) => `Not invited: ${name}, ${why}`),
  ];
}

/** How many shares are still needed, and of whom where our groups want somebody else than the service. */
export function sharesStillNeeded({ threshold, held, groups = [] }: SharesWanted): string {
  const more = threshold - held.length;
  if (held.length === 0 || (more <= 0 && groups.length === 0)) return `${threshold} key shares`;
  if (more > 0) return `${more} more key share${more === 1 ? '' : 's'} (of ${threshold})`;
  const lacking = groups.filter((group) => group.held.length < group.needed);
  const whose = lacking.map((group) => `${group.needed - group.held.length} of ${group.group}`).join(' and ');
  return `more key shares for the groups${whose === '' ? '' : `: ${whose}`}`;
}
