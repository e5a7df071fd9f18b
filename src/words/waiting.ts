import { commandsFor, shareCommands } from '../contracts/next-commands';
import type { NextCommand } from '../contracts/next-commands';
import type { Declined, Waiting } from '../contracts/run-status';
import { GROUPS_ARE_OURS } from '../contracts/share-groups';
import { attestedName, escapeUntrusted, keyShares } from '../contracts/words';

/** A line of text, with the command for it, or with what stands below it. Commands within the text stand in backticks. */
export interface Line {
  readonly text: string;
  readonly command?: string;
  readonly below?: readonly Line[];
}

/** One thing to say, in the same words everywhere: terminal, Web UI and notifications differ in how they show it. */
export interface Statement {
  readonly title: string;
  /** The rest of the sentence. */
  readonly text: string;
  readonly lines: readonly Line[];
}

/** How a time is written where it is shown. */
export type Time = (at: number) => string;

const named = (names: readonly string[], none = 'nobody') => names.join(', ') || none;

/** What a run waits for: what was observed, what is missing and of whom, and the exact command of each person. */
export function waitingText(workflowId: string, waiting: Waiting, time: Time): Statement {
  const commands = commandsFor(workflowId, waiting);
  switch (waiting.for) {
    case 'approval': {
      const { gate, missing, approved, until, again } = waiting;
      const untilWhen = until === undefined ? 'for as long as the outage lasts' : `until ${time(until)}`;
      const why = `. Asked for again: ${again}. What the run holds is kept; earlier approvers approve again`;
      return {
        title: `Waits for approval of gate ${gate}`,
        text: ` ${untilWhen}${again === undefined ? '' : why}`,
        lines: [
          { text: `Approved by ${named(approved.map(attestedName), 'nobody yet')}` },
          ...commands.map(({ command }) => ({ text: `Missing: ${missing.join('; ')}`, command })),
        ],
      };
    }
    case 'shares':
      return {
        title: `Waits for ${sharesStillNeeded(waiting)}`,
        text: ` until ${time(waiting.until)}. In hand: ${named(waiting.held, 'none')}. Not yet: ${named(waiting.missingHolders)}.`,
        lines: shareLines(workflowId, waiting, time),
      };
    case 'rehearsal':
      return {
        title: 'REHEARSAL: no key share is asked for.',
        text: ` Waits until ${time(waiting.until)}. Answered: ${named(waiting.answered)}. Not yet: ${named(waiting.missing)}.`,
        lines: [
          ...(waiting.declined ?? []).map(declinedLine),
          ...commands.map(({ who, command }) => ({ text: who, command })),
        ],
      };
    case 'decision':
      return parkedText(waiting, commands);
    case 'window':
      return {
        title: 'Approved; waits for its change window',
        text: `, which begins ${time(waiting.until)}.`,
        lines: [],
      };
    case 'action':
      return {
        title: `Waits until people have done this: ${waiting.what}`,
        text: '',
        lines: [
          ...waiting.instructions.map((text) => ({ text })),
          ...[...new Set(commands.map(({ command }) => command))].map((command) => ({
            text: commands.flatMap((each) => (each.command === command ? [each.who] : [])).join(', '),
            command,
          })),
        ],
      };
    case 'resume':
      return {
        title: 'PAUSED',
        text: ` by ${escapeUntrusted(waiting.by)}: ${escapeUntrusted(waiting.reason)}`,
        lines: commands.map(({ who, command }) => ({ text: who, command })),
      };
  }
}

function parkedText(parked: Extract<Waiting, { for: 'decision' }>, commands: readonly NextCommand[]): Statement {
  const { step, parkingNo, code, message, decidedOnce: once } = parked;
  const facts = (['observed', 'needed', 'next'] as const).flatMap((name) => {
    const text = parked[name];
    return text === undefined || text === '' ? [] : [{ text: `${name}: ${text}` }];
  });
  return {
    title: `PARKED at "${step}"`,
    text: ` (parking ${parkingNo}), ${code}: ${message}`,
    lines: [
      ...(once
        ? [{ text: `${attestedName(once.by)} decided ${once.action}: A SECOND, DIFFERENT PERSON IS NEEDED` }]
        : []),
      ...facts,
      ...parked.choices.map(({ action, effect }, index) => ({
        text: `${action}: ${effect}`,
        command: commands[index]?.command ?? '',
      })),
    ],
  };
}

function declinedLine({ by, reason }: Declined): Line {
  return { text: `declined: ${attestedName(by)}, ${escapeUntrusted(reason)}` };
}

type SharesWanted = Extract<Waiting, { for: 'shares' }>;

/** Who may still give a share, by what is known of them; what our own groups lack; who is not invited. */
function shareLines(workflowId: string, waiting: SharesWanted, time: Time): Line[] {
  const { asked, declined, standBy, decline } = shareCommands(workflowId, waiting);
  const from = waiting.standBy === undefined ? '' : time(waiting.standBy.askedFrom);
  return [
    ...people('Asked, not in hand yet', asked),
    ...people('Declined; may give all the same', declined),
    ...people(`Standing by, asked at ${from} or as soon as somebody declines; may give now`, standBy),
    ...decline.map(({ command }) => ({ text: 'Anyone who cannot give', command })),
    ...groupLines(waiting),
    ...(waiting.outOfTerm ?? []).map(({ name, why }) => ({ text: `Not invited: ${name}, ${why}` })),
  ];
}

function people(text: string, commands: readonly NextCommand[]): Line[] {
  if (commands.length === 0) return [];
  const below = commands.map(({ who, command, said }) => ({
    text: said === undefined ? who : `${who} (${said})`,
    command,
  }));
  return [{ text, below }];
}

/** What our own groups have and lack. */
function groupLines({ groups = [], groupsNotTogether }: SharesWanted): Line[] {
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

/** How many shares are still needed, and of whom where our groups want somebody else than the service. */
export function sharesStillNeeded({ threshold, held, groups = [], recovery }: SharesWanted): string {
  const shares = keyShares(recovery);
  const more = threshold - held.length;
  if (held.length === 0 || (more <= 0 && groups.length === 0)) return `${threshold} ${shares}`;
  if (more > 0) return `${more} more ${more === 1 ? shares.slice(0, -1) : shares} (of ${threshold})`;
  const lacking = groups.filter((group) => group.held.length < group.needed);
  const whose = lacking.map((group) => `${group.needed - group.held.length} of ${group.group}`).join(' and ');
  return `more ${shares} for the groups${whose === '' ? '' : `: ${whose}`}`;
}
