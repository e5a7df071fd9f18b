import type { Receipt } from '../contracts/run-facts';
import type { Declined, RunStatus, TimelineStep, Waiting } from '../contracts/run-status';
import { askedNow } from '../contracts/asked';
import { commandsFor } from '../contracts/next-commands';
import type { ShareLine } from '../contracts/share-words';
import { shareLines } from '../contracts/share-words';
import type { RunView } from './run-view';
import { attestedName, clock, columns, inWords, oneLine } from './text';

const RECEIPTS_SHOWN = 10;

/** A run as `runbook status` prints it. */
export function statusLines(view: RunView, now = Date.now()): string[] {
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
  return phase === undefined ? '' : `, phase ${phase}${status?.paused === true ? ', PAUSED' : ''}`;
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

function liveLines(status: RunStatus, now: number): string[] {
  const lines: string[] = [];
  if (status.outageSince !== undefined && status.serviceBackAt === undefined) {
    lines.push('', `OUTAGE since ${clock(status.outageSince, now)} (${inWords(now - status.outageSince)})`);
  }
  lines.push('', 'Steps', ...columns(status.steps.map((step) => stepCells(step, now))));
  lines.push(...askedLines(status));
  for (const waiting of status.waiting) lines.push('', ...waitingLines(status.workflowId, waiting, now));
  if (status.findings.length > 0) lines.push('', 'Findings');
  for (const { severity, text, next } of status.findings)
    lines.push(`  ${severity}: ${oneLine(text)}${next === undefined ? '' : ` Next: ${oneLine(next)}`}`);
  if (status.receipts.length > 0)
    lines.push('', 'Receipts', ...status.receipts.slice(-RECEIPTS_SHOWN).map((receipt) => `  ${receiptLine(receipt)}`));
  return lines;
}

function askedLines(status: RunStatus): string[] {
  const lines = askedNow(status);
  return lines.length === 0 ? [] : ['', 'What key holders are asked for', ...lines.map((each) => `  ${each}`)];
}

function stepCells(step: TimelineStep, now: number): string[] {
  const took = inWords((step.endedAt ?? now) - step.startedAt);
  const again = step.attempt > 1 ? ` (attempt ${step.attempt})` : '';
  return [`  ${step.number}.`, step.name, `${step.state}${again}`, took, step.note ?? ''];
}

/** What a run waits for, and the command for each missing person. */
export function waitingLines(workflowId: string, waiting: Waiting, now = Date.now()): string[] {
  if (waiting.for === 'shares') return [waitingHeadline(waiting, now), ...sharesBelow(workflowId, waiting, now, '  ')];
  const commands = commandsFor(workflowId, waiting).map(({ who, command, effect }) =>
    effect === undefined ? `  ${who}: ${command}` : `  ${command}\n      ${effect}`,
  );
  return [waitingHeadline(waiting, now), ...commands];
}

/** Who may still give a key share, with the command of each, and what the groups lack. */
export function sharesBelow(
  workflowId: string,
  waiting: Extract<Waiting, { for: 'shares' }>,
  now: number,
  indent: string,
): string[] {
  const lines = (all: readonly ShareLine[], before: string): string[] =>
    all.flatMap(({ text, command, below = [] }) => [
      `${before}${text}${command === undefined ? (below.length > 0 ? ':' : '') : `: ${command}`}`,
      ...lines(below, `${before}  `),
    ]);
  return lines(
    shareLines(workflowId, waiting, (at) => clock(at, now)),
    indent,
  );
}

/** What a run waits for, in one line. */
export function waitingHeadline(waiting: Waiting, now = Date.now()): string {
  switch (waiting.for) {
    case 'shares':
      return `Waits for key shares until ${clock(waiting.until, now)}: ${waiting.held.length} in hand (${waiting.held.join(', ') || 'none'}), ${waiting.threshold} needed`;
    case 'approval':
      return `Waits for approval of gate "${waiting.gate}" until ${clock(waiting.until, now)}; approved by ${waiting.approved.map(attestedName).join(', ') || 'nobody yet'}`;
    case 'rehearsal':
      return `REHEARSAL until ${clock(waiting.until, now)}, no key share is asked for: ${waiting.answered.length} answered (${waiting.answered.join(', ') || 'nobody'}), ${waiting.missing.length} missing${declinedWords(waiting.declined)}`;
    case 'decision':
      return `PARKED at "${waiting.step}" (parking ${waiting.parkingNo}), ${waiting.code}: ${waiting.message}${withFacts(waiting)}`;
    case 'window':
      return `Approved; the change window begins ${clock(waiting.until, now)}`;
    case 'action':
      return [
        `Waits until people have done this: ${waiting.what}`,
        ...waiting.instructions.map((each) => `  ${each}`),
      ].join('\n');
    case 'resume':
      return `PAUSED by ${oneLine(waiting.by)}: ${oneLine(waiting.reason)}`;
  }
}

function declinedWords(declined: readonly Declined[] = []): string {
  return declined.length === 0
    ? ''
    : `; declined: ${declined.map(({ by, reason }) => `${attestedName(by)}, ${oneLine(reason)}`).join('; ')}`;
}

function withFacts(waiting: { observed?: string; needed?: string; next?: string }): string {
  return (['observed', 'needed', 'next'] as const)
    .flatMap((name) => (waiting[name] === undefined ? [] : [`\n  ${name}: ${waiting[name]}`]))
    .join('');
}

/** What became of a signal, in one line. */
export function receiptLine({ signal, arrival, verdict, code, text, from }: Receipt): string {
  const sender = from === undefined ? '' : ` from ${attestedName(from)}`;
  const why = text.startsWith(`${verdict}: `) ? text.slice(verdict.length + 2) : text;
  // The marks of commands are for the Web UI: a shell would take them for an order to run what stands between.
  const plain = why === verdict ? '' : `. ${oneLine(why.replaceAll('`', ''))}`;
  return `${signal} ${arrival}${sender}: ${verdict}${code === verdict ? '' : ` (${code})`}${plain}`;
}
