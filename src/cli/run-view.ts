import { isGrpcDeadlineError } from '@temporalio/client';
import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { temporal } from '@temporalio/proto';
import { QUERIES } from '../contracts/signals';
import type { RunMemo, RunStatus } from '../contracts/run-status';
import { asNotFound } from './history';
import type { RunReference } from './history';
import type { TemporalSession } from './temporal';

/** An activity that is under way or waits for its next try. */
export interface PendingActivity {
  readonly type: string;
  readonly attempt: number;
  /** Started and not answered, or scheduled and waiting for a worker or a retry. */
  readonly started: boolean;
  readonly lastFailure?: string;
  readonly lastHeartbeatAgeMs?: number;
}

/** Who polls a task queue, as the server remembers it for some minutes. */
export interface Pollers {
  readonly count: number;
  /** Age of the newest poll. */
  readonly lastSeenMs?: number;
}

/** What can be said of a run without a worker, and the worker's answer where there is one. */
export interface RunView {
  readonly workflowId: string;
  readonly runId: string;
  readonly runbook: string;
  readonly taskQueue: string;
  /** Temporal's status in lower case: running, completed, failed, terminated, ... */
  readonly state: string;
  readonly startedAt: string;
  readonly closedAt?: string;
  /** Events of the history when it was described. */
  readonly asOfEvent: number;
  readonly memo?: RunMemo;
  readonly pendingActivities: readonly PendingActivity[];
  readonly pollers?: Pollers;
  /** The answer of the `status` query; absent where no worker answered in time. */
  readonly status?: RunStatus;
}

const QUERY_DEADLINE_MS = 3_000;
/** Of the second query to a worker that polls and did not answer the first: it may be busy, or replay a long history. */
const BUSY_QUERY_DEADLINE_MS = 12_000;
/** A worker that lives polls at least this often. */
const POLLED_LATELY_MS = 65_000;
const POLLERS_DEADLINE_MS = 2_000;

/**
 * Reads a run: first what the server knows by itself, then the status query with a deadline of 3 s, and once more with a
 * longer one where a worker polls, unless the run is looked at again and again. It never hangs on a worker that is gone.
 *
 * @throws RunbookError `NOT_FOUND`.
 */
export async function readRunView(
  session: TemporalSession,
  run: RunReference,
  { again = false }: { readonly again?: boolean } = {},
): Promise<RunView> {
  const { client } = session;
  const description = await describe(client, run);
  const exactly = { workflowId: description.workflowId, runId: description.runId };
  const [pollers, atOnce] = await Promise.all([
    readPollers(session, description.taskQueue),
    queryStatus(client, exactly),
  ]);
  const polled = (pollers?.lastSeenMs ?? Infinity) < POLLED_LATELY_MS;
  const status = atOnce ?? (polled && !again ? await queryStatus(client, exactly, BUSY_QUERY_DEADLINE_MS) : undefined);
  const memo = readMemo(description);
  return {
    workflowId: description.workflowId,
    runId: description.runId,
    runbook: description.type,
    taskQueue: description.taskQueue,
    state: description.status.name.toLowerCase(),
    startedAt: description.startTime.toISOString(),
    ...(description.closeTime === undefined ? {} : { closedAt: description.closeTime.toISOString() }),
    asOfEvent: description.historyLength,
    ...(memo === undefined ? {} : { memo }),
    pendingActivities: (description.raw.pendingActivities ?? []).map(pendingActivity),
    ...(pollers === undefined ? {} : { pollers }),
    ...(status === undefined ? {} : { status }),
  };
}

/** @throws RunbookError `NOT_FOUND`. */
export async function describe(client: Client, run: RunReference): Promise<WorkflowExecutionDescription> {
  try {
    return await client.workflow.getHandle(run.workflowId, run.runId).describe();
  } catch (error) {
    throw asNotFound(error, run);
  }
}

/** Answer of a query, or undefined where no worker answers within 3 s or the run does not know it. */
export async function queryRun<T>(
  client: Client,
  run: RunReference,
  query: string,
  withinMs = QUERY_DEADLINE_MS,
): Promise<T | undefined> {
  try {
    return await client.withDeadline(Date.now() + withinMs, () =>
      client.workflow.getHandle(run.workflowId, run.runId).query<T>(query),
    );
  } catch {
    return undefined;
  }
}

/** The `status` of a run, or undefined where no worker answers in time, which is 3 s where nothing else is said. */
export function queryStatus(client: Client, run: RunReference, withinMs?: number): Promise<RunStatus | undefined> {
  return queryRun<RunStatus>(client, run, QUERIES.status, withinMs);
}

async function readPollers({ client, namespace }: TemporalSession, taskQueue: string): Promise<Pollers | undefined> {
  const { TaskQueueType } = temporal.api.enums.v1;
  try {
    const { pollers } = await client.withDeadline(Date.now() + POLLERS_DEADLINE_MS, () =>
      client.workflowService.describeTaskQueue({
        namespace,
        taskQueue: { name: taskQueue },
        taskQueueType: TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
      }),
    );
    const seen = pollers.flatMap(({ lastAccessTime }) =>
      lastAccessTime ? [Number(lastAccessTime.seconds) * 1000] : [],
    );
    return {
      count: pollers.length,
      ...(seen.length === 0 ? {} : { lastSeenMs: Math.max(0, Date.now() - Math.max(...seen)) }),
    };
  } catch (error) {
    if (isGrpcDeadlineError(error)) return undefined;
    throw error;
  }
}

function readMemo({ memo }: WorkflowExecutionDescription): RunMemo | undefined {
  if (memo === undefined || !('phase' in memo)) return undefined;
  // Written by the run itself in this shape.
  return memo as unknown as RunMemo;
}

function pendingActivity(pending: temporal.api.workflow.v1.IPendingActivityInfo): PendingActivity {
  const failure = pending.lastFailure?.applicationFailureInfo?.type ?? pending.lastFailure?.message;
  const heartbeat = pending.lastHeartbeatTime?.seconds;
  return {
    type: pending.activityType?.name ?? 'unknown',
    attempt: pending.attempt ?? 1,
    started: pending.state === temporal.api.enums.v1.PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
    ...(failure ? { lastFailure: failure } : {}),
    ...(heartbeat ? { lastHeartbeatAgeMs: Math.max(0, Date.now() - Number(heartbeat) * 1000) } : {}),
  };
}
