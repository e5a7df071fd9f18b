import type { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { temporal } from '@temporalio/proto';
import type { Served } from '../report/run-record';

const { TIMEOUT_TYPE_HEARTBEAT, TIMEOUT_TYPE_START_TO_CLOSE } = temporal.api.enums.v1.TimeoutType;

/**
 * Adds to each result and each failure when the last attempt began and ended, and its number. A run learns of the end
 * of an activity only at its next workflow task. Without this data it could not distinguish the time that the service
 * took from the time that Temporal and the workers took.
 */
export const measureActivities: ActivityInterceptorsFactory = (context) => ({
  inbound: { execute: (input, next) => measure(context, () => next(input)) },
});

async function measure(context: Context, activity: () => Promise<unknown>): Promise<unknown> {
  const { attempt: tries } = context.info;
  const from = Date.now();
  const lost = tries > 1 ? workerLost(context) : Promise.resolve(false);
  const served = async (): Promise<Served> => ({
    ...{ from, to: Date.now(), tries },
    ...((await lost) && { workerLost: true }),
  });
  try {
    const result = await activity();
    if (typeof result !== 'object' || result === null || Array.isArray(result)) return result;
    return { ...result, served: await served() };
  } catch (error) {
    if (!(error instanceof ApplicationFailure)) throw error;
    const { message, type, nonRetryable, details, nextRetryDelay } = error;
    throw ApplicationFailure.create({
      message,
      details: [details?.[0] ?? {}, { served: await served() }],
      ...(typeof type === 'string' && { type }),
      nonRetryable: nonRetryable === true,
      ...(nextRetryDelay && { nextRetryDelay }),
    });
  }
}

/** Whether, according to the Temporal server, the previous attempt ended because its worker was lost. */
async function workerLost({ info, client }: Context): Promise<boolean> {
  const run = info.workflowExecution;
  if (!run) return false;
  try {
    const { raw } = await client.workflow.getHandle(run.workflowId, run.runId).describe();
    const pending = raw.pendingActivities?.find(({ activityId }) => activityId === info.activityId);
    const type = pending?.lastFailure?.timeoutFailureInfo?.timeoutType;
    return type === TIMEOUT_TYPE_HEARTBEAT || type === TIMEOUT_TYPE_START_TO_CLOSE;
  } catch {
    return false;
  }
}
