import { QueryNotRegisteredError, isGrpcServiceError } from '@temporalio/client';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import { z } from 'zod';
import { CHECK_FAILED } from '../contracts/run-status';
import { nextCommandOf, shellLine } from '../contracts/next-commands';
import type { Report } from '../contracts/report';
import { QUERIES } from '../contracts/signals';
import { RunbookError } from '../errors';
import { headlineOf, headlinesBelow } from '../report/headlines';
import { findingsToShow, laterOf } from '../report/left-to-do';
import { tailOf } from '../report/run-history';
import { reportOf } from '../report/report-of-run';
import { fieldsOf } from '../report/run-record';
import type { RunTail } from '../report/run-record';
import { timeLineOf } from '../report/time-line';
import { timeLineText } from '../report/time-line-text';
import { findingText } from '../words/status';
import { refusalIn } from './errors';
import { describe, pollersText, readPollers } from './run';
import type { RunReference, TemporalSession } from './run';
import { escapeUntrusted, inLines, terminalLine, terminalText } from '../contracts/words';

/** A worker replays the complete run to answer. If no worker polls, one may be starting. */
const DEADLINES_MS = { polled: 10_000, unpolled: 2_000 };
const SCHEMA: Report['schema'] = 'replication-runbooks/report/v1';

/**
 * The report of a run: its result, if the run ended with a report; otherwise the answer of its `report` query. A worker
 * replays a closed run to answer. The end of the history shows how a run was closed from outside, and which of its last
 * commands Temporal never accepted.
 *
 * @throws RunbookError `NOT_FOUND`; `REPORT_UNAVAILABLE` if no worker answers, or none whose version fits this run
 */
export async function readReport(session: TemporalSession, run: RunReference): Promise<Report> {
  const { client } = session;
  const description = await describe(client, run);
  const { workflowId, runId, status, historyLength } = description;
  const handle = client.workflow.getHandle<() => Promise<unknown>>(workflowId, runId);
  const result = status.name === 'COMPLETED' ? await handle.result() : undefined;
  if (fieldsOf(result)['schema'] === SCHEMA) return { ...(result as Report), historyEvents: historyLength };
  const tail = status.name === 'RUNNING' ? undefined : tailOf(await handle.fetchHistory());
  const moved = handedOverResult.safeParse(result);
  if (moved.success) return handedOver(withoutAnswer(session, description, tail), moved.data);
  const pollers = await readPollers(session, description.taskQueue);
  const withinMs = DEADLINES_MS[pollers?.count === 0 ? 'unpolled' : 'polled'];
  try {
    const answer = await client.withDeadline(Date.now() + withinMs, () =>
      handle.query<Report | undefined | null, [RunTail?]>(QUERIES.report, ...(tail ? [tail] : [])),
    );
    return answer ?? withoutAnswer(session, description, tail);
  } catch (error) {
    throw unavailable(description, error, pollersText(description.taskQueue, pollers));
  }
}

const handedOverResult = z.object({ outcome: z.literal('handed-over'), workflowId: z.string(), runId: z.string() });

/** A run whose Workflow ID is not the lock only starts the actual run, or orders the take-over: its report names that run. */
function handedOver(report: Report, { workflowId, runId }: z.infer<typeof handedOverResult>): Report {
  const text = `It continues as ${escapeUntrusted(workflowId)} (run ${escapeUntrusted(runId)}).`;
  const next = `\`${shellLine('runbook', 'report', workflowId, '--run-id', runId)}\``;
  const finding = {
    at: report.endedAt ?? report.startedAt,
    severity: 'info',
    code: 'handed-over',
    text,
    next,
  } as const;
  return { ...report, outcome: 'handed-over', findings: [...report.findings, finding] };
}

/** The report of a run that ended before it began (refused input) or handed over: only what Temporal itself knows. */
function withoutAnswer(
  { namespace }: TemporalSession,
  { workflowId, runId, type: runbook, startTime, historyLength: events, memo }: WorkflowExecutionDescription,
  tail: RunTail | undefined,
): Report {
  const startedAt = startTime.getTime();
  const deployment = memo?.['deployment'];
  return reportOf({
    ...{ namespace, workflowId, runId, runbook, startedAt, events, phase: 'checking' },
    ...(typeof deployment === 'string' && { deployment }),
    ...{ asOf: tail?.close.at ?? startedAt, input: {}, activities: [], left: [], facts: [] },
    ...(tail && { close: tail.close }),
  });
}

/** The error that explains why no report is available, and what to do. */
function unavailable(
  { workflowId, runId, type }: WorkflowExecutionDescription,
  cause: unknown,
  polled: string,
): unknown {
  const refusal = (message: string, options: { observed?: string; needed?: string; next: string }) =>
    new RunbookError('REPORT_UNAVAILABLE', message, { ...options, cause });
  const files = 'If workers store reports as files (RUNBOOKS_REPORT_DIR), the report of an ended run is there.';
  const message = cause instanceof Error ? cause.message : '';
  if (/TMPRL1100|no such function is exported/.test(message))
    return refusal('The workers run a different version from the one that executed this run.', {
      observed: `the history of run ${runId} does not match the workers' code`,
      needed: 'a worker of the version that executed it',
      next: `${files} Otherwise start a worker of that version. The history shows what was done: \`${shellLine('temporal', 'workflow', 'show', '--workflow-id', workflowId, '--run-id', runId)}\``,
    });
  if (cause instanceof QueryNotRegisteredError)
    return refusal(`This run has no report: it is a ${escapeUntrusted(type)}, or the workers run different code.`, {
      next: nextCommandOf.status(workflowId),
    });
  if (refusalIn(cause)) return cause;
  // The client wraps the error of the server or the connection.
  if (!isGrpcServiceError(cause) && !isGrpcServiceError((cause as Error | undefined)?.cause)) return cause;
  return refusal('No worker answers, and only a worker can produce the report of this run.', {
    observed: polled,
    needed: 'a worker of this namespace and task queue',
    next: `Start one: \`runbook worker\`. ${files} To see what is known without a worker: \`${nextCommandOf.status(workflowId)}\``,
  });
}

/** Rows that fit on the screen of a terminal below the summary. */
const ROWS_SHOWN = 30;

/** The time line of a run, to scale, as its report draws it; none if no step began. */
export function timeLineLines(given: Report): string[] {
  const line = timeLineOf(inLines(given), ROWS_SHOWN);
  return line ? ['', ...timeLineText(line).map(terminalLine)] : [];
}

/**
 * A summary of an ended run: headline, reason for a refusal, other headlines, tokens, findings, what is left to do.
 *
 * @param brief - without tokens, findings that changed no outcome, and the size of the history
 */
export function summaryLines(given: Report, { brief = false } = {}): string[] {
  const report = inLines(given);
  const findings = findingsToShow(report).map((finding) => {
    const { title, text } = findingText(finding);
    return { failed: finding.code === CHECK_FAILED, line: `${title}${text}` };
  });
  const details = [
    ...report.tokens.map(({ cluster, state, text }) => `Operation token of ${cluster}: ${state}: ${text}`),
    ...findings.flatMap(({ failed, line }) => (failed ? [] : [line])),
  ];
  const texts = [
    ...findings.flatMap(({ failed, line }) => (failed ? [line] : [])),
    ...headlinesBelow(report).map(({ text }) => text),
    ...(brief ? [] : details),
    ...report.leftToDo.map((left) => `Left to do: ${left}`),
    ...(brief ? [] : laterOf(report)),
    ...(brief ? [] : [`History: ${report.historyEvents} events`]),
  ];
  return ['', ...terminalText(headlineOf(report).text), ...texts.flatMap((text) => terminalText(text, '  '))];
}
