import { WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { RunbookName } from '../contracts/names';
import { nextCommandOf } from '../contracts/next-commands';
import { startMetadata } from '../contracts/start-metadata';
import { RunbookError } from '../errors';
import { taskQueueSetting } from '../worker/settings';
import type { CommandHost } from './command-host';
import type { CheckedInput } from './commands/runbooks';
import { readRunView } from './run';
import type { TemporalSession } from './run';

/**
 * Starts a run under a Workflow ID.
 *
 * @param workflowIdConflictPolicy - `USE_EXISTING`: a run that is open already answers the same question
 * @returns its Run ID
 * @throws RunbookError `LOCK_HELD`
 */
export async function startRun(
  { context }: CommandHost,
  session: TemporalSession,
  runbook: RunbookName,
  workflowId: string,
  input: CheckedInput,
  workflowIdConflictPolicy: 'FAIL' | 'USE_EXISTING' = 'FAIL',
): Promise<string> {
  try {
    const handle = await session.client.workflow.start(runbook, {
      workflowId,
      taskQueue: taskQueueSetting(context.env),
      args: [input.object],
      // Shown until a worker has picked up the run.
      memo: { runbook, deployment: input.deployment },
      // The lock: a second run with the same ID is refused, and never ends the running one.
      workflowIdConflictPolicy,
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      ...startMetadata(runbook, input.object),
    });
    return handle.firstExecutionRunId;
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    const { status, memo, ...holder } = await readRunView(session, { workflowId });
    const phase = status?.phase ?? memo?.phase;
    throw new RunbookError('LOCK_HELD', `${workflowId} is held by a run of ${holder.runbook}. Nothing was started.`, {
      observed: `run ${holder.runId}, ${holder.state} since ${holder.startedAt}${phase === undefined ? '' : `, phase ${phase}`}`,
      needed: 'no open run with this Workflow ID',
      next: `Check it with "${nextCommandOf.status(workflowId)}". Start again when it has ended.`,
    });
  }
}
