import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { Context } from '@temporalio/activity';
import { RUNBOOK_NAMES, deploymentWorkflowId, holdsDeploymentLock, webUiLink } from '../../src/contracts/names';
import { nextCommandOf, shellLine } from '../../src/contracts/next-commands';
import { reportSchema } from '../../src/contracts/report';
import type { Report } from '../../src/contracts/report';
import type { RunStatus } from '../../src/contracts/run-status';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { QUERIES, SIGNALS } from '../../src/contracts/signals';
import { escapeUntrusted } from '../../src/contracts/words';
import { RunbookError } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import { writeReportFiles as writeFiles } from '../../src/report/render';
import { firstValue } from '../../src/report/run-history';
import { failoverInputDigest } from '../../src/keys';
import type { RunContext } from '../../src/keys';
import { startOf } from '../approvals/arrived-signals';
import { demandControl } from '../approvals/people';
import { currentExecution } from '../execution';

/** Writes the report of this activity's run to files, if the worker has a directory for them. */
export async function writeReportFiles({ report }: { readonly report: Report }) {
  const { reportDirectory, run } = currentExecution();
  if (reportDirectory === undefined) return { files: [] };
  // Whatever the input says: no run overwrites the report of another one.
  const own = { ...report, namespace: run.ns, workflowId: run.wid, runId: run.rid };
  const { data, error } = reportSchema.safeParse(own);
  if (!data)
    throw new RunbookError('INVALID_INPUT', 'This is not a report.', {
      observed: `invalid: ${error.issues.map(({ path }) => path.join('.')).join(', ')}`,
    });
  return { files: await writeFiles(data, reportDirectory) };
}

/**
 * Asks the run that holds the lock to become this failover, once that run has answered, and waits briefly for its
 * receipt: a run that no worker executes takes nothing over.
 *
 * @throws RunbookError LOCK_HELD
 */
export async function requestTakeOver(asked: {
  readonly workflowId: string;
  readonly runId: string;
  readonly input: InputOf<'drFailover'>;
}): Promise<void> {
  const { workflowId, runId, input } = asked;
  const { inventory, run, temporal } = currentExecution();
  const { deployment, takeOverDocument } = input;
  const { laboratory } = findDeployment(inventory, deployment);
  // The run verifies it again. A refusal here is where people see it: in the failover that asks.
  if (takeOverDocument !== undefined)
    await demandControl(deployment, takeOverDocument, {
      run: { ns: run.ns, wid: workflowId, rid: runId },
      action: 'takeOver',
      inputDigest: failoverInputDigest(input),
    });
  else if (!laboratory) throw noDocument(input);
  const until = performance.now() + ANSWER_MS;
  const awaited = async <T>(read: (status: RunStatus) => T | Promise<T | undefined>): Promise<T | undefined> => {
    for (;;) {
      const status = await statusOf(workflowId, runId);
      const found = status && (await read(status));
      if (found !== undefined || performance.now() > until) return found;
      await delay(ASK_EVERY_MS);
    }
  };
  const next = `Make sure that workers run, and check that run: \`${nextCommandOf.status(workflowId)}\`. Then start the failover again.`;
  const refused = (message: string, observed: string) =>
    new RunbookError('LOCK_HELD', `${workflowId} ${message}`, {
      observed: `run ${runId} ${observed}`,
      needed: 'its confirmation that it becomes the failover',
      next,
    });
  const silent = (sent: string) =>
    refused(`is held by a run that does not answer. ${sent}`, `gave no answer within ${ANSWER_MS / 1_000} s`);
  const before = await awaited((status) => Math.max(0, ...takeOversIn(status).map(({ arrival }) => arrival)));
  if (before === undefined) throw silent('Nothing was sent to it.');
  const handle = temporal.workflow.getHandle(workflowId, runId);
  await handle.signal(SIGNALS.takeOver, input);
  let own: number | undefined;
  const answer = await awaited(async (status) => {
    const given = takeOversIn(status).filter(({ arrival }) => arrival > before);
    if (status.runbook === 'drFailover' || given.some(({ verdict }) => verdict === 'accepted')) return 'accepted';
    if (given.length === 0) return undefined;
    // Others may send take-overs too: a refusal of theirs is no answer to this one.
    own ??= await arrivalOf(handle, input, before);
    return given.find(({ arrival }) => arrival === own);
  });
  if (answer === 'accepted') return;
  if (answer === undefined) throw silent('It was asked to become the failover, and may still do so.');
  throw refused('does not become the failover. Nothing was changed.', `refused: ${answer.text}`);
}

/** The run under a Workflow ID. Its type and task queue were chosen by the person who started it. */
export async function describeRun({ workflowId }: { readonly workflowId: string }) {
  const { inventory, run, temporal } = currentExecution();
  const description = await temporal.workflow.getHandle(workflowId).describe();
  const { type, runId, taskQueue, status, memo } = description;
  const { uiAddress } = inventory.temporal;
  // A run that became a failover is one, whatever it was started as.
  const now = RUNBOOK_NAMES.find((name) => name === memo?.['runbook']);
  // Another runbook under the ID of a deployment's lock blocks it for nothing.
  const isLock = workflowId.startsWith(deploymentWorkflowId(''));
  const ours = RUNBOOK_NAMES.some((name) => name === type && (!isLock || holdsDeploymentLock(name)));
  return {
    type: escapeUntrusted(now ?? type),
    runId,
    status: status.name,
    taskQueue: escapeUntrusted(taskQueue),
    /** As the server recorded it, or as the client called itself. */
    startedBy: await starterOf({ ns: run.ns, wid: workflowId, rid: runId }),
    /** What an administrator runs, if no runbook of these workers holds the lock. */
    ...(ours && taskQueue === Context.current().info.taskQueue
      ? {}
      : { terminate: terminateCommand(run.ns, workflowId, runId) }),
    link: uiAddress && webUiLink(uiAddress, run.ns, workflowId, runId),
  };
}

function terminateCommand(ns: string, workflowId: string, runId: string): string {
  const which = ['--namespace', ns, '--workflow-id', workflowId, '--run-id', runId];
  return shellLine('temporal', 'workflow', 'terminate', ...which, '--reason', 'not a run of these workers');
}

async function starterOf(run: RunContext): Promise<string> {
  const started = await startOf(run);
  const identity = started?.workflowExecutionStartedEventAttributes?.identity;
  return escapeUntrusted(
    started?.principal?.name ?? (identity ? `${identity} (as the client called itself)` : 'unknown'),
  );
}

/** Within this time a live run says whether it becomes the failover, ms. */
const ANSWER_MS = 15_000;
const ASK_EVERY_MS = 250;
const ASK_WITHIN_MS = 3_000;

/** The status of a run; undefined if no worker answers for it. */
async function statusOf(workflowId: string, runId: string): Promise<RunStatus | undefined> {
  const { temporal } = currentExecution();
  try {
    const handle = temporal.workflow.getHandle(workflowId, runId);
    return await temporal.withDeadline(Date.now() + ASK_WITHIN_MS, () =>
      handle.query<RunStatus | undefined>(QUERIES.status),
    );
  } catch {
    return undefined;
  }
}

/** The number of this take-over among those that the run received after `before`; undefined if its history does not show it yet. */
async function arrivalOf(
  handle: WorkflowHandle,
  input: InputOf<'drFailover'>,
  before: number,
): Promise<number | undefined> {
  const { events } = await handle.fetchHistory().catch(() => ({ events: [] }));
  const received = (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }) =>
    signal?.signalName === SIGNALS.takeOver ? [firstValue(signal.input)] : [],
  );
  const sent = JSON.stringify(input);
  const index = received.findIndex((each, at) => at >= before && JSON.stringify(each) === sent);
  return index === -1 ? undefined : index + 1;
}

const takeOversIn = ({ receipts }: RunStatus) => receipts.filter(({ signal }) => signal === 'takeOver');

function noDocument({ deployment }: InputOf<'drFailover'>): RunbookError {
  // Not the reason of the input: terminals wrap a command to their first column, where others' words would be a line of ours.
  const start = ['drFailover', '--deployment', deployment, '--reason', 'WHY', '--take-over'];
  return new RunbookError(
    'NOT_APPROVED',
    'A take-over needs a signed document of a person who may decide. Nothing was changed.',
    {
      observed: 'no takeOverDocument',
      needed: 'the document that this command makes',
      next: `Run \`${shellLine('runbook', 'start', ...start)}\`, with \`--print\` for the Web UI`,
    },
  );
}
