import type { Client, HistoryAndWorkflowId } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import { Worker } from '@temporalio/worker';
import type { Logger } from 'pino';
import { RUNBOOK_NAMES } from '../contracts/names';
import { RunbookError } from '../errors';
import { REPLAY } from './workflow-code';
import type { WorkflowCode } from './workflow-code';

export interface ReplayRules {
  /** The Workflow IDs that this inventory locks with: known runbooks under them must replay, or nothing starts. */
  readonly locks: ReadonlySet<string>;
  /** Warn of those, too, and start all the same. */
  readonly ignoreFailures: boolean;
  readonly log: Logger;
  /** Sees each history before it is replayed. */
  readonly look: (run: HistoryAndWorkflowId) => void;
}

/**
 * Replays the histories of all open runs of a task queue with the workflows that are about to be polled for: code that
 * does not fit an open run would get it stuck with the lock held (temporal-rules 21). Anybody who writes to the namespace
 * can leave a run that does not replay, so that only those count which hold a lock of this inventory.
 *
 * @returns how many runs were looked at.
 * @throws RunbookError `STATE_DIVERGED`, naming every run that holds a lock and does not replay.
 */
export async function replayOpenRuns(
  client: Client,
  taskQueue: string,
  code: WorkflowCode,
  { locks, ignoreFailures, log, look }: ReplayRules,
): Promise<number> {
  const histories = await openHistories(client, taskQueue);
  histories.forEach(look);
  const holdsLock = (run: HistoryAndWorkflowId) => locks.has(run.workflowId) && isRunbook(run.history);
  const foreign = await misfits(
    code,
    histories.filter((run) => !holdsLock(run)),
  );
  const locking = await misfits(code, histories.filter(holdsLock));
  for (const run of ignoreFailures ? [...foreign, ...locking] : foreign) {
    const text =
      'An open run does not replay with this version: it will not go on. Terminate it, or let it end elsewhere';
    log.error({ ...run, code: 'STATE_DIVERGED' }, text);
  }
  if (locking.length > 0 && !ignoreFailures) {
    throw new RunbookError(
      'STATE_DIVERGED',
      `The workflows of this version do not fit ${locking.length} open run(s).`,
      {
        observed: `does not replay: ${locking.map(({ workflowId, runId }) => `${workflowId} (run ${runId})`).join(', ')}`,
        needed: 'every open run that holds a lock replays with this version',
        next: 'Let these runs end with the version that they were started with, then start this one. Where a run is none of yours, terminate it, or start with --ignore-replay-failures.',
      },
    );
  }
  return histories.length;
}

interface Misfit {
  readonly workflowId: string;
  readonly runId: string;
}

async function misfits(code: WorkflowCode, histories: readonly HistoryAndWorkflowId[]): Promise<Misfit[]> {
  if (histories.length === 0) return [];
  const found: Misfit[] = [];
  const results = Worker.runReplayHistories({ ...code, ...REPLAY }, histories);
  for await (const { workflowId, runId, error } of results) {
    if (error !== undefined) found.push({ workflowId, runId });
  }
  return found;
}

async function openHistories(client: Client, taskQueue: string): Promise<HistoryAndWorkflowId[]> {
  const query = `TaskQueue = '${taskQueue.replaceAll("'", "''")}' AND ExecutionStatus = 'Running'`;
  const histories: HistoryAndWorkflowId[] = [];
  for await (const item of client.workflow.list({ query }).intoHistories()) {
    // A run that no worker has touched yet has nothing to replay.
    if (hasBeenWorkedOn(item.history)) histories.push(item);
  }
  return histories;
}

function hasBeenWorkedOn(history: unknown): boolean {
  return eventsOf(history).some((event) => event.workflowTaskCompletedEventAttributes);
}

function isRunbook(history: unknown): boolean {
  const type = eventsOf(history)[0]?.workflowExecutionStartedEventAttributes?.workflowType?.name;
  return RUNBOOK_NAMES.some((name) => name === type);
}

function eventsOf(history: unknown): readonly temporal.api.history.v1.IHistoryEvent[] {
  // The client gives the decoded message; the type leaves room for JSON, which only callers of the replay give.
  return (history as temporal.api.history.v1.IHistory).events ?? [];
}
