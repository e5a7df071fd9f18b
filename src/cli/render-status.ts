import type { Receipt } from '../contracts/run-facts';
import type { RunStatus, Waiting } from '../contracts/run-status';
import { receiptText, statusText, stepText } from '../words/status';
import type { Line, Statement } from '../words/waiting';
import { waitingText } from '../words/waiting';
import type { RunView } from './run-view';
import { clock, inLines, inWords, shellLine, terminalText, unmarked } from './text';

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
  const statements = statusText(status, (at) => clock(at, now)).flatMap((each) => ['', ...statementLines(each)]);
  const receipts = status.receipts.slice(-RECEIPTS_SHOWN).flatMap((each) => receiptLines(each, '  '));
  const lines = receipts.length > 0 ? [...statements, '', 'Receipts', ...receipts] : statements;
  return [...lines, ...stepLines(status)];
}

/** The last ones: what is under way stands last, nearest to whoever typed the command. */
function stepLines({ workflowId, steps }: RunStatus): string[] {
  const earlier = Math.max(0, steps.length - STEPS_SHOWN);
  const shown = steps.slice(earlier).map((step) => `  ${step.number}. ${unmarked(inFull(stepText(step)))}`);
  if (earlier === 0) return ['', 'Steps', ...shown];
  return ['', `Steps (${earlier} before these: ${shellLine('runbook', 'report', workflowId)})`, ...shown];
}

const inFull = ({ title, text }: Statement) => `${title}${text}`;

/** A statement as lines of a terminal, each command alone in its line. `indent`: of the lines below the first. */
export function statementLines(statement: Statement, indent = '  '): string[] {
  return [...terminalText(inFull(statement)), ...statement.lines.flatMap((line) => linesOf(line, indent))];
}

function linesOf({ text, command, below = [] }: Line, indent: string): string[] {
  const people = below.filter((each) => each.command !== undefined);
  const commands = [command, ...people.map((each) => each.command)].filter((each) => each !== undefined && each !== '');
  const colon = commands.length + below.length > 0 ? ':' : '';
  const names = people.length === 0 ? '' : ` ${people.map((each) => each.text).join(', ')}`;
  return [
    ...terminalText(`${text}${colon}${names}`, indent),
    ...commands.map((each) => `${indent}    ${each}`),
    ...below.filter((each) => each.command === undefined).map((each) => `${indent}  ${unmarked(each.text)}`),
  ];
}

/** What a run waits for, and the command for each missing person. */
export function waitingLines(workflowId: string, given: Waiting, now = Date.now(), indent?: string): string[] {
  return statementLines(
    waitingText(workflowId, inLines(given), (at) => clock(at, now)),
    indent,
  );
}

/** What became of a signal. */
export function receiptLines(given: Receipt, indent = ''): string[] {
  return terminalText(inFull(receiptText(inLines(given))), indent);
}
