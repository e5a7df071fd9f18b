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
  const found = await misfits(code, histories);
  const locking = found.filter(
    ({ workflowId, type }) => locks.has(workflowId) && RUNBOOK_NAMES.some((name) => name === type),
  );
  for (const { workflowId, runId } of ignoreFailures ? found : found.filter((each) => !locking.includes(each))) {
    const text =
      'An open run does not replay with this version: it will not go on. Terminate it, or let it end elsewhere';
    log.error({ workflowId, runId, code: 'STATE_DIVERGED' }, text);
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

/** The runs that do not replay, with their types. */
async function misfits(code: WorkflowCode, histories: readonly HistoryAndWorkflowId[]) {
  const found: { readonly workflowId: string; readonly runId: string; readonly type: string | undefined }[] = [];
  if (histories.length === 0) return found;
  for await (const { workflowId, runId, error } of Worker.runReplayHistories({ ...code, ...REPLAY }, histories)) {
    if (error === undefined) continue;
    // Of the runs of one queue only one is open under a Workflow ID.
    const [started] = eventsOf(histories.find((each) => each.workflowId === workflowId)?.history);
    const type = started?.workflowExecutionStartedEventAttributes?.workflowType?.name ?? undefined;
    found.push({ workflowId, runId, type });
  }
  return found;
}

async function openHistories(client: Client, taskQueue: string): Promise<HistoryAndWorkflowId[]> {
  const query = `TaskQueue = '${taskQueue.replaceAll("'", "''")}' AND ExecutionStatus = 'Running'`;
  const histories: HistoryAndWorkflowId[] = [];
  for await (const item of client.workflow.list({ query }).intoHistories()) {
    // A run that no worker has touched yet has nothing to replay.
    if (eventsOf(item.history).some((event) => event.workflowTaskCompletedEventAttributes)) histories.push(item);
  }
  return histories;
}

function eventsOf(history: unknown): readonly temporal.api.history.v1.IHistoryEvent[] {
  // The client gives the decoded message; the type leaves room for JSON, which only callers of the replay give.
  return (history as temporal.api.history.v1.IHistory | undefined)?.events ?? [];
}
