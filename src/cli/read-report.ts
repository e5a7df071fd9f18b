import { QueryNotRegisteredError, isGrpcServiceError } from '@temporalio/client';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import type { OutageSplit, Report } from '../contracts/report';
import { QUERIES } from '../contracts/signals';
import { CHECK_FAILED } from '../contracts/alarms';
import { nextCommandOf } from '../contracts/next-commands';
import { RunbookError } from '../errors';
import { tailOf } from '../report/run-history';
import type { RunTail } from '../report/run-record';
import { reportOf } from '../report/report-of-run';
import { findingText } from '../words/status';
import { describe } from './run';
import type { RunReference } from './run';
import type { TemporalSession } from './temporal';
import { escapeUntrusted, inLines, inWords, shellLine, terminalText } from './text';

/** A worker replays the whole run to answer. */
const DEADLINE_MS = 10_000;
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
  if (isHandedOver(result)) return handedOver(withoutAnswer(session, description, tail), result);
  try {
    const answer = await client.withDeadline(Date.now() + DEADLINE_MS, () =>
      handle.query<Report | undefined | null, [RunTail?]>(QUERIES.report, ...(tail ? [tail] : [])),
    );
    return answer ?? withoutAnswer(session, description, tail);
  } catch (error) {
    throw unavailable(description, error);
  }
}

function isReport(value: unknown): value is Report {
  return typeof value === 'object' && value !== null && (value as Partial<Report>).schema === SCHEMA;
}

interface HandedOver {
  readonly outcome: 'handed-over';
  readonly workflowId: string;
  readonly runId: string;
}

function isHandedOver(value: unknown): value is HandedOver {
  return typeof value === 'object' && value !== null && (value as Partial<HandedOver>).outcome === 'handed-over';
}

/** A run under another Workflow ID than the lock only starts the real one, or orders it: its report names that one. */
function handedOver(report: Report, { workflowId, runId }: HandedOver): Report {
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
    ...{ asOf: tail?.close.at ?? startedAt, input: {}, activities: [], signals: [], facts: [] },
    ...(tail && { close: tail.close }),
  });
}

/** Why nobody could give the report, in words that are true, and what to do. */
function unavailable({ workflowId, runId, type }: WorkflowExecutionDescription, cause: unknown): unknown {
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
    observed: `no answer within ${DEADLINE_MS / 1_000} s`,
    needed: 'a worker of this namespace and task queue',
    next: `Start one: \`runbook worker\`. ${files} What is known without a worker: \`${nextCommandOf.status(workflowId)}\``,
  });
}

/** The end of a run in a few lines: outcome, outage split, loss, findings, what is left to do. */
export function summaryLines(given: Report): string[] {
  const report = inLines(given);
  const { outage, loss, withoutDrProtection } = report;
  const unprotected = withoutDrProtection?.totalMs;
  const held = report.clientsHeld?.totalMs;
  const findings = report.findings.map((each) => {
    const { title, text } = findingText(each);
    return `${title}${text}`;
  });
  const failed = findings.filter((_, index) => report.findings[index]?.code === CHECK_FAILED);
  const texts = [
    ...failed,
    ...(held === undefined ? [] : [`Clients held, from the quiesce to their release: ${inWords(held)}`]),
    ...(loss === undefined ? [] : [`Loss: ${loss.loss}. ${loss.why}`]),
    ...(unprotected === undefined ? [] : [`Without DR protection: ${inWords(unprotected)}`]),
    ...report.tokens.map(({ cluster, state, text }) => `Operation token of ${cluster}: ${state}. ${text}`),
    ...findings.filter((each) => !failed.includes(each)),
    ...report.leftToDo.map((left) => `Left to do: ${left}`),
  ];
  return [
    '',
    `${report.runbook} of ${report.deployment ?? 'unknown deployment'}: ${report.outcome.toUpperCase()}`,
    ...(outage === undefined ? [] : outageLines(outage)),
    ...texts.flatMap((text) => terminalText(text, '  ')),
    `  History: ${report.historyEvents} events`,
  ];
}

/** How long clients had no primary, and where the time went. */
function outageLines({ totalMs, endedBy, beforeRunMs, serviceMs, machineMs, peopleMs }: OutageSplit): string[] {
  const part = (ms: number | undefined, none = 'unknown'): string => (ms === undefined ? none : inWords(ms));
  const how = endedBy === 'probe' ? "first success through the clients' address" : 'service ready';
  return [
    `  Outage: ${part(totalMs, 'not over')}${endedBy === undefined ? '' : `, ended by ${how}`}`,
    `    ${beforeRunMs === undefined ? '' : `before this run began ${part(beforeRunMs)}, `}service ${part(serviceMs)}, machine ${part(machineMs)}, people ${part(peopleMs)}`,
  ];
}
