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
import { DATA_CONVERTER } from './settings';

/**
 * One turn of a workflow may take longer than the SDK's five seconds: it ends one that does in the middle of its promises,
 * which aborts the whole process (Node 20: "async hook stack has become corrupted"). A replay of a long history takes long
 * on a busy host. Not in the SDK's types.
 */
export const WORKFLOW_TURN_LIMIT = { isolateExecutionTimeout: '1 minute' } as const;

/**
 * How histories are replayed: in threads of their own. By its default for replays (`debugMode`, which its type leaves out)
 * the SDK runs them in the calling thread, where its hook on promises stays for ever; it throws at promises of Node 24's
 * cryptography, and so ends the process.
 */
const REPLAY = {
  ...WORKFLOW_TURN_LIMIT,
  debugMode: false,
  dataConverter: DATA_CONVERTER,
};

/** The workflows as the SDK takes them: bundled at build time, or bundled at start. */
export type WorkflowCode = { readonly interceptors?: Pick<WorkerInterceptors, 'workflowModules'> } & (
  { readonly workflowBundle: WorkflowBundleOption } | { readonly workflowsPath: string }
);

/** The modules of the workflows' sources that are bundled: the interceptors are a part of the bundle too. */
export function workflowSources(): { readonly workflowsPath: string; readonly workflowInterceptorModules: string[] } {
  const folder = join(projectRoot(), 'workflows');
  return {
    workflowsPath: join(folder, 'index.ts'),
    workflowInterceptorModules: [join(folder, 'engine', 'interceptors.ts')],
  };
}

/** The bundle that the build made, or else the sources. */
export function workflowCode(bundle?: WorkflowBundleOption): WorkflowCode {
  if (bundle !== undefined) return { workflowBundle: bundle };
  const root = projectRoot();
  const codePath = join(root, 'dist', 'workflow-bundle.js');
  // A program that runs from its sources must not run an old build's workflows.
  const compiled = __filename.endsWith('.js');
  if (compiled && existsSync(codePath)) return { workflowBundle: { codePath } };
  const { workflowsPath, workflowInterceptorModules: workflowModules } = workflowSources();
  return { workflowsPath, interceptors: { workflowModules } };
}

interface ReplayRules {
  /** The Workflow IDs that this inventory locks with: known runbooks under them must replay, or nothing starts. */
  readonly locks: ReadonlySet<string>;
  /** Warn of those, too, and start all the same. */
  readonly ignoreFailures: boolean;
  readonly log: Log;
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
 * Replays one run. On a busy machine the SDK may lose it at the end of its replay ("non running workflow"), which says nothing
 * of the workflows: then it is replayed once more.
 *
 * @throws DeterminismViolationError where the workflows do not fit; ReplayError where it fails otherwise, and again
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
    // A run that no worker has touched yet has nothing to replay.
    if (eventsOf(item.history).some((event) => event.workflowTaskCompletedEventAttributes)) histories.push(item);
  }
  return histories;
}

function eventsOf(history: unknown): readonly temporal.api.history.v1.IHistoryEvent[] {
  // The client gives the decoded message; the type leaves room for JSON, which only callers of the replay give.
  return (history as temporal.api.history.v1.IHistory | undefined)?.events ?? [];
}
