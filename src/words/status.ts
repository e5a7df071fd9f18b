import { askedNow, commandsFor } from '../contracts/next-commands';
import type { Waiting, CarryingOut, RunStatus, TimelineStep, NextCommand } from '../contracts/run-status';
import { attestedName, escapeUntrusted, keyShares } from '../contracts/words';
import type { Finding, Receipt } from '../contracts/run-facts';
import { CHECK_FAILED, urgentFindings } from '../contracts/run-status';

/* A run's status as text, in one place. Current details, command line and notifications show it, each in its own form. */

const PHASE_WORDS: Readonly<Record<RunStatus['phase'], string>> = {
  checking: 'Reading and checking; nothing is changed',
  'waiting-for-people': 'Waiting for people; service is up',
  preparing: 'Last checks; service is up',
  working: 'Changes are being made; service is up',
  outage: 'OUTAGE: no primary serves clients',
  're-protecting': 'Protection is being restored',
  finishing: 'Cleaning up',
  finished: 'Finished',
};

/** Whether no cluster serves clients, as far as the run knows. */
export function inOutage(status: RunStatus): status is RunStatus & { readonly outageSince: number } {
  return status.outageSince !== undefined && status.serviceBackAt === undefined;
}

/** What the run is doing. Never claims that service is up while it is not, or for a runbook that reads no cluster. */
export function phaseText(status: RunStatus): string {
  const { phase, runbook, outcome } = status;
  if (phase === 'finished' && outcome !== undefined) return `Finished, ${outcome}`;
  const unknown = inOutage(status) || runbook === 'ceremonyRehearsal';
  return unknown ? PHASE_WORDS[phase].replace('; service is up', '') : PHASE_WORDS[phase];
}

/**
 * What people must know first, in this order: alarms and other critical findings, that the run is paused, the outage, parked
 * steps, what key holders are asked for, whom else the run waits for, what is left to do, other findings.
 */
export function statusText(status: RunStatus, time: Time): readonly Statement[] {
  const urgent = urgentFindings(status);
  const asked = askedNow(status).map((text) => ({ text }));
  const waits = (parked: boolean) =>
    status.waiting
      .filter((each) => (each.for === 'decision') === parked)
      .map((each) => waitingText(status.workflowId, each, time));
  const bySeverity = (['critical', 'warning', 'info'] as const).flatMap((severity) =>
    status.findings.filter((finding) => finding.severity === severity && !urgent.includes(finding)),
  );
  return [
    ...urgent.map(findingText),
    ...(status.paused ? [statement('Paused.')] : []),
    ...(inOutage(status)
      ? [statement('OUTAGE', ` since ${time(status.outageSince)}: no primary serves clients.`)]
      : []),
    ...waits(true),
    ...(status.carryingOut ?? []).map((each) => carryingOutText(each, time)),
    ...(asked.length > 0 ? [{ ...statement('What key holders are asked for'), lines: asked }] : []),
    ...waits(false),
    ...(status.leftToDo ?? []).map((left) => statement('Left to do', `: ${left}`)),
    ...bySeverity.map(findingText),
  ];
}

/** A decision that is being carried out. Nobody is waited for any more. */
export function carryingOutText({ step, action, by, at }: CarryingOut, time: Time): Statement {
  const who = `${attestedName(by)}, at ${time(at)}`;
  return statement(`"${action}" of "${step}" is being carried out`, `: accepted, decided by ${who}.`);
}

const statement = (title: string, text = ''): Statement => ({ title, text, lines: [] });

/** Something that people must know, and what they do next. */
export function findingText({ severity, code, text, next }: Finding): Statement {
  const sentence = /[.!?]$/.test(text) ? text : `${text}.`;
  const failed = code === CHECK_FAILED ? 'FAILED' : 'Warning';
  const title = severity === 'critical' ? 'CRITICAL' : severity === 'warning' ? failed : 'Note';
  return statement(title, `: ${sentence}${next === undefined ? '' : ` Next: ${next}`}`);
}

/** What became of a signal. */
export function receiptText({ signal, arrival, verdict, code, text, from }: Receipt): Statement {
  const sender = from === undefined ? '' : ` from ${attestedName(from)}`;
  const why = text.startsWith(`${verdict}: `) ? text.slice(verdict.length + 2) : text;
  const how = code === verdict ? '' : ` (${code})`;
  return statement(`${signal} ${arrival}${sender}: ${verdict}`, `${how}${why === verdict ? '' : `: ${why}`}`);
}

/**
 * A line of the timeline, after its number.
 *
 * @param ended - the run has ended; a step that is still under way then was cut off from outside
 */
export function stepText({ name, state, attempt, startedAt, endedAt, note }: TimelineStep, ended = false): Statement {
  const took = endedAt === undefined ? '' : ` in ${((endedAt - startedAt) / 1000).toFixed(1)} s`;
  const cut = ended && (state === 'running' || state === 'parked') ? ' when the run ended' : '';
  const again = attempt > 1 ? `, attempt ${attempt}` : '';
  return statement(name, `: ${state}${cut}${took}${again}${note ? `. ${note}` : ''}`);
}

/** A line of text, with its command or with the lines below it. Commands within the text are in backticks. */
export interface Line {
  readonly text: string;
  readonly command?: string;
  readonly below?: readonly Line[];
}

/** One statement, with the same text everywhere. Terminal, Web UI and notifications differ in how they show it. */
export interface Statement {
  readonly title: string;
  /** The rest of the sentence. */
  readonly text: string;
  readonly lines: readonly Line[];
}

/** How a time is written where it is shown. */
export type Time = (at: number) => string;

const named = (names: readonly string[], none = 'nobody') => names.join(', ') || none;

/** What a run waits for: what was observed, what is missing and from whom, and the exact command for each person. */
export function waitingText(workflowId: string, waiting: Waiting, time: Time): Statement {
  const commands = commandsFor(workflowId, waiting);
  switch (waiting.for) {
    case 'approval': {
      const { gate, missing, approved, until, again } = waiting;
      const untilWhen = until === undefined ? 'for as long as the outage lasts' : `until ${time(until)}`;
      const why = `. Needed again: ${again}. The run keeps what it holds; earlier approvers must approve again`;
      return {
        title: `Waiting for approval of gate ${gate}`,
        text: ` ${untilWhen}${again === undefined ? '' : why}`,
        lines: [
          { text: `Approved by ${named(approved.map(attestedName), 'nobody yet')}` },
          ...commands.map(({ command }) => ({ text: `Missing: ${missing.join('; ')}`, command })),
        ],
      };
    }
    case 'shares':
      return {
        title: `Waiting for ${sharesStillNeeded(waiting)}`,
        text: ` until ${time(waiting.until)}. Received: ${named(waiting.held, 'none')}. Missing: ${named(waiting.missingHolders)}.`,
        lines: shareLines(waiting, commands, time),
      };
    case 'rehearsal':
      return {
        title: 'REHEARSAL: no key share is asked for.',
        text: ` Waiting until ${time(waiting.until)}. Answered: ${named(waiting.answered)}. Missing: ${named(waiting.missing)}.`,
        lines: commands.map(({ who, command }) => ({ text: who, command })),
      };
    case 'decision':
      return parkedText(waiting, commands);
    case 'window':
      return statement('Approved; waiting for its change window', `, which begins ${time(waiting.until)}.`);
    case 'action':
      return {
        title: `Waiting until people have done this: ${waiting.what}`,
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

/** What is waited for, as far as the memo needs it. */
type WaitedFor = Pick<Waiting, 'for'> & {
  readonly gate?: string;
  readonly step?: string;
  readonly parkingNo?: number;
  readonly code?: string;
  readonly by?: string;
  readonly what?: string;
  readonly until?: number;
};

/** What is waited for, as text that stays the same while people answer, because each change of the memo costs an event. */
export function waitedFor(waited: WaitedFor): string {
  const { step, parkingNo, code } = waited;
  switch (waited.for) {
    case 'approval':
      return `approval of gate ${waited.gate}`;
    case 'shares':
      return 'key shares';
    case 'rehearsal':
      return 'answers to the rehearsal';
    case 'decision':
      return `decision on parked step "${step}" (parking ${parkingNo}): ${code}`;
    case 'resume':
      return `resume (paused by ${escapeUntrusted(waited.by ?? '')})`;
    case 'window':
      return `the change window (${new Date(waited.until ?? 0).toISOString()})`;
    case 'action':
      return waited.what ?? '';
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

type SharesWanted = Extract<Waiting, { for: 'shares' }>;

/** The holders who may still give a share, by whether they are asked or stand by, and those who are not invited. */
function shareLines(waiting: SharesWanted, commands: readonly NextCommand[], time: Time): Line[] {
  const asked = commands.filter((each) => each.as === undefined);
  const standBy = commands.filter((each) => each.as === 'stand-by');
  const from = waiting.standBy === undefined ? '' : time(waiting.standBy.askedFrom);
  return [
    ...people('Asked, not received yet', asked),
    ...people(`Standing by, asked at ${from}; may give now`, standBy),
    ...(waiting.notJoined ?? []).map((name) => ({ text: `Not invited: ${name} has not joined` })),
  ];
}

function people(text: string, commands: readonly NextCommand[]): Line[] {
  if (commands.length === 0) return [];
  return [{ text, below: commands.map(({ who, command }) => ({ text: who, command })) }];
}

/** How many shares are still needed. */
function sharesStillNeeded({ threshold, held, recovery }: SharesWanted): string {
  const shares = keyShares(recovery);
  const more = threshold - held.length;
  if (held.length === 0 || more <= 0) return `${threshold} ${shares}`;
  return `${more} more ${more === 1 ? shares.slice(0, -1) : shares} (of ${threshold})`;
}
