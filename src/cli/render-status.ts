import type { Finding, Receipt } from '../contracts/run-facts';
import type { Declined, RunStatus, TimelineStep, Waiting } from '../contracts/run-status';
import { urgentFindings } from '../contracts/alarms';
import { askedNow } from '../contracts/asked';
import { askedAgain, untilWhen } from '../contracts/gate-words';
import { commandsFor } from '../contracts/next-commands';
import type { NextCommand } from '../contracts/next-commands';
import { shareLines } from '../contracts/share-words';
import type { RunView } from './run-view';
import {
  attestedName,
  clock,
  columns,
  inLines,
  inWords,
  said,
  shellLine,
  shellWord,
  terminalText,
  unmarked,
} from './text';

const RECEIPTS_SHOWN = 5;
const STEPS_SHOWN = 8;

/** A run as `runbook status` prints it. */
export function statusLines(given: RunView, now = Date.now()): string[] {
  const view = inLines(given);
  const lines = [
    `${view.workflowId}  ${view.runbook}  ${view.state}${phaseOf(view)}`,
    `  run ${view.runId}, started ${clock(Date.parse(view.startedAt), now)}${view.closedAt === undefined ? '' : `, ended ${clock(Date.parse(view.closedAt), now)}`}`,
    `  ${workerLine(view)}`,
  ];
  for (const pending of view.pendingActivities) {
    const failure = pending.lastFailure === undefined ? '' : `, last failure ${pending.lastFailure}`;
    lines.push(
      `  under way: ${pending.type}, try ${pending.attempt}${pending.started ? '' : ', not started'}${failure}`,
    );
  }
  if (view.status === undefined) return [...lines, ...memoLines(view)];
  return [...lines, ...liveLines(view.status, now)];
}

function phaseOf({ memo, status }: RunView): string {
  const outcome = status?.outcome;
  if (outcome !== undefined) return `, ${outcome}`;
  const phase = status?.phase ?? memo?.phase;
  const parked = status?.waiting.some((each) => each.for === 'decision') === true;
  return phase === undefined
    ? ''
    : `, phase ${phase}${status?.paused === true ? ', PAUSED' : ''}${parked ? ', PARKED' : ''}`;
}

function workerLine(view: RunView): string {
  const { pollers, status, asOfEvent } = view;
  const polled =
    pollers === undefined
      ? 'pollers unknown'
      : pollers.count === 0
        ? `nobody polls task queue ${view.taskQueue}`
        : `task queue ${view.taskQueue} last polled ${inWords(pollers.lastSeenMs ?? 0)} ago`;
  if (status !== undefined) return `worker: answers; ${polled}`;
  if (view.state !== 'running') return `as of event ${asOfEvent}; ${polled}`;
  return `no worker answers; as of event ${asOfEvent}; ${polled}. Start one with "runbook worker"`;
}

/** What the run left in its memo, for the time when no worker answers. */
function memoLines({ memo, state }: RunView): string[] {
  if (memo === undefined || state !== 'running') return [];
  const lines = [''];
  if (memo.step !== undefined) lines.push(`Step when the phase began: ${memo.step}`);
  if (memo.outageSince !== undefined) lines.push(`OUTAGE since ${memo.outageSince}`);
  if (memo.waitingFor !== undefined) lines.push(`Waits for: ${memo.waitingFor}`);
  return lines.length === 1 ? [] : lines;
}

/** What is wrong and who does what about it comes first: a person at night reads no further than he must. */
function liveLines(status: RunStatus, now: number): string[] {
  const lines: string[] = [];
  const urgent = urgentFindings(status);
  for (const finding of urgent) lines.push('', ...findingLines(finding));
  if (status.outageSince !== undefined && status.serviceBackAt === undefined) {
    lines.push('', `OUTAGE since ${clock(status.outageSince, now)} (${inWords(now - status.outageSince)})`);
  }
  for (const waiting of status.waiting) lines.push('', ...waitingLines(status.workflowId, waiting, now));
  lines.push(...askedLines(status));
  const others = status.findings.filter((each) => !urgent.includes(each));
  if (others.length > 0) lines.push('', 'Findings', ...others.flatMap((each) => findingLines(each, '', '  ')));
  if (status.receipts.length > 0)
    lines.push('', 'Receipts', ...status.receipts.slice(-RECEIPTS_SHOWN).flatMap((each) => receiptLines(each, '  ')));
  return [...lines, ...stepLines(status, now)];
}

/** The last ones: what is under way stands last, nearest to whoever typed the command. */
function stepLines({ workflowId, steps }: RunStatus, now: number): string[] {
  const earlier = Math.max(0, steps.length - STEPS_SHOWN);
  const shown = columns(steps.slice(earlier).map((step) => stepCells(step, now)));
  if (earlier === 0) return ['', 'Steps', ...shown];
  return ['', `Steps (${earlier} before these: ${shellLine('runbook', 'report', workflowId)})`, ...shown];
}

/** Something that people must know, and what they do next. */
export function findingLines({ severity, text, next }: Finding, before = '', indent = ''): string[] {
  const whole = /[.!?]$/.test(text) ? text : `${text}.`;
  const mark = severity === 'critical' ? 'CRITICAL' : severity;
  return terminalText(`${before}${mark}: ${whole}${next === undefined ? '' : ` Next: ${next}`}`, indent);
}

function askedLines(status: RunStatus): string[] {
  const lines = askedNow(status);
  return lines.length === 0 ? [] : ['', 'What key holders are asked for', ...lines.map((each) => `  ${each}`)];
}

function stepCells(step: TimelineStep, now: number): string[] {
  const took = inWords((step.endedAt ?? now) - step.startedAt);
  const again = step.attempt > 1 ? ` (attempt ${step.attempt})` : '';
  return [`  ${step.number}.`, step.name, `${step.state}${again}`, took, unmarked(step.note ?? '')];
}

/** What a run waits for, and the command for each missing person. */
export function waitingLines(workflowId: string, given: Waiting, now = Date.now()): string[] {
  const waiting = inLines(given);
  return [...waitingHead(waiting, now), ...waitingBelow(workflowId, waiting, now, '  ')];
}

/** Whom a run waits for, with the command of each alone in its line. */
export function waitingBelow(workflowId: string, waiting: Waiting, now: number, indent: string): string[] {
  const commands = (all: readonly NextCommand[]) => all.map(({ command }) => `${indent}    ${command}`);
  if (waiting.for === 'shares') return sharesBelow(workflowId, waiting, now, indent);
  const next = commandsFor(workflowId, waiting);
  if (waiting.for === 'decision')
    return next.flatMap(({ command, effect = '' }) => [
      `${indent}${command}`,
      ...terminalText(effect, `${indent}    `),
    ]);
  // A command of a key holder says whose it is.
  const holders = next.filter(({ who, command }) => command.endsWith(`--holder ${shellWord(who)}`));
  const others = next.filter((each) => !holders.includes(each));
  return [
    ...(holders.length === 0 ? [] : [`${indent}${holders.map(({ who }) => who).join(', ')}:`, ...commands(holders)]),
    ...[...new Set(others.map(({ command }) => command))].flatMap((command) => [
      `${indent}${others.flatMap((each) => (each.command === command ? [each.who] : [])).join(', ')}:`,
      `${indent}    ${command}`,
    ]),
  ];
}

/** Who may still give a key share, with the command of each, and what the groups lack. */
function sharesBelow(
  workflowId: string,
  waiting: Extract<Waiting, { for: 'shares' }>,
  now: number,
  indent: string,
): string[] {
  return shareLines(workflowId, waiting, (at) => clock(at, now)).flatMap(({ text, command, below = [] }) => {
    const people = below.filter((each) => each.command !== undefined).map((each) => each.text);
    const commands = [command, ...below.map((each) => each.command)].filter((each) => each !== undefined);
    return [
      `${indent}${text}${commands.length + below.length === 0 ? '' : ':'}${people.length === 0 ? '' : ` ${people.join(', ')}`}`,
      ...commands.map((each) => `${indent}    ${each}`),
      ...below.filter((each) => each.command === undefined).map((each) => `${indent}  ${each.text}`),
    ];
  });
}

/** What a run waits for: one line, and below it what was observed, what is needed and who does what. */
export function waitingHead(waiting: Waiting, now = Date.now()): string[] {
  switch (waiting.for) {
    case 'decision':
      return [
        ...terminalText(
          `PARKED at "${waiting.step}" (parking ${waiting.parkingNo}), ${waiting.code}: ${waiting.message}`,
        ),
        ...(waiting.decidedOnce === undefined
          ? []
          : [
              `  ${attestedName(waiting.decidedOnce.by)} decided ${waiting.decidedOnce.action}: A SECOND, DIFFERENT PERSON IS NEEDED`,
            ]),
        ...(['observed', 'needed', 'next'] as const).flatMap((name) =>
          waiting[name] === undefined ? [] : terminalText(`${name}: ${waiting[name]}`, '  '),
        ),
      ];
    case 'action':
      return [
        ...terminalText(`Waits until people have done this: ${waiting.what}`),
        ...waiting.instructions.flatMap((each) => terminalText(each, '  ')),
      ];
    default:
      return [unmarked(headline(waiting, now))];
  }
}

function headline(waiting: Exclude<Waiting, { for: 'decision' | 'action' }>, now: number): string {
  switch (waiting.for) {
    case 'shares':
      return `Waits for key shares until ${clock(waiting.until, now)}: ${waiting.held.length} in hand (${waiting.held.join(', ') || 'none'}), ${waiting.threshold} needed`;
    case 'approval':
      return `Waits for approval of gate "${waiting.gate}" ${untilWhen(waiting, (at) => clock(at, now))}; approved by ${waiting.approved.map(attestedName).join(', ') || 'nobody yet'}${askedAgain(waiting)}`;
    case 'rehearsal':
      return `REHEARSAL until ${clock(waiting.until, now)}, no key share is asked for: ${waiting.answered.length} answered (${waiting.answered.join(', ') || 'nobody'}), ${waiting.missing.length} missing${declinedWords(waiting.declined)}`;
    case 'window':
      return `Approved; the change window begins ${clock(waiting.until, now)}`;
    case 'resume':
      return `PAUSED by ${said(waiting.by)}: ${said(waiting.reason)}`;
  }
}

function declinedWords(declined: readonly Declined[] = []): string {
  return declined.length === 0
    ? ''
    : `; declined: ${declined.map(({ by, reason }) => `${attestedName(by)}, ${said(reason)}`).join('; ')}`;
}

/** What became of a signal. */
export function receiptLines(given: Receipt, indent = ''): string[] {
  const { signal, arrival, verdict, code, text, from } = inLines(given);
  const sender = from === undefined ? '' : ` from ${attestedName(from)}`;
  const why = text.startsWith(`${verdict}: `) ? text.slice(verdict.length + 2) : text;
  const whole = `${signal} ${arrival}${sender}: ${verdict}${code === verdict ? '' : ` (${code})`}`;
  return terminalText(why === verdict ? whole : `${whole}. ${why}`, indent);
}
