import type { Client, HistoryAndWorkflowId } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import { Worker } from '@temporalio/worker';
import { RunbookError } from '../errors';
import { PAYLOAD_CONVERTER_PATH } from './workflow-code';
import type { WorkflowCode } from './workflow-code';

/**
 * Replays the histories of all open runs of a task queue with the workflows that are about to be polled for: code that
 * does not fit an open run would get it stuck with the lock held (temporal-rules 21).
 *
 * @param look sees each of these histories before it is replayed.
 * @returns how many runs were replayed.
 * @throws RunbookError `STATE_DIVERGED`, naming every run that does not replay.
 */
export async function replayOpenRuns(
  client: Client,
  taskQueue: string,
  code: WorkflowCode,
  look: (run: HistoryAndWorkflowId) => void = () => undefined,
): Promise<number> {
  const histories = await openHistories(client, taskQueue);
  histories.forEach(look);
  if (histories.length === 0) return 0;
  const failed: string[] = [];
  const results = Worker.runReplayHistories(
    { ...code, dataConverter: { payloadConverterPath: PAYLOAD_CONVERTER_PATH } },
    histories,
  );
  for await (const { workflowId, runId, error } of results) {
    if (error !== undefined) failed.push(`${workflowId} (run ${runId})`);
  }
  if (failed.length > 0) {
    throw new RunbookError('STATE_DIVERGED', `The workflows of this version do not fit ${failed.length} open run(s).`, {
      observed: `does not replay: ${failed.join(', ')}`,
      needed: 'every open run replays with this version',
      next: 'Let these runs end with the version that they were started with, then start this one.',
    });
  }
  return histories.length;
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
  // The client gives the decoded message; the type leaves room for JSON, which only callers of the replay give.
  const { events } = history as temporal.api.history.v1.IHistory;
  return events?.some((event) => event.workflowTaskCompletedEventAttributes) ?? false;
}
