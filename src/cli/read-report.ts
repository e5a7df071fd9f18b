import { QueryNotRegisteredError, isGrpcServiceError } from '@temporalio/client';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import type { Report } from '../contracts/report';
import { QUERIES } from '../contracts/signals';
import { RunbookError } from '../errors';
import { tailOf } from '../report/run-history';
import type { RunTail } from '../report/run-record';
import { reportOf } from '../report/report-of-run';
import type { RunReference } from './history';
import { describe } from './run-view';
import type { TemporalSession } from './temporal';
import { escapeUntrusted, shellLine } from './text';

/** A worker replays the whole run to answer. */
const DEADLINE_MS = 10_000;
const SCHEMA: Report['schema'] = 'replication-runbooks/report/v1';

/**
 * The report of a run: the result of one that ended with it; else what the run answers, which a worker replays also for a
 * closed one. How a run was closed from outside, and what of its last orders Temporal never took, is read from the end of
 * its history.
 *
 * @throws RunbookError `NOT_FOUND`; `REPORT_UNAVAILABLE` where no worker answers, or none that fits this run
 */
export async function readReport(session: TemporalSession, run: RunReference): Promise<Report> {
  const { client } = session;
  const description = await describe(client, run);
  const { workflowId, runId, status, historyLength } = description;
  const handle = client.workflow.getHandle<() => Promise<unknown>>(workflowId, runId);
  if (status.name === 'COMPLETED') {
    const result = await handle.result();
    if (isReport(result)) return { ...result, historyEvents: historyLength };
  }
  const tail = status.name === 'RUNNING' ? undefined : tailOf(await handle.fetchHistory());
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

/** Of a run that ended before it began, such as a refused input or one handed over: what Temporal alone knows. */
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

/** Why nobody told the report, in words that are true, and what to do. */
function unavailable({ workflowId, runId, type }: WorkflowExecutionDescription, cause: unknown): unknown {
  const message = cause instanceof Error ? cause.message : '';
  const files = 'Where workers keep reports as files (RUNBOOKS_REPORT_DIR), that of an ended run lies there.';
  if (/TMPRL1100|no such function is exported/.test(message))
    return new RunbookError(
      'REPORT_UNAVAILABLE',
      'The workers run another version than the one that this run ran with.',
      {
        observed: `the history of run ${runId} does not fit the workers' code`,
        needed: `a worker of the version that ran it`,
        next: `${files} Else start a worker of that version. What was done stands in the history: \`${shellLine('temporal', 'workflow', 'show', '--workflow-id', workflowId, '--run-id', runId)}\``,
        cause,
      },
    );
  if (cause instanceof QueryNotRegisteredError)
    return new RunbookError(
      'REPORT_UNAVAILABLE',
      `This run tells no report: it is a ${escapeUntrusted(type)}, or the workers' code is another.`,
      {
        next: shellLine('runbook', 'status', workflowId),
        cause,
      },
    );
  // The client wraps what the server or the connection said.
  if (!isGrpcServiceError(cause) && !isGrpcServiceError((cause as Error | undefined)?.cause)) return cause;
  return new RunbookError(
    'REPORT_UNAVAILABLE',
    'No worker answers, and only a worker can tell the report of this run.',
    {
      observed: `no answer within ${DEADLINE_MS / 1_000} s`,
      needed: 'a worker of this namespace and task queue',
      next: `Start one: \`runbook worker\`. ${files} What is known without a worker: \`${shellLine('runbook', 'status', workflowId)}\``,
      cause,
    },
  );
}
