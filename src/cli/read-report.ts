import { readFile } from 'node:fs/promises';
import { QueryNotRegisteredError, isGrpcServiceError } from '@temporalio/client';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import { z } from 'zod';
import { CHECK_FAILED } from '../contracts/alarms';
import { nextCommandOf } from '../contracts/next-commands';
import { reportSchema } from '../contracts/report';
import type { Report } from '../contracts/report';
import { QUERIES } from '../contracts/signals';
import { RunbookError, errnoOf } from '../errors';
import { headlineOf, headlinesBelow } from '../report/headlines';
import { digestOf, markIn, tailOf, closeOf } from '../report/run-history';
import type { ReportMark } from '../report/run-history';
import { reportOf } from '../report/report-of-run';
import type { RunTail } from '../report/run-record';
import { findingText } from '../words/status';
import { isNoRun } from './errors';
import { describe, pollersInWords, readPollers } from './run';
import type { RunReference, TemporalSession } from './run';
import { escapeUntrusted, inLines, shellLine, terminalText } from './text';

/** A worker replays the whole run to answer; where nobody polls, one may be starting. */
const DEADLINES_MS = { polled: 10_000, unpolled: 2_000 };
const SCHEMA: Report['schema'] = 'replication-runbooks/report/v1';

/**
 * The report of a run: the result of one that ended with it; else what the run answers, which a worker replays also for a
 * closed one. How a run was closed from outside, and which of its last orders Temporal never took, is read from the end of
 * its history.
 *
 * @throws RunbookError `NOT_FOUND`; `REPORT_UNAVAILABLE` where no worker answers, or none that fits this run
 */
export async function readReport(session: TemporalSession, run: RunReference): Promise<Report> {
  const { client } = session;
  const description = await describe(client, run);
  const { workflowId, runId, status, historyLength } = description;
  const handle = client.workflow.getHandle<() => Promise<unknown>>(workflowId, runId);
  const result = status.name === 'COMPLETED' ? await handle.result() : undefined;
  if (isReport(result)) return { ...result, historyEvents: historyLength };
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
    throw unavailable(description, error, pollersInWords(description.taskQueue, pollers));
  }
}

function isReport(value: unknown): value is Report {
  return typeof value === 'object' && value !== null && (value as Partial<Report>).schema === SCHEMA;
}

const handedOverResult = z.object({ outcome: z.literal('handed-over'), workflowId: z.string(), runId: z.string() });

/** A run under another Workflow ID than the lock only starts the real one, or orders it: its report names that one. */
function handedOver(report: Report, { workflowId, runId }: z.infer<typeof handedOverResult>): Report {
  const text = `It goes on as ${escapeUntrusted(workflowId)} (run ${escapeUntrusted(runId)}).`;
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

/** Of a run that ended before it began, such as a refused input or one that handed over: what Temporal alone knows. */
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

/** Why nobody could give the report, in words that are true, and what to do. */
function unavailable(
  { workflowId, runId, type }: WorkflowExecutionDescription,
  cause: unknown,
  polled: string,
): unknown {
  const refusal = (message: string, options: { observed?: string; needed?: string; next: string }) =>
    new RunbookError('REPORT_UNAVAILABLE', message, { ...options, cause });
  const files = 'Where workers keep reports as files (RUNBOOKS_REPORT_DIR), that of an ended run lies there.';
  const message = cause instanceof Error ? cause.message : '';
  if (/TMPRL1100|no such function is exported/.test(message))
    return refusal('The workers run a different version from the one that ran this run.', {
      observed: `the history of run ${runId} does not fit the workers' code`,
      needed: 'a worker of the version that ran it',
      next: `${files} Else start a worker of that version. What was done stands in the history: \`${shellLine('temporal', 'workflow', 'show', '--workflow-id', workflowId, '--run-id', runId)}\``,
    });
  if (cause instanceof QueryNotRegisteredError)
    return refusal(`This run has no report: it is a ${escapeUntrusted(type)}, or the workers run other code.`, {
      next: nextCommandOf.status(workflowId),
    });
  // The client wraps what the server or the connection said.
  if (!isGrpcServiceError(cause) && !isGrpcServiceError((cause as Error | undefined)?.cause)) return cause;
  return refusal('No worker answers, and only a worker can give the report of this run.', {
    observed: polled,
    needed: 'a worker of this namespace and task queue',
    next: `Start one: \`runbook worker\`. ${files} What is known without a worker: \`${nextCommandOf.status(workflowId)}\``,
  });
}

/** The end of a run in a few lines: what its report says first and why it was refused, then tokens, findings, what is left to do. */
export function summaryLines(given: Report): string[] {
  const report = inLines(given);
  const findings = report.findings.map((finding) => {
    const { title, text } = findingText(finding);
    return { failed: finding.code === CHECK_FAILED, line: `${title}${text}` };
  });
  const texts = [
    ...findings.flatMap(({ failed, line }) => (failed ? [line] : [])),
    ...headlinesBelow(report).map(({ text }) => text),
    ...report.tokens.map(({ cluster, state, text }) => `Operation token of ${cluster}: ${state}. ${text}`),
    ...findings.flatMap(({ failed, line }) => (failed ? [] : [line])),
    ...report.leftToDo.map((left) => `Left to do: ${left}`),
    `History: ${report.historyEvents} events`,
  ];
  return ['', ...terminalText(headlineOf(report).text), ...texts.flatMap((text) => terminalText(text, '  '))];
}

const marked = reportSchema
  .pick({ namespace: true, workflowId: true, runId: true })
  .extend({ history: reportSchema.shape.history.unwrap() });

/** The report of a run, with a digest of its history as it is now. */
export async function readProvableReport(session: TemporalSession, run: RunReference): Promise<Report> {
  const report = await readReport(session, run);
  const { workflowId, runId, outcome, asOfEvent } = report;
  const events = await session.client.workflow.getHandle(workflowId, runId).fetchHistory();
  const closed = outcome !== 'running';
  // What an open run was seen to do, and no more: later events may still be taken back.
  return { ...report, history: { ...digestOf(events, closed ? undefined : asOfEvent), closed } };
}

/**
 * Proves that a report was made beside the history that the server has of the run, and says what the run says.
 *
 * @param render - the rendering of each format but JSON
 * @param say - is given what was proven as soon as it is
 * @returns what was proven: of an open run the history alone, whatever the report claims of it
 * @throws RunbookError `DOCUMENT_INVALID` where something differs, `NOT_FOUND` where the history is gone
 */
export async function verifyReport(
  session: TemporalSession,
  file: string,
  render: Readonly<Record<'md' | 'html', (report: Report) => string>>,
  say: (line: string) => void,
): Promise<'all' | 'history'> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new RunbookError('NOT_FOUND', `${file} cannot be read (${errnoOf(error) ?? 'unknown reason'}).`);
  });
  const { format, mark } = claimedBy(file, text);
  const { namespace, workflowId, runId, history: claimed } = mark;
  if (namespace !== session.namespace)
    throw new RunbookError('INVALID_INPUT', `The report is of namespace ${escapeUntrusted(namespace)}.`, {
      observed: `this command reads namespace ${session.namespace}`,
      next: `Verify again: \`${shellLine('runbook', 'report', '--verify', file, '--namespace', namespace)}\``,
    });
  const found = await historyOf(session, mark);
  const now = digestOf(found, claimed.events);
  if (now.events !== claimed.events || now.sha256 !== claimed.sha256)
    throw differs(
      'The history of the run is not the one of this report.',
      `${now.events} events with SHA-256 ${now.sha256} instead of ${claimed.events} with ${claimed.sha256}`,
    );
  say(
    `History: match. ${escapeUntrusted(workflowId)}, run ${escapeUntrusted(runId)}, events 1 to ${now.events}, SHA-256 ${now.sha256}`,
  );
  const last = found.events?.[claimed.events - 1];
  if (last === undefined || (!claimed.closed && closeOf(last) !== undefined))
    throw differs('The report does not say what it covers.', last ? 'a run that is open at its end' : 'no event');
  if (!claimed.closed) {
    say('Contents: not compared. The run was open when the report was made, and went on.');
    return 'history';
  }
  const fresh = await readProvableReport(session, { workflowId, runId });
  const different =
    format === 'json'
      ? firstDifference(lined(JSON.parse(text)), lined(fresh))
      : firstDifference(text, render[format](fresh));
  if (different !== undefined)
    throw differs('The history matches, but the report does not say what the run says.', different);
  say('Contents: match. The report says what the run says.');
  return 'all';
}

function claimedBy(file: string, text: string) {
  const format = text.trimStart().startsWith('{') ? 'json' : text.trimStart().startsWith('<') ? 'html' : 'md';
  try {
    const claimed: unknown = format === 'json' ? JSON.parse(text) : markIn(text);
    return { format, mark: marked.strip().parse(claimed) } as const;
  } catch (cause) {
    throw new RunbookError('DOCUMENT_INVALID', `${file} carries no digest of a history.`, {
      needed: 'a report as `runbook report` makes it; a file that a worker wrote cannot hold the end of its run',
      next: 'Make one that does: `runbook report WORKFLOW-ID --run-id RUN-ID --output DIRECTORY`',
      cause,
    });
  }
}

async function historyOf({ client }: TemporalSession, { workflowId, runId }: ReportMark) {
  try {
    return await client.workflow.getHandle(workflowId, runId).fetchHistory();
  } catch (error) {
    if (!isNoRun(error)) throw error;
    throw new RunbookError(
      'NOT_FOUND',
      'The server has no history of this run any more: nothing can be proven by it.',
      {
        observed: `${workflowId}, run ${runId}`,
        needed: 'a history within the retention of the namespace, or an archived one',
      },
    );
  }
}

function differs(message: string, observed: string): RunbookError {
  return new RunbookError('DOCUMENT_INVALID', message, {
    observed,
    needed: 'a report that nobody changed, verified by the version of this program that made it',
  });
}

/** The first line of a rendering that differs. */
function firstDifference(given: string, fresh: string): string | undefined {
  const [lines, others] = [given.trimEnd().split('\n'), fresh.trimEnd().split('\n')];
  const at = [...lines, ''].findIndex((line, index) => line !== (others[index] ?? ''));
  return at < 0 ? undefined : `line ${at + 1}: ${escapeUntrusted((lines[at] ?? 'nothing').slice(0, SHOWN))}`;
}

const SHOWN = 80;
const lined = (value: unknown) => JSON.stringify(value, undefined, 2);
