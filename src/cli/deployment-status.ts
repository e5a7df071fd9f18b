import { ApplicationFailure, WorkflowFailedError } from '@temporalio/client';
import { deploymentStatus } from '../contracts/deployment-status';
import type { DeploymentStatus } from '../contracts/deployment-status';
import { deploymentWorkflowId, lockWorkflowId } from '../contracts/names';
import { nextCommandOf, shellLine } from '../contracts/next-commands';
import type { Report } from '../contracts/report';
import { clock, durationText, inLines, terminalText, verdictsText } from '../contracts/words';
import { RunbookError, isRunbookError } from '../errors';
import { fieldsOf } from '../report/run-record';
import { clusterNotes, clusterRows } from '../words/clusters';
import { taskQueueSetting } from '../worker/settings';
import { printResult } from './command';
import type { ServerOptions } from './command';
import type { CommandHost } from './command-host';
import { buildInput } from './commands/runbooks';
import { EXIT, refusalIn } from './errors';
import { readReport } from './read-report';
import { describe, isPolled, pollersText, readPollers, waitForReport } from './run';
import type { RunReference, TemporalSession } from './run';
import { startRun } from './start-run';
import { columns } from './text';

/** Long enough for clusters that do not answer. */
const READ_WITHIN_MS = 40_000;
/** Runs that are looked through for one that changed something. */
const RUNS_LOOKED_AT = 5;

/** Something that was read, or why it could not be read. */
type Read<T> = { readonly read: T } | { readonly why: string; readonly next?: string };

/** What the last run of a deployment that did more than refuse left behind. */
type LastRun = Pick<Report, 'runbook' | 'runId' | 'outcome' | 'endedAt' | 'leftToDo'>;

/**
 * Shows a deployment of which no run is open: its clusters, read by a worker now, and what its record and its last run say.
 * People's machines have no credentials for clusters.
 *
 * @throws RunbookError `NOT_FOUND` if Temporal has no run of the deployment and no worker can say more
 */
export async function showDeployment(
  host: CommandHost,
  session: TemporalSession,
  deployment: string,
  options: ServerOptions,
): Promise<void> {
  const [now, lastRun] = await Promise.all([readNow(host, session, deployment), readLastRun(session, deployment)]);
  if ('why' in now && lastRun === undefined)
    throw new RunbookError('NOT_FOUND', `There is no run with the Workflow ID "${deploymentWorkflowId(deployment)}".`, {
      observed: `no run, and the clusters were not read: ${now.why}`,
      next: `"runbook list" shows the runs of this namespace. ${now.next ?? ''}`.trim(),
    });
  const result = {
    deployment,
    now: 'read' in now ? now.read : null,
    notRead: 'why' in now ? now.why : undefined,
    lastRun: lastRun === undefined ? null : lastRun,
  };
  printResult(host.context, options, 'status-of-deployment', result, deploymentLines(deployment, now, lastRun));
  // The exit code reports it too.
  if ('why' in now) host.finish(EXIT.pending);
}

/** The deployment as a worker reads it now. A run that reads it already answers the same question. */
async function readNow(
  host: CommandHost,
  session: TemporalSession,
  deployment: string,
): Promise<Read<DeploymentStatus>> {
  const taskQueue = taskQueueSetting(host.context.env);
  const pollers = await readPollers(session, taskQueue);
  if (!isPolled(pollers)) return { why: pollersText(taskQueue, pollers), next: 'Start a worker: `runbook worker`' };
  const workflowId = lockWorkflowId('deploymentStatus', { deployment }) ?? '';
  try {
    const input = await buildInput(host.context, 'deploymentStatus', { deployment });
    await startRun(host, session, 'deploymentStatus', workflowId, input, 'USE_EXISTING');
    const waited = { what: 'the reading of the clusters', run: { workflowId }, timeoutMs: READ_WITHIN_MS };
    const ended = await waitForReport(host, session, waited);
    if (ended === undefined) return { why: `no result within ${durationText(READ_WITHIN_MS)}` };
    const found = deploymentStatus.safeParse(fieldsOf(ended)['result']);
    return found.success ? { read: found.data } : { why: 'the run ended without a result' };
  } catch (error) {
    const refusal = refusalIn(error);
    if (refusal) return { why: 'this connection may not start the run that reads them' };
    const cause = error instanceof WorkflowFailedError ? error.cause : undefined;
    if (!(cause instanceof ApplicationFailure) || cause.type === 'UNKNOWN_DEPLOYMENT') throw error;
    return { why: `${cause.type ?? 'INTERNAL'}: ${cause.message}` };
  }
}

/** @returns undefined if Temporal has no run of the deployment */
async function readLastRun(session: TemporalSession, deployment: string): Promise<Read<LastRun> | undefined> {
  const workflowId = deploymentWorkflowId(deployment);
  const newest = await describe(session.client, { workflowId }).catch((error: unknown) => {
    if (isRunbookError(error, 'NOT_FOUND')) return undefined;
    throw error;
  });
  if (newest === undefined) return undefined;
  try {
    let last: LastRun | undefined;
    for (const run of await endedRuns(session, workflowId, newest.runId)) {
      last = await readReport(session, run);
      // A run that was refused changed nothing, and left what the one before it had left.
      if (last.outcome !== 'refused') break;
    }
    if (last === undefined) return undefined;
    const { runbook, runId, outcome, endedAt, leftToDo } = last;
    return { read: { runbook, runId, outcome, leftToDo, ...(endedAt !== undefined && { endedAt }) } };
  } catch (error) {
    if (!isRunbookError(error, 'REPORT_UNAVAILABLE')) throw error;
    return { why: error.message, next: `See its state: \`${nextCommandOf.status(workflowId)}\`` };
  }
}

/** The newest run first, which the list of the server may not have yet. */
async function endedRuns({ client }: TemporalSession, workflowId: string, newest: string): Promise<RunReference[]> {
  const runs: RunReference[] = [{ workflowId, runId: newest }];
  const query = `WorkflowId = '${workflowId}' AND ExecutionStatus != 'Running'`;
  for await (const { runId } of client.workflow.list({ query, pageSize: RUNS_LOOKED_AT })) {
    if (runs.length === RUNS_LOOKED_AT) break;
    if (runId !== newest) runs.push({ workflowId, runId });
  }
  return runs;
}

function deploymentLines(
  deployment: string,
  now: Read<DeploymentStatus>,
  lastRun: Read<LastRun> | undefined,
): string[] {
  const status = 'read' in now ? inLines(now.read) : undefined;
  return [
    `${deployment}: no run is open`,
    ...('why' in now
      ? terminalText(`NOT READ: the clusters, ${now.why}.${now.next === undefined ? '' : ` ${now.next}`}`, '  ')
      : []),
    ...(status ? statusLines(status) : []),
    ...(lastRun === undefined ? [] : lastRunLines(deployment, inLines(lastRun))),
  ];
}

function statusLines({ deployment, clusters, problems, record, at }: DeploymentStatus): string[] {
  const now = Date.parse(at);
  return [
    `  read at ${clock(now)}`,
    '',
    ...tableOf(clusters),
    ...problems.flatMap(({ observed, needed, next = '' }) =>
      terminalText(`CRITICAL: DR primary: ${observed}; needed: ${needed}. ${next}`),
    ),
    '',
    ...(record.read
      ? [
          changeLine(record.primaryChange, deployment, now),
          checkLine(record.readiness, now),
          `    ${shellLine('runbook', 'readiness', deployment)}`,
          ...record.left.flatMap((each) => terminalText(`Left to do: ${each}`)),
        ]
      : [
          `NOT READ: the record of the deployment (${record.why}), so also its last change, its last check and its tokens`,
        ]),
  ];
}

/** The clusters as a table, with notes below it. */
export function tableOf(clusters: DeploymentStatus['clusters']): string[] {
  return [...columns(clusterRows(clusters)), ...clusterNotes(clusters).map((note) => `  ${note}`)];
}

type RecordRead = Extract<DeploymentStatus['record'], { read: true }>;

function ago(iso: string, now: number): string {
  const at = Date.parse(iso);
  return `${durationText(now - at)} ago (${clock(at, now)})`;
}

function changeLine(change: RecordRead['primaryChange'], deployment: string, now: number): string {
  if (change === undefined) return 'Last change of the primary: none recorded';
  const { cluster, runbook, runId, at } = change;
  const report = shellLine('runbook', 'report', deploymentWorkflowId(deployment), '--run-id', runId);
  return `Last change of the primary: ${cluster} became primary ${ago(at, now)}, by ${runbook}: ${report}`;
}

function checkLine(check: RecordRead['readiness'], now: number): string {
  const what = check === undefined ? 'none recorded' : `${ago(check.at, now)}: ${verdictsText(check)}`;
  return `Last readiness check: ${what}. Check now:`;
}

function lastRunLines(deployment: string, lastRun: Read<LastRun>): string[] {
  const workflowId = deploymentWorkflowId(deployment);
  if ('why' in lastRun)
    return terminalText(`NOT READ: what the last run left to do. ${lastRun.why} ${lastRun.next ?? ''}`);
  const { runbook, runId, outcome, endedAt, leftToDo } = lastRun.read;
  const ended = endedAt === undefined ? '' : `, ended ${clock(Date.parse(endedAt))}`;
  return [
    `Last run: ${runbook}, ${outcome}${ended}. Its report:`,
    `    ${shellLine('runbook', 'report', workflowId, '--run-id', runId)}`,
    ...(leftToDo.length === 0 ? ['It left no open task.'] : []),
    ...leftToDo.flatMap((each) => terminalText(`Left to do, as of its end: ${each}`)),
  ];
}
