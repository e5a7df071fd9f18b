import { planIn } from '../contracts/plan';
import { stepNumber, stepsNotTaken } from '../moves/steps';
import { RUNBOOK_NAMES } from '../contracts/names';
import type { Receipt } from '../contracts/run-facts';
import type { RunStatus, TimelineStep } from '../contracts/run-status';
import { TOKEN_KEPT } from '../contracts/run-status';
import { MANY_SIGNALS } from '../contracts/signals';
import { phaseText, receiptText, statusText, stepText } from '../words/status';
import type { Line, Statement } from '../words/status';
import { isPolled, pollersText } from './run';
import type { RunView } from './run';
import { clock, escapeUntrusted, inLines, durationText, terminalText, unmarked } from '../contracts/words';
import { shellLine } from '../contracts/next-commands';

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
    ...(status?.ticket === undefined ? [] : terminalText(`ticket ${escapeUntrusted(status.ticket)}`, '  ')),
    `  ${workerLine(view)}`,
    ...view.pendingActivities.map(({ type, attempt, started, lastFailure }) => {
      const failure = lastFailure === undefined ? '' : `, last failure: ${lastFailure}`;
      return `  running: ${type}, attempt ${attempt}${started ? '' : ', not started'}${failure}`;
    }),
  ];
  if (status !== undefined) return [...lines, ...liveLines(status, now, closedAt !== undefined)];
  if (memo === undefined || state !== 'running') return lines;
  // The run writes this memo for the time when no worker answers.
  const noted = [
    ...(memo.step === undefined ? [] : [`Step when the phase began: ${memo.step}`]),
    ...(memo.outageSince === undefined ? [] : [`OUTAGE since ${memo.outageSince}`]),
    ...(memo.waitingFor === undefined ? [] : [`Waits for: ${memo.waitingFor}`]),
    ...(memo.carryingOut === undefined ? [] : [memo.carryingOut]),
  ];
  return noted.length === 0 ? lines : [...lines, '', ...noted];
}

/** A run that has ended waits for nobody, whatever its last status says. */
function asEnded(view: RunView): RunView {
  const { state, status } = view;
  if (state === 'running' || status === undefined) return view;
  return { ...view, status: { ...status, waiting: [], carryingOut: [], paused: false } };
}

function phaseOf({ memo, status, state }: RunView): string {
  if (status?.outcome !== undefined) return `, ${status.outcome}`;
  if (state !== 'running' && memo?.outcome !== undefined) return `, ${memo.outcome}`;
  const phase = status?.phase ?? memo?.phase;
  if (phase === undefined) return '';
  if (state !== 'running') return ` in phase ${phase}`;
  const parked = status?.waiting.some((each) => each.for === 'decision') === true;
  return `, phase ${phase}${status?.paused === true ? ', PAUSED' : ''}${parked ? ', PARKED' : ''}`;
}

function workerLine({ pollers, status, asOfEvent, taskQueue, state, runbook }: RunView): string {
  const polled = pollersText(taskQueue, pollers);
  if (status !== undefined) return `worker: answers; ${polled}`;
  if (!RUNBOOK_NAMES.some((name) => name === runbook)) return `not a runbook, so it has no status; ${polled}`;
  if (state !== 'running') return `as of event ${asOfEvent}; ${polled}`;
  const unread = asOfEvent > MANY_SIGNALS ? '. A flood of signals? See docs/on-call.md, "A flood of signals"' : '';
  // A worker that polls may be busy for a moment.
  const next = isPolled(pollers)
    ? `A worker polls, but does not answer for this run: check its log${unread}`
    : 'Start one with "runbook worker"';
  return `no worker answers; as of event ${asOfEvent}; ${polled}. ${next}`;
}

/** Problems and the next action of each person come first: a person on call reads no further than necessary. */
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
    // The current step is last, nearest to the prompt.
    ...steps.slice(earlier).map((step) => `  ${stepNumber(step)}${unmarked(inFull(stepText(step, ended)))}`),
    ...(ended ? notTaken(status).map((text) => `  ${text}`) : []),
  ];
}

/** What the plan foresaw and the run did not do. */
function notTaken({ planText, steps, outcome }: RunStatus): readonly string[] {
  const plan = planText === undefined ? undefined : planIn(planText);
  return stepsNotTaken(inLines(plan?.steps ?? []), steps, outcome);
}

const inFull = ({ title, text }: Statement) => `${title}${text}`;

/** A statement as lines for a terminal, each command on its own line. */
function statementLines(statement: Statement): string[] {
  return [...terminalText(inFull(statement)), ...statement.lines.flatMap(linesOf)];
}

const INDENT = '  ';

function linesOf({ text, command, below = [] }: Line): string[] {
  const people = below.filter((each) => each.command !== undefined);
  const commands = [command, ...people.map((each) => each.command)].filter((each) => each !== undefined && each !== '');
  const colon = commands.length + below.length > 0 ? ':' : '';
  const names = people.length === 0 ? '' : ` ${people.map((each) => each.text).join(', ')}`;
  return [
    ...terminalText(`${text}${colon}${names}`, INDENT),
    ...commands.map((each) => `${INDENT}    ${each}`),
    ...below.filter((each) => each.command === undefined).map((each) => `${INDENT}  ${unmarked(each.text)}`),
  ];
}

/** The outcome of a signal. */
export function receiptLines(given: Receipt, indent = ''): string[] {
  return terminalText(inFull(receiptText(inLines(given))), indent);
}

/** The first line is printed beside its time; the lines below it have none. */
export interface News {
  /** Absent: it holds as of now. */
  readonly at?: number | undefined;
  readonly lines: readonly string[];
}

/** Aligns further lines below the text of the first line, which follows its time. */
const BELOW = ' '.repeat(10);

/** Turns successive views of a run into lines that show what is new: the content of `status`, each statement once. */
export class Progress {
  readonly #shown = new Set<string>();
  #heading = '';

  lines(given: RunView, now = Date.now()): string[] {
    const view = asEnded(inLines(given));
    const all = view.status === undefined ? [] : this.happened(view.status, now);
    const news = all.filter((each) => this.#once(JSON.stringify(each)));
    return [...news, ...this.headings(view)]
      .sort((a, b) => (a.at ?? now) - (b.at ?? now))
      .flatMap(({ at = now, lines: [first = '', ...below] }) => [
        `${clock(at, now)} ${first}`,
        ...below.map((line) => `${BELOW}${line}`),
      ]);
  }

  /** Everything that a status reports; past events carry their time. */
  protected happened(status: RunStatus, now: number): News[] {
    const { steps, receipts } = status;
    // The summary at the end tells what became of each token.
    const findings = status.findings.filter(({ code }) => code !== TOKEN_KEPT);
    return [
      ...backAgain(status),
      ...steps.map(stepNews),
      ...receipts.map((receipt) => ({ at: receipt.at, lines: receiptLines(receipt) })),
      ...statusText({ ...status, findings }, (at) => clock(at, now)).map((each) => ({ lines: statementLines(each) })),
    ];
  }

  /** The current phase, whenever it has changed. */
  protected headings({ workflowId, status, state, memo }: RunView): News[] {
    const waits = memo?.waitingFor === undefined ? '' : `, waits for ${memo.waitingFor}`;
    // Its last step writes the report, and ends after the outcome is known.
    if (status?.phase === 'finished' && state === 'running') return [];
    const heading = status === undefined ? `No worker answers${waits}. Why:` : phaseText(status);
    if (heading === this.#heading || (status === undefined && state !== 'running')) return [];
    this.#heading = heading;
    const why = status === undefined ? [`    ${shellLine('runbook', 'status', workflowId)}`] : [];
    return [{ lines: [`== ${heading}`, ...why] }];
  }

  #once(key: string): boolean {
    const isNew = !this.#shown.has(key);
    this.#shown.add(key);
    return isNew;
  }
}

/** That clients are served again, and how long they were not. */
export function backAgain({ outageSince, serviceBackAt }: RunStatus): News[] {
  if (outageSince === undefined || serviceBackAt === undefined) return [];
  const after = durationText(serviceBackAt - outageSince);
  return [{ at: serviceBackAt, lines: [`== BACK: clients have a primary again after ${after}`] }];
}

/** A step of the timeline as it is now. */
export function stepNews(step: TimelineStep): News {
  return { at: step.endedAt ?? step.startedAt, lines: [`${stepNumber(step)}${unmarked(inFull(stepText(step)))}`] };
}
