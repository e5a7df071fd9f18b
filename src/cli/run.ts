import { setTimeout as delay } from 'node:timers/promises';
import { Client, isGrpcDeadlineError, WorkflowNotFoundError } from '@temporalio/client';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import { temporal } from '@temporalio/proto';
import { nextCommandOf, shellLine } from '../contracts/next-commands';
import type { Report } from '../contracts/report';
import type { RunMemo, RunStatus } from '../contracts/run-status';
import { QUERIES } from '../contracts/signals';
import { RunbookError, isRunbookError } from '../errors';
import { timestampMs } from '../report/run-history';
import { connectionSettings, connectUntilClosed } from '../worker/connection';
import type { ConnectionFlags } from '../worker/connection';
import { DATA_CONVERTER } from '../worker/data-converter';
import { versionOf } from '../worker/settings';
import { temporalError } from '../worker/temporal-away';
import type { CliContext } from './context';
import { EXIT, refusalIn } from './errors';
import type { CommandHost } from './command-host';
import { durationText } from '../contracts/words';

const CONNECT_TIMEOUT_MS = 3_000;
/** A history can be up to 50 MiB, depending on what people send. The client intends the same limit, but uses a wrong name for the setting. */
const LONG_ANSWERS = { 'grpc.max_receive_message_length': 128 * 1024 * 1024 };

/**
 * Connects to the Temporal server.
 *
 * @throws RunbookError `TEMPORAL_UNAVAILABLE` with the cause; `INVALID_INPUT` or `NOT_FOUND` if a setting is a mistake
 */
export async function connectTemporal(flags: ConnectionFlags, env: NodeJS.ProcessEnv) {
  const { connectionOptions, way } = connectionSettings(env, flags);
  const { address, namespace } = way;
  try {
    const { connection, close } = await connectUntilClosed({
      ...{ ...connectionOptions, connectTimeout: CONNECT_TIMEOUT_MS },
      channelArgs: LONG_ANSWERS,
    });
    // Payloads of other people are read here too: one that cannot be decoded must not end the command.
    const client = new Client({ connection, namespace, dataConverter: DATA_CONVERTER });
    /** The error of a call on this connection, with its cause. */
    const explain = (error: unknown) => temporalError(error, way);
    return { client, namespace, address, close, explain };
  } catch (cause) {
    throw await temporalError(cause, way, { connecting: true });
  }
}

/** An open connection; close it. */
export type TemporalSession = Awaited<ReturnType<typeof connectTemporal>>;

/** A run's Workflow ID, and its Run ID unless the newest run is intended. */
export interface RunReference {
  readonly workflowId: string;
  readonly runId?: string | undefined;
}

const QUERY_DEADLINE_MS = 3_000;
/** For a worker that polls: it may be busy, or replay a long history. */
const BUSY_QUERY_DEADLINE_MS = 12_000;
/** A live worker polls at least this often. */
const POLLED_LATELY_MS = 65_000;
const POLLERS_DEADLINE_MS = 2_000;
/** For a server that accepted the connection, and may be busy. */
const DESCRIBE_DEADLINE_MS = 10_000;
/** For a run that is being followed: a server restart takes no longer. */
const FOLLOWED_DEADLINE_MS = 60_000;

/**
 * Reads a run: first what the server itself knows, then the status query. The query's deadline is 3 s, or 12 s if a worker
 * polls and the run is not read `repeatedly`. Never hangs on a worker that is gone.
 *
 * @throws RunbookError `NOT_FOUND`
 */
export async function readRunView(
  session: Pick<TemporalSession, 'client' | 'namespace'>,
  run: RunReference,
  {
    repeatedly = false,
    describedWithinMs,
  }: { readonly repeatedly?: boolean; readonly describedWithinMs?: number } = {},
) {
  const { client } = session;
  const usualMs = repeatedly ? FOLLOWED_DEADLINE_MS : DESCRIBE_DEADLINE_MS;
  const description = await describe(client, run, describedWithinMs ?? usualMs);
  const { workflowId, runId, taskQueue, memo } = description;
  const pollers = await readPollers(session, taskQueue);
  const withinMs = isPolled(pollers) && !repeatedly ? BUSY_QUERY_DEADLINE_MS : QUERY_DEADLINE_MS;
  const status = await queryStatus(client, { workflowId, runId }, withinMs);
  // The run itself writes it in this shape.
  const noted = memo !== undefined && 'phase' in memo ? (memo as unknown as RunMemo) : undefined;
  return {
    ...{ namespace: session.namespace, workflowId, runId, taskQueue, pollers },
    /** The answer of the `status` query; undefined if no worker answered in time. */
    status,
    /** The current runbook: the run may have become a failover. */
    runbook: status?.runbook ?? noted?.runbook ?? description.type,
    /** Temporal's status in lower case: running, completed, failed, terminated, ... */
    state: description.status.name.toLowerCase(),
    startedAt: description.startTime.toISOString(),
    closedAt: description.closeTime?.toISOString(),
    /** Number of history events at the time of the description. */
    asOfEvent: description.historyLength,
    memo: noted,
    /** Activities that are running or wait for their next attempt. */
    pendingActivities: (description.raw.pendingActivities ?? []).map(pendingActivity),
  };
}

/** What is known about a run without a worker, and the worker's answer if there is one. */
export type RunView = Readonly<Awaited<ReturnType<typeof readRunView>>>;

/**
 * Reads a run and requires a worker's answer: statements to a run depend on its current status.
 *
 * @throws RunbookError `NOT_FOUND`, also if the run has ended; `REPORT_UNAVAILABLE` if no worker answers
 */
export async function readAnsweredView(
  session: { view(run: RunReference): Promise<RunView> },
  run: RunReference,
): Promise<RunView & { readonly status: RunStatus }> {
  const { status, ...view } = await session.view(run);
  if (view.state !== 'running')
    throw new RunbookError('NOT_FOUND', `The run ${view.workflowId} has ended. Nothing was sent.`, {
      observed: `run ${view.runId}, ${view.state} since ${view.closedAt ?? 'an unknown time'}`,
      needed: 'an open run',
      next: `"runbook list --open" shows the open runs. To see what this one did: ${shellLine('runbook', 'report', view.workflowId)}`,
    });
  if (status !== undefined) return { ...view, status };
  throw new RunbookError('REPORT_UNAVAILABLE', 'No worker answers for this run. Nothing was sent.', {
    observed: pollersText(view.taskQueue, view.pollers),
    needed: 'a worker of its task queue, which reports what the run waits for',
    next: `Run on a worker host: \`runbook worker\`. Then run the same command again. To see what is known without a worker: ${nextCommandOf.status(view.workflowId)}`,
  });
}

/** @throws RunbookError `NOT_FOUND`; `TEMPORAL_UNAVAILABLE` if the server does not answer in time */
export function describe(
  client: Client,
  run: RunReference,
  withinMs = DESCRIBE_DEADLINE_MS,
): Promise<WorkflowExecutionDescription> {
  const handle = client.workflow.getHandle(run.workflowId, run.runId);
  return client.withDeadline(Date.now() + withinMs, () => handle.describe()).catch(refuseUnknown(run));
}

/** Whether the namespace has a run of this Workflow ID, open or not. */
export const hasRun = (client: Client, workflowId: string): Promise<boolean> =>
  describe(client, { workflowId }).then(
    () => true,
    (error: unknown) => {
      if (isRunbookError(error, 'NOT_FOUND')) return false;
      throw error;
    },
  );

function refuseUnknown({ workflowId, runId }: RunReference): (error: unknown) => never {
  return (error) => {
    if (isGrpcDeadlineError(error))
      throw new RunbookError('TEMPORAL_UNAVAILABLE', `The Temporal server does not answer about run "${workflowId}".`, {
        observed: 'it accepted the connection, but did not answer in time',
        needed: 'a Temporal server that answers',
        next: 'Check the Temporal server and the network to it; then run the same command again.',
        cause: error,
      });
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    const which = runId === undefined ? '' : ` and the Run ID "${runId}"`;
    throw new RunbookError('NOT_FOUND', `There is no run with the Workflow ID "${workflowId}"${which}.`, {
      next: '"runbook list" shows the runs of this namespace.',
      cause: error,
    });
  };
}

/**
 * The `status` of a run; undefined if no worker answers in time, or the run is not a runbook.
 *
 * @throws the server's error if it denies this client the query: that does not mean that no worker answers
 */
export function queryStatus(
  client: Client,
  run: RunReference,
  withinMs = QUERY_DEADLINE_MS,
): Promise<RunStatus | undefined> {
  const handle = client.workflow.getHandle(run.workflowId, run.runId);
  return client
    .withDeadline(Date.now() + withinMs, () => handle.query<RunStatus>(QUERIES.status))
    .catch((error: unknown) => {
      if (refusalIn(error)) throw error;
      return undefined;
    });
}

interface Pollers {
  readonly count: number;
  /** Time since the newest poll. */
  readonly lastSeenMs?: number | undefined;
  /** The program versions that live workers report in their identities. */
  readonly versions?: readonly string[];
}

/** The pollers of a task queue, as text. */
export function pollersText(taskQueue: string, pollers: Pollers | undefined): string {
  if (pollers === undefined) return 'pollers unknown';
  if (pollers.count === 0) return `no worker polls task queue ${taskQueue}`;
  return `task queue ${taskQueue} last polled ${durationText(pollers.lastSeenMs ?? 0)} ago`;
}

/** Whether a live worker polls. */
export const isPolled = (pollers: Pollers | undefined) => (pollers?.lastSeenMs ?? Infinity) < POLLED_LATELY_MS;

/** The pollers of a task queue, which the server remembers for some minutes; undefined if it does not answer in time. */
export async function readPollers(
  { client, namespace }: Pick<TemporalSession, 'client' | 'namespace'>,
  taskQueue: string,
): Promise<Pollers | undefined> {
  const taskQueueType = temporal.api.enums.v1.TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW;
  try {
    const { pollers } = await client.withDeadline(Date.now() + POLLERS_DEADLINE_MS, () =>
      client.workflowService.describeTaskQueue({ namespace, taskQueue: { name: taskQueue }, taskQueueType }),
    );
    const seen = pollers.map(({ identity, lastAccessTime }) => ({
      identity,
      ageMs: Math.max(0, Date.now() - (timestampMs(lastAccessTime) ?? -Infinity)),
    }));
    const living = seen.filter(({ ageMs }) => ageMs < POLLED_LATELY_MS);
    const lastSeenMs = Math.min(...seen.map(({ ageMs }) => ageMs));
    return {
      count: pollers.length,
      lastSeenMs: Number.isFinite(lastSeenMs) ? lastSeenMs : undefined,
      versions: [...new Set(living.map(({ identity }) => versionOf(identity ?? '')))].sort(),
    };
  } catch (error) {
    if (isGrpcDeadlineError(error)) return undefined;
    throw error;
  }
}

function pendingActivity(pending: temporal.api.workflow.v1.IPendingActivityInfo) {
  const { lastFailure, activityType, attempt, state } = pending;
  return {
    type: activityType?.name ?? 'unknown',
    attempt: attempt ?? 1,
    /** True: started and not finished. False: scheduled, and waiting for a worker or a retry. */
    started: state === temporal.api.enums.v1.PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
    lastFailure: (lastFailure?.applicationFailureInfo?.type ?? lastFailure?.message) || undefined,
  };
}

const FIRST_WORD_MS = 2_000;
const AGAIN_MS = 10_000;

interface Waited {
  /** What the command waits for, with its article. */
  readonly what: string;
  /** The run that a worker must execute. */
  readonly run: RunReference;
  /** Default: no limit. */
  readonly timeoutMs?: number;
}

/**
 * Waits for `work`. Meanwhile prints every few seconds what the command waits for, and whether a worker polls.
 *
 * @returns the result of `work`; undefined if the time expired first, or the person ended the command
 */
export async function waitVisibly<T>(
  context: Pick<CliContext, 'stop' | 'err'>,
  session: Pick<TemporalSession, 'client' | 'namespace'>,
  { what, run, timeoutMs = 2 ** 31 - 1 }: Waited,
  work: Promise<T>,
): Promise<T | undefined> {
  const over = new AbortController();
  const signal = AbortSignal.any([context.stop, over.signal]);
  const pause = (ms: number) => delay(ms, undefined, { signal }).catch(() => undefined);
  const begin = Date.now();
  const speak = async (): Promise<void> => {
    await pause(FIRST_WORD_MS);
    while (!signal.aborted) {
      const polled = await polledText(session, run);
      const waited = `Waiting for ${what}, ${durationText(Math.round((Date.now() - begin) / 1_000) * 1_000)}`;
      // The result may have arrived in the meantime.
      if (!over.signal.aborted) context.err(`${waited}: ${polled}. Ctrl-C stops the waiting, not the run.`);
      await pause(AGAIN_MS);
    }
  };
  void speak();
  const nothing = Symbol('nothing');
  try {
    const found = await Promise.race([work, pause(timeoutMs).then(() => nothing)]);
    return found === nothing ? undefined : (found as T);
  } finally {
    over.abort();
  }
}

/** The report of a run that was just started; if the wait ends first, prints that and returns undefined. */
export async function waitForReport(
  { context, finish }: CommandHost,
  session: TemporalSession,
  waited: Waited,
): Promise<Report | undefined> {
  const { what, run } = waited;
  const handle = session.client.workflow.getHandle<() => Promise<Report>>(run.workflowId);
  const over = new AbortController();
  const result = session.client.withAbortSignal(over.signal, () => handle.result());
  const report = await waitVisibly(context, session, waited, result);
  // A pending poll would be retried on a connection that is closed by then.
  over.abort();
  result.catch(() => undefined);
  if (report !== undefined) return report;
  context.err(`Stopped waiting; ${what} continues: ${nextCommandOf.status(run.workflowId)}`);
  finish(EXIT.pending);
  return undefined;
}

async function polledText(session: Pick<TemporalSession, 'client' | 'namespace'>, run: RunReference): Promise<string> {
  try {
    const { taskQueue } = await describe(session.client, run, POLLERS_DEADLINE_MS);
    const pollers = await readPollers(session, taskQueue);
    const start = pollers?.count === 0 ? '; start one with "runbook worker"' : '';
    return `${pollersText(taskQueue, pollers)}${start}`;
  } catch {
    return 'Temporal does not answer';
  }
}
