import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Client, HistoryAndWorkflowId } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import { ReplayError, Worker } from '@temporalio/worker';
import type { WorkerInterceptors, WorkflowBundleOption } from '@temporalio/worker';
import type { Log } from '../contracts/log';
import { RUNBOOK_NAMES } from '../contracts/names';
import { projectRoot } from '../dev-server/locations';
import { RunbookError } from '../errors';
import { DATA_CONVERTER } from './data-converter';

/**
 * Limit for one activation of a workflow. The SDK's default is 5 s. It ends a longer activation between its promises,
 * which aborts the whole process (Node 20: "async hook stack has become corrupted"), and the replay of a long history
 * on a busy host may take longer. The option is not in the SDK's types.
 */
export const WORKFLOW_TURN_LIMIT = { isolateExecutionTimeout: '1 minute' } as const;

/**
 * Options for replays: histories are replayed in separate threads. By default (`debugMode`, which is not in its type)
 * the SDK replays in the calling thread and leaves its promise hook there. That hook throws at some promises of Node
 * 24's cryptography, which ends the process.
 */
const REPLAY = {
  ...WORKFLOW_TURN_LIMIT,
  debugMode: false,
  dataConverter: DATA_CONVERTER,
};

/** The workflows in the form that the SDK accepts: bundled at build time or at start. */
export type WorkflowCode = { readonly interceptors?: Pick<WorkerInterceptors, 'workflowModules'> } & (
  { readonly workflowBundle: WorkflowBundleOption } | { readonly workflowsPath: string }
);

/** The source modules to bundle: workflows and their interceptors. */
export function workflowSources(): { readonly workflowsPath: string; readonly workflowInterceptorModules: string[] } {
  const folder = join(projectRoot(), 'workflows');
  return {
    workflowsPath: join(folder, 'index.ts'),
    workflowInterceptorModules: [join(folder, 'engine', 'interceptors.ts')],
  };
}

/** The given bundle, or else the bundle of the build, or else the sources. */
export function workflowCode(bundle?: WorkflowBundleOption): WorkflowCode {
  if (bundle !== undefined) return { workflowBundle: bundle };
  const root = projectRoot();
  const codePath = join(root, 'dist', 'workflow-bundle.js');
  // A program that runs from its sources must not use the workflows of an old build.
  const compiled = __filename.endsWith('.js');
  if (compiled && existsSync(codePath)) return { workflowBundle: { codePath } };
  const { workflowsPath, workflowInterceptorModules: workflowModules } = workflowSources();
  return { workflowsPath, interceptors: { workflowModules } };
}

interface ReplayRules {
  /** Workflow IDs that this inventory uses as locks: known runbooks with these IDs must replay, or the worker does not start. */
  readonly locks: ReadonlySet<string>;
  /** Only log failures of those runs too, and start the worker. */
  readonly ignoreFailures: boolean;
  readonly log: Log;
  /** Called with each history before it is replayed. */
  readonly look: (run: HistoryAndWorkflowId) => void;
}

/**
 * Replays the histories of all open runs of a task queue with the workflows that this worker will serve. With
 * incompatible code, an open run would get stuck while it holds the lock (temporal-rules 21). Anybody with write access
 * to the namespace can create a run that does not replay, so only runs that hold a lock of this inventory prevent the
 * start.
 *
 * @returns the number of open runs.
 * @throws RunbookError `STATE_DIVERGED`, with every run that holds a lock and does not replay.
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
      'An open run does not replay with this version and cannot continue on this worker. Terminate it, or let it end on a worker with its own version';
    log.error({ workflowId, runId, code: 'STATE_DIVERGED' }, text);
  }
  if (locking.length > 0 && !ignoreFailures) {
    const message = `The workflows of this version are not compatible with ${locking.length} open run(s).`;
    throw new RunbookError('STATE_DIVERGED', message, {
      observed: `does not replay: ${locking.map(({ workflowId, runId }) => `${workflowId} (run ${runId})`).join(', ')}`,
      needed: 'every open run that holds a lock replays with this version',
      next: 'Let these runs end with the version that started them, then start this version. If a run is not yours, terminate it or start the worker with --ignore-replay-failures.',
    });
  }
  return histories.length;
}

/** The runs that do not replay, with their workflow types. */
async function misfits(code: WorkflowCode, histories: readonly HistoryAndWorkflowId[]) {
  const found: { readonly workflowId: string; readonly runId: string; readonly type: string | undefined }[] = [];
  if (histories.length === 0) return found;
  for await (const { workflowId, runId, error } of Worker.runReplayHistories({ ...code, ...REPLAY }, histories)) {
    if (error === undefined) continue;
    // Only one run per Workflow ID is open.
    const run = histories.find((each) => each.workflowId === workflowId);
    if (error instanceof ReplayError && run && (await fits(code, run))) continue;
    const [started] = eventsOf(run?.history);
    const type = started?.workflowExecutionStartedEventAttributes?.workflowType?.name ?? undefined;
    found.push({ workflowId, runId, type });
  }
  return found;
}

const fits = (code: WorkflowCode, run: HistoryAndWorkflowId): Promise<boolean> =>
  replayRun(code, run).then(
    () => true,
    () => false,
  );

/**
 * Replays one run. On a busy machine the SDK may lose the run at the end of the replay ("non running workflow"), which
 * is not a fault of the workflows. The run is then replayed once more.
 *
 * @throws DeterminismViolationError if the workflows are not compatible; ReplayError if the replay fails twice
 *   otherwise.
 */
export async function replayRun(code: WorkflowCode, { history, workflowId }: HistoryAndWorkflowId): Promise<void> {
  const replay = () => Worker.runReplayHistory({ ...code, ...REPLAY }, history, workflowId);
  await replay().catch((error: unknown) => {
    if (error instanceof ReplayError) return replay();
    throw error;
  });
}

async function openHistories(client: Client, taskQueue: string): Promise<HistoryAndWorkflowId[]> {
  const query = `TaskQueue = '${taskQueue.replaceAll("'", "''")}' AND ExecutionStatus = 'Running'`;
  const histories: HistoryAndWorkflowId[] = [];
  for await (const item of client.workflow.list({ query }).intoHistories()) {
    // A run without a completed workflow task has nothing to replay.
    if (eventsOf(item.history).some((event) => event.workflowTaskCompletedEventAttributes)) histories.push(item);
  }
  return histories;
}

function eventsOf(history: unknown): readonly temporal.api.history.v1.IHistoryEvent[] {
  // The client returns the decoded message; the type also permits JSON, which only other callers of the SDK's replay
  // pass.
  return (history as temporal.api.history.v1.IHistory | undefined)?.events ?? [];
}
