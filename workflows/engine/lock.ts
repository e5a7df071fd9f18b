import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { ApplicationFailure, ParentClosePolicy, proxyActivities, startChild, workflowInfo } from '@temporalio/workflow';
import type { RunbookActivities } from '../../activities';
import type { RunbookName } from '../../src/contracts/names';
import type { InputOf } from '../../src/contracts/runbook-inputs';

/** What a run that was started under another Workflow ID gives: where the real run is. */
export interface HandedOver {
  readonly outcome: 'handed-over';
  readonly workflowId: string;
  readonly runId: string;
  readonly link?: string;
  /** The runbook that was told to become this failover; its receipts say what came of it. */
  readonly tookOver?: string;
}

const { describeRun, requestTakeOver } = proxyActivities<Pick<RunbookActivities, 'describeRun' | 'requestTakeOver'>>({
  startToCloseTimeout: '30 seconds',
  scheduleToCloseTimeout: '1 minute',
});

/**
 * Starts the real run under the Workflow ID that is the lock, to live on its own. Temporal allows one open run per ID:
 * where the lock is held this fails at once and names the holder, or tells it to become the failover.
 */
export async function handOver(
  workflowType: string,
  lockId: string,
  input: unknown,
  takeOver: InputOf<'drFailover'> | undefined,
): Promise<HandedOver> {
  try {
    const child = await startChild(workflowType, {
      workflowId: lockId,
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      parentClosePolicy: ParentClosePolicy.ABANDON,
      args: [input],
      staticSummary: `handed over from ${workflowInfo().workflowId}`,
    });
    const started = await describeRun({ workflowId: lockId });
    return { outcome: 'handed-over', workflowId: lockId, runId: child.firstExecutionRunId, link: started.link };
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    const holder = await describeRun({ workflowId: lockId });
    if (takeOver && holder.terminate === undefined && holder.type !== 'drFailover') {
      await requestTakeOver({ workflowId: lockId, runId: holder.runId, input: takeOver });
      return {
        outcome: 'handed-over',
        workflowId: lockId,
        runId: holder.runId,
        link: holder.link,
        tookOver: holder.type,
      };
    }
    const { type, runId, status, taskQueue, startedBy, terminate } = holder;
    const known = `${lockId} is held by ${type} (run ${runId}, ${status}`;
    const [foreign, next] =
      terminate === undefined
        ? [
            '',
            `Look at it: \`runbook status ${lockId}\`. Start again when it has ended; a failover takes it over with {"takeOver": true}.`,
          ]
        : [
            `, task queue ${taskQueue}, started by ${startedBy}`,
            `An administrator of Temporal looks at it and at who started it, and ends it: \`${terminate}\`. Then start again.`,
          ];
    const ours = terminate === undefined ? '' : ', which is no runbook of these workers';
    throw ApplicationFailure.create({
      type: 'LOCK_HELD',
      nonRetryable: true,
      message: `${known}${foreign})${ours}. Nothing was touched.`,
      details: [{ ...holder, next }],
    });
  }
}

/** The input with which a failover asks for the lock of another run; undefined where it does not ask. */
export function takeOverOf(runbook: RunbookName, input: object): InputOf<'drFailover'> | undefined {
  if (runbook !== 'drFailover') return undefined;
  const asked = input as InputOf<'drFailover'>;
  return asked.takeOver && !asked.dryRun ? asked : undefined;
}

/** Refuses to run where the server could end the run without its clean-up. */
export function refuseTimeouts(): void {
  const { executionTimeoutMs, runTimeoutMs, retryPolicy, cronSchedule } = workflowInfo();
  const set = [
    (executionTimeoutMs ?? 0) > 0 && 'an execution timeout',
    (runTimeoutMs ?? 0) > 0 && 'a run timeout',
    retryPolicy && 'a retry policy',
    cronSchedule && 'a cron schedule',
  ].filter((each) => typeof each === 'string');
  if (set.length === 0) return;
  throw ApplicationFailure.create({
    type: 'RUN_TIMEOUT_SET',
    nonRetryable: true,
    message: `This run was started with ${set.join(' and ')}, which would end it without clean-up. Nothing was touched.`,
    details: [{ observed: set.join(', '), needed: 'none of them', next: 'Start the runbook again without it.' }],
  });
}
