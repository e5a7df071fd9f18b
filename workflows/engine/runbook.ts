import { WRITE_REPORT } from '../../src/moves/every-run';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ApplicationFailure,
  CancellationScope,
  ParentClosePolicy,
  allHandlersFinished,
  condition,
  defineQuery,
  setHandler,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import { lockWorkflowId } from '../../src/contracts/names';
import { startMetadata } from '../../src/contracts/start-metadata';
import type { RunbookName } from '../../src/contracts/names';
import type { Report, RunbookFindings } from '../../src/contracts/report';
import type { RecordHead } from '../../src/contracts/record';
import type { RunOutcome } from '../../src/contracts/run-facts';
import type { RunStatus } from '../../src/contracts/run-status';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { QUERIES, isUndecodable } from '../../src/contracts/signals';
import { CHECK_FAILED } from '../../src/contracts/run-status';
import { activities, checks } from './activity-calls';
import { reportOf } from '../../src/report/report-of-run';
import type { RunTail } from '../../src/report/run-record';
import { withTail } from '../../src/report/run-record';
import { shellLine } from '../../src/contracts/next-commands';
import { RunStopped, StepFailed, TakenOver, failureFacts, stepFailure } from './failures';
import type { FailureFacts } from './failures';
import { refusePlainShareInput } from './verdicts';
import { Run } from './run';
import { RunState } from './run-state';
import { Signals } from './signals';
import { escapeUntrusted } from '../../src/contracts/words';

/** What the body of a runbook ends with. */
export interface Ending {
  readonly outcome: RunOutcome;
  readonly leftToDo?: readonly string[];
  /** The run fails with this instead of completing. The report is written anyway. */
  readonly failure?: ApplicationFailure;
  /** What the runbook found out, if that is its purpose. It goes into the report unchanged, so it never contains a secret. */
  readonly result?: RunbookFindings;
  /**
   * For scheduled runs that only read and must cost few events: no report is written, and the result of the run is
   * {@link FoundOut}. If the run has something else to report, such as a signal that arrived, the report is written.
   */
  readonly withoutReport?: boolean;
}

/** The result of a run that wrote no report because it found nothing besides what it looked for. */
interface FoundOut {
  readonly outcome: RunOutcome;
  readonly result: RunbookFindings | undefined;
}

/** Members of the input of every runbook. */
interface AnyInput {
  readonly deployment: string;
  readonly cluster?: string | undefined;
  readonly dryRun?: boolean;
}

type Body<I> = (run: Run, input: I) => Promise<Ending>;

/** Options of a runbook. */
interface More {
  /** For scheduled runs: nobody outside is told that they ran. `unless-wrong`: only if they did not end well. */
  readonly quiet?: true | 'unless-wrong';
  /**
   * What the run becomes if a failover takes its lock over. It keeps what it holds, such as key shares. Absent for runs that no
   * failover may take over.
   */
  readonly failOver?: Body<InputOf<'drFailover'>>;
}

interface Runbook<I> extends More {
  readonly name: RunbookName;
  readonly body: Body<I>;
}

/** A runbook as a workflow, which Temporal knows by its export. A stop ends its body at any point. */
export function runbook<N extends RunbookName>(name: N, body: Body<InputOf<N>>, more: More = {}) {
  return runbookInParts<N>(name, (run, input) => run.abortable(() => body(run, input)), more);
}

/** As {@link runbook}, but the body itself says which of its parts a stop ends. */
export function runbookInParts<N extends RunbookName>(name: N, body: Body<InputOf<N>>, more: More = {}) {
  return (input: unknown): Promise<RunbookResult> => executeRunbook<InputOf<N>>({ name, body, ...more }, input);
}

/** The result of a run. */
type RunbookResult = HandedOver | ((Report | FoundOut) & { readonly record?: RecordHead });

/** Executes a runbook: handlers first, input, lock, body, clean-ups, report. */
async function executeRunbook<I extends AnyInput>(runbook: Runbook<I>, raw: unknown): Promise<RunbookResult> {
  const signals = new Signals();
  signals.registerHandlers();
  const known: { state?: RunState } = {};
  setHandler(defineQuery<RunStatus | undefined>(QUERIES.status), () => known.state?.status(), {
    description: 'Phase, steps, what the run waits for and from whom, receipts, findings',
  });
  setHandler(
    defineQuery<Report | undefined, [RunTail?]>(QUERIES.report),
    (tail) => known.state && reportNow(known.state, tail),
    {
      description: 'What the run did so far, for `runbook report`, which adds how a closed run was closed',
    },
  );
  setHandler(defineQuery<string | undefined>(QUERIES.invitation), () => known.state?.invitation, {
    description: 'The signed invitation of the current ceremony, for `runbook share`',
  });
  refuseTimeouts();
  const { input, record, findings, outcomeInList } = await readInput<I>(runbook.name, raw);
  const lockId = lockWorkflowId(runbook.name, input);
  if (input.dryRun !== true && lockId !== undefined && workflowInfo().workflowId !== lockId)
    return handOver(lockId, { given: raw, input }, takeOverOf(runbook.name, input));

  const state = new RunState(runbook.name, input.deployment, input);
  known.state = state;
  findings.forEach((each) => state.finding(each));
  state.notifications.quiet = input.dryRun === true || (runbook.quiet ?? false);
  const run = new Run(state, signals);
  return CancellationScope.nonCancellable(async () => {
    const pump = signals.pump(state);
    const ending = await runBody(runbook, run, input);
    await run.cleanUpAll();
    noteFailure(state, ending);
    const leftToDo = [...(ending.leftToDo ?? []), ...state.left.texts];
    const { outcome } = ending;
    state.notifications.finished(
      outcome,
      reportOf({ ...state.record(), ending: { outcome, leftToDo, at: Date.now() } }).leftToDo,
    );
    await state.notifications.settle();
    signals.close(state);
    await pump;
    const found = foundOut(run, ending) ?? (await writeReport(run, ending, outcomeInList));
    await condition(allHandlersFinished);
    signals.refuseLate(state);
    if (ending.failure) throw ending.failure;
    return { ...(found ?? reportNow(state)), ...(record && { record }) };
  });
}

async function runBody<I extends AnyInput>(runbook: Runbook<I>, run: Run, input: I): Promise<Ending> {
  const { failOver } = runbook;
  let taken: TakenOver;
  try {
    const ending = await runbook.body(run, input);
    // It was requested when nothing was left to stop.
    const asked = run.pendingTakeOver;
    if (!asked || !failOver) return ending;
    taken = asked;
  } catch (error) {
    if (!(error instanceof TakenOver) || !failOver) return endingOf(run, error);
    taken = error;
  }
  run.become('drFailover', taken.input);
  const ending = await failOver(run, taken.input).catch((error: unknown) => endingOf(run, error));
  // The runbook before the take-over may have changed something.
  return ending.outcome === 'refused' ? { ...ending, outcome: 'aborted' } : ending;
}

/** A failure that no step handles ends the run with its clean-ups. A defect of this code is thrown on, so that a deploy can fix it. */
function endingOf(run: Run, error: unknown): Ending {
  if (error instanceof RunStopped)
    return {
      outcome: 'aborted',
      leftToDo: [`The run was stopped by ${escapeUntrusted(error.by)}: ${escapeUntrusted(error.reason)}`],
    };
  const failure = error instanceof StepFailed ? error.failure : failureFacts(error);
  if (!failure) throw error;
  return {
    // "Refused" means that nothing was touched.
    outcome: run.state.outageSince === undefined && !run.held ? 'refused' : 'aborted',
    failure: failureOf(failure),
  };
}

/**
 * The input, checked and completed by the schema of the runbook. An activity does that, so that the bundle needs no schema
 * library.
 *
 * @throws ApplicationFailure INVALID_INPUT, which fails the run; nothing was touched
 */
async function readInput<I extends AnyInput>(runbook: RunbookName, given: unknown) {
  if (isUndecodable(given)) {
    throw stepFailure('INVALID_INPUT', 'The input could not be read. Nothing was changed.', {
      needed: 'one JSON object with encoding json/plain',
      next: 'Start again with one JSON object.',
    });
  }
  refusePlainShareInput(runbook, given);
  try {
    const read = () => checks.readRunbookInput({ runbook, given: given ?? null });
    const { input, ...standing } = await CancellationScope.nonCancellable(read);
    return { input: input as I, ...standing };
  } catch (error) {
    const failure = failureFacts(error);
    throw failure ? failureOf(failure) : error;
  }
}

/** Adds the failure of a run to its findings, as a failed check would be. */
function noteFailure(state: RunState, { failure }: Ending): void {
  const facts = failureFacts(failure);
  if (!facts || state.findings.some(({ code }) => code === CHECK_FAILED)) return;
  const { message, observed, needed, next } = facts;
  const more = observed === undefined ? '' : ` Observed ${observed}; needed ${needed ?? 'something else'}.`;
  state.finding({ severity: 'warning', code: CHECK_FAILED, text: `${message}${more}`, ...(next && { next }) });
}

function failureOf(failure: FailureFacts): ApplicationFailure {
  const { code, message } = failure;
  return ApplicationFailure.create({ type: code, message, nonRetryable: true, details: [failure] });
}

/** The result without a report, if the ending says so and nobody would miss anything. */
function foundOut({ state }: Run, { withoutReport, failure, outcome, result }: Ending): FoundOut | undefined {
  const more = state.findings.length + state.receipts.length + state.left.texts.length;
  if (withoutReport !== true || failure || more > 0) return undefined;
  end(state, outcome, [], result);
  return { outcome, result };
}

/** Records the end of the run. */
function end(state: RunState, outcome: RunOutcome, leftToDo: readonly string[], result?: RunbookFindings): void {
  state.outcome = outcome;
  state.ending = { outcome, leftToDo, ...(result && { result }), at: Date.now() };
  // Nothing is waited for any more.
  state.waiting.clear();
  state.paused = false;
  const { leftToDo: left, outage, loss, clientsHeld } = reportOf(state.record());
  state.leftAtEnd = left;
  state.measured = { outage, loss, clientsHeld };
  state.enterPhase('finished');
}

/** Says how the run ended where Temporal shows it, and has the report written to files, if a worker keeps files. */
async function writeReport(
  run: Run,
  { outcome, leftToDo = [], result }: Ending,
  outcomeInList: boolean | undefined,
): Promise<undefined> {
  const { state } = run;
  end(state, outcome, [...leftToDo, ...state.left.texts], result);
  state.noteOutcome(outcome, { inList: outcomeInList });
  if (state.site.reportFiles === false) return;
  // What was done is done: a full disk must not turn it into a failed run.
  await run.cleanUp(WRITE_REPORT, async (call) => {
    await call.writeReportFiles({ report: reportNow(state) });
  });
}

/** A larger payload may be too large for Temporal, which would end the run. */
const MAX_REPORT = 1_000_000;

function reportNow(state: RunState, tail?: RunTail): Report {
  const report = reportOf(tail ? withTail(state.record(), tail) : state.record());
  if (JSON.stringify(report).length < MAX_REPORT) return report;
  const { workflowId, runId } = report;
  const shortened = {
    severity: 'warning',
    code: 'report-shortened',
    text: 'The report would be too large, so the activities of the steps are left out.',
    next: `They are in the history: \`${shellLine('temporal', 'workflow', 'show', '--workflow-id', workflowId, '--run-id', runId)}\``,
    at: report.endedAt ?? report.startedAt,
  } as const;
  const steps = report.steps.map((step) => ({ ...step, activities: [] }));
  return { ...report, steps, findings: [...report.findings, shortened] };
}

/** The result of a run that was started under another Workflow ID: where the actual run is. */
interface HandedOver {
  readonly outcome: 'handed-over';
  readonly workflowId: string;
  readonly runId: string;
  readonly link?: string;
  /** The runbook that was told to become this failover. Its receipts show what came of it. */
  readonly tookOver?: string;
}

/**
 * Starts the actual run as an independent run under the Workflow ID that is the lock. Temporal allows one open run per ID: if the
 * lock is held, this fails at once and names the holder, or tells the holder to become the failover.
 */
async function handOver(
  lockId: string,
  { given, input }: { readonly given: unknown; readonly input: AnyInput },
  takeOver: InputOf<'drFailover'> | undefined,
): Promise<HandedOver> {
  const handedOver = { outcome: 'handed-over', workflowId: lockId } as const;
  const { workflowType, workflowId } = workflowInfo();
  try {
    const child = await startChild(workflowType, {
      workflowId: lockId,
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      parentClosePolicy: ParentClosePolicy.ABANDON,
      args: [given],
      // A child inherits neither.
      memo: { runbook: workflowType, deployment: input.deployment },
      ...startMetadata(workflowType, input, `handed over from ${workflowId}`),
    });
    const { link } = await activities.describeRun({ workflowId: lockId });
    return { ...handedOver, runId: child.firstExecutionRunId, link };
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
  const holder = await activities.describeRun({ workflowId: lockId });
  const { type, runId, link, status, taskQueue, startedBy, terminate } = holder;
  if (takeOver && terminate === undefined && type !== 'drFailover') {
    await activities.requestTakeOver({ workflowId: lockId, runId, input: takeOver });
    return { ...handedOver, runId, link, tookOver: type };
  }
  const known = `${lockId} is held by ${type} (run ${runId}, ${status}`;
  const [message, next] =
    terminate === undefined
      ? [
          `${known}). Nothing was changed.`,
          `Check it: \`runbook status ${lockId}\`. Start again when it has ended. A failover takes it over with {"takeOver": true}.`,
        ]
      : [
          `${known}, task queue ${taskQueue}, started by ${startedBy}), which is not a runbook of these workers. Nothing was changed.`,
          `Ask a Temporal administrator to check the run and who started it, and to end it: \`${terminate}\`. Then start again.`,
        ];
  throw ApplicationFailure.create({ type: 'LOCK_HELD', nonRetryable: true, message, details: [{ ...holder, next }] });
}

/** The input with which a failover asks for the lock of another run; undefined if it does not ask. */
function takeOverOf(runbook: RunbookName, input: object): InputOf<'drFailover'> | undefined {
  if (runbook !== 'drFailover') return undefined;
  const asked = input as InputOf<'drFailover'>;
  return asked.takeOver && !asked.dryRun ? asked : undefined;
}

/** Refuses to run if the server could end the run without its clean-up. */
function refuseTimeouts(): void {
  const { executionTimeoutMs, runTimeoutMs, retryPolicy, cronSchedule } = workflowInfo();
  const set = [
    (executionTimeoutMs ?? 0) > 0 && 'an execution timeout',
    (runTimeoutMs ?? 0) > 0 && 'a run timeout',
    retryPolicy && 'a retry policy',
    cronSchedule && 'a cron schedule',
  ].filter((each) => typeof each === 'string');
  if (set.length === 0) return;
  const would = `This run was started with ${set.join(' and ')}, which would end it without clean-up. Nothing was changed.`;
  throw stepFailure('RUN_TIMEOUT_SET', would, {
    observed: set.join(', '),
    needed: 'none of them',
    next: 'Start the runbook again without it.',
  });
}
