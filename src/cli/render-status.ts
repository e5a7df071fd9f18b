import type { Receipt } from '../contracts/run-facts';
import type { RunStatus, Waiting } from '../contracts/run-status';
import {
  carryingOutText,
  findingText,
  PHASE_WORDS,
  phaseText,
  receiptText,
  statusText,
  stepText,
  waitingText,
} from '../words/status';
import type { Line, Statement } from '../words/status';
import { pollersInWords } from './run';
import type { RunView } from './run';
import { clock, inLines, inWords, shellLine, terminalText, unmarked } from './text';

const RECEIPTS_SHOWN = 5;
const STEPS_SHOWN = 8;

/** A run as `runbook status` prints it. */
export function statusLines(given: RunView, now = Date.now()): string[] {
  const view = asEnded(inLines(given));
  const { workflowId, runbook, state, closedAt, memo, status } = view;
  const ended = closedAt === undefined ? '' : `, ended ${clock(Date.parse(closedAt), now)}`;
  const lines = [
    `${workflowId}  ${runbook}  ${state}${phaseOf(view)}`,
    `  run ${view.runId}, started ${clock(Date.parse(view.startedAt), now)}${ended}`,
    `  ${workerLine(view)}`,
    ...view.pendingActivities.map(({ type, attempt, started, lastFailure }) => {
      const failure = lastFailure === undefined ? '' : `, last failure ${lastFailure}`;
      return `  under way: ${type}, try ${attempt}${started ? '' : ', not started'}${failure}`;
    }),
  ];
  if (status !== undefined) return [...lines, ...liveLines(status, now, closedAt !== undefined)];
  if (memo === undefined || state !== 'running') return lines;
  // What the run wrote down for the time when no worker answers.
  const noted = [
    ...(memo.step === undefined ? [] : [`Step when the phase began: ${memo.step}`]),
    ...(memo.outageSince === undefined ? [] : [`OUTAGE since ${memo.outageSince}`]),
    ...(memo.waitingFor === undefined ? [] : [`Waits for: ${memo.waitingFor}`]),
    ...(memo.carryingOut === undefined ? [] : [memo.carryingOut]),
  ];
  return noted.length === 0 ? lines : [...lines, '', ...noted];
}

/** A run that has ended waits for nobody, whatever its last words were. */
function asEnded(view: RunView): RunView {
  const { state, status } = view;
  if (state === 'running' || status === undefined) return view;
  return { ...view, status: { ...status, waiting: [], carryingOut: [], paused: false } };
}

function phaseOf({ memo, status, state }: RunView): string {
  if (status?.outcome !== undefined) return `, ${status.outcome}`;
  const phase = status?.phase ?? memo?.phase;
  if (phase === undefined) return '';
  if (state !== 'running') return ` in phase ${phase}`;
  const parked = status?.waiting.some((each) => each.for === 'decision') === true;
  return `, phase ${phase}${status?.paused === true ? ', PAUSED' : ''}${parked ? ', PARKED' : ''}`;
}

function workerLine({ pollers, status, asOfEvent, taskQueue, state }: RunView): string {
  const polled = pollersInWords(taskQueue, pollers);
  if (status !== undefined) return `worker: answers; ${polled}`;
  if (state !== 'running') return `as of event ${asOfEvent}; ${polled}`;
  return `no worker answers; as of event ${asOfEvent}; ${polled}. Start one with "runbook worker"`;
}

/** What is wrong and who does what about it comes first: a person at night reads no further than they must. */
function liveLines(status: RunStatus, now: number, ended: boolean): string[] {
  const { workflowId, steps, receipts } = status;
  const statements = statusText(status, (at) => clock(at, now)).flatMap((each) => ['', ...statementLines(each)]);
  const shown = receipts.slice(-RECEIPTS_SHOWN).flatMap((each) => receiptLines(each, '  '));
  const earlier = Math.max(0, steps.length - STEPS_SHOWN);
  const before = earlier === 0 ? '' : ` (${earlier} before these: ${shellLine('runbook', 'report', workflowId)})`;
  return [
    ...statements,
    ...(shown.length > 0 ? ['', 'Receipts', ...shown] : []),
    '',
    `Steps${before}`,
    // What is under way stands last, nearest to the prompt.
    ...steps.slice(earlier).map((step) => `  ${step.number}. ${unmarked(inFull(stepText(step, ended)))}`),
  ];
}

const inFull = ({ title, text }: Statement) => `${title}${text}`;

/** A statement as lines of a terminal, each command alone in its line. `indent`: of the lines below the first. */
function statementLines(statement: Statement, indent = '  '): string[] {
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
  const statement = waitingText(workflowId, inLines(given), (at) => clock(at, now));
  return statementLines(statement, indent);
}

/** What became of a signal. */
export function receiptLines(given: Receipt, indent = ''): string[] {
  return terminalText(inFull(receiptText(inLines(given))), indent);
}

/** The first line stands beside its time; those below it have none. */
interface News {
  readonly at: number;
  readonly lines: readonly string[];
}

/** Below the text of a line, which stands beside its time. */
const BELOW = ' '.repeat(12);

const beside = (mark: string, [first = '', ...below]: readonly string[]) => [`${mark}${first}`, ...below];
const indented = ([first = '', ...below]: readonly string[]) => [first, ...below.map((line) => `${BELOW}${line}`)];

/** Turns one view of a run after another into lines that say what is new since the view before. */
export class Progress {
  readonly #told = new Set<string>();
  #phase: string | undefined;
  #silent = false;

  /** Lines for what is new in `view`. Without a worker's answer it says so, once. */
  lines(given: RunView, now = Date.now()): string[] {
    const { status, state, memo, asOfEvent } = asEnded(inLines(given));
    if (status === undefined) {
      if (this.#silent || state !== 'running') return [];
      this.#silent = true;
      const waits = memo?.waitingFor === undefined ? '' : `, waits for ${memo.waitingFor}`;
      return [`${clock(now, now)} no worker answers; as of event ${asOfEvent}${waits}`];
    }
    const back = this.#silent ? [{ at: now, lines: ['a worker answers again'] }] : [];
    this.#silent = false;
    const news = [...this.#phases(status, now), ...this.#steps(status), ...this.#receipts(status, now)];
    const happened = [...back, ...news].sort((a, b) => a.at - b.at);
    // Findings and waits carry no time: they are as of now.
    const seen = this.#seen(status, now).map((lines) => ({ at: now, lines }));
    return [...happened, ...seen].flatMap(({ at, lines: [first = '', ...below] }) => [
      `${clock(at, now)} ${first}`,
      ...below,
    ]);
  }

  #phases(status: RunStatus, now: number): News[] {
    const { phase, outageSince, serviceBackAt, steps } = status;
    const news: News[] = [];
    // One that was not begun after all may be followed by one that is.
    if (outageSince !== undefined && this.#once('outage', outageSince))
      news.push({ at: outageSince, lines: [`== ${PHASE_WORDS.outage}`] });
    if (outageSince !== undefined && serviceBackAt !== undefined && this.#once('service back', serviceBackAt))
      news.push({ at: serviceBackAt, lines: [`== Service is back after ${inWords(serviceBackAt - outageSince)}`] });
    if (phase === this.#phase) return news;
    this.#phase = phase;
    const last = steps.at(-1);
    const at = phase === 're-protecting' ? (serviceBackAt ?? now) : (last?.endedAt ?? last?.startedAt ?? now);
    // The outage was told above, with the time at which it began.
    return phase === 'outage' ? news : [...news, { at, lines: [`== ${phaseText(status)}`] }];
  }

  #steps({ steps }: RunStatus): News[] {
    return steps
      .filter(({ number, state, attempt }) => this.#once('step', number, state, attempt))
      .map((step) => {
        const { number, name, state, attempt, startedAt, endedAt } = step;
        const { title, text } = stepText(step);
        const began = `${number}. ${name} ...${attempt > 1 ? ` (attempt ${attempt})` : ''}`;
        const line = state === 'running' ? began : `${number}. ${title}${unmarked(text)}`;
        return { at: endedAt ?? startedAt, lines: [line] };
      });
  }

  #receipts({ receipts }: RunStatus, now: number): News[] {
    return receipts
      .filter(({ signal, arrival, code }) => this.#once('receipt', signal, arrival, code))
      .map((receipt) => ({ at: receipt.at ?? now, lines: beside('   ', indented(receiptLines(receipt))) }));
  }

  #seen({ workflowId, findings, waiting, carryingOut = [] }: RunStatus, now: number): (readonly string[])[] {
    return [
      ...findings
        .filter(({ code, text }) => this.#once('finding', code, text))
        .map((finding) => beside('   finding, ', indented(statementLines(findingText(finding))))),
      ...carryingOut
        .filter((each) => this.#once('carrying out', each))
        .map((each) => beside('   ', statementLines(carryingOutText(each, (at) => clock(at, now))))),
      // Announced again where its contents change.
      ...waiting
        .filter((each) => this.#once('waiting', each))
        .map((each) => beside('-> ', waitingLines(workflowId, each, now, BELOW))),
    ];
  }

  #once(...facts: readonly unknown[]): boolean {
    const key = JSON.stringify(facts);
    const isNew = !this.#told.has(key);
    this.#told.add(key);
    return isNew;
  }
}
