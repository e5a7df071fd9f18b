import { createHash } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { SentAnswer } from '../contracts/mailbox';
import { PLAN_ID, RUNBOOK_NAMES } from '../contracts/names';
import { isRunbookError, RunbookError } from '../errors';
import type { OpenRun, Runs } from '../gateway/mailbox/runs';
import { textOf } from '../report/run-record';
import { isNoRun } from './errors';
import { queryStatus, readRunView } from './run';
import { receiptOf, send } from './sending';

/** Then a person is told that Temporal does not answer. */
const CALL_MS = 4_000;
const STATUS_MS = 3_000;
/** All of them together: a person waits for the answer. */
const READING_MS = 8_000;
const MOST_OPEN = 500;
const AT_ONCE = 8;
const ACCEPTED_MS = 5_000;
/** Then the sender asks again. */
const RECEIPT_MS = 10_000;

interface InTemporal {
  readonly client: Client;
  readonly namespace: string;
  readonly taskQueue: string;
}

/** The runs of one task queue, as the gateway's mailbox reaches them. */
export function mailboxRuns({ client, namespace, taskQueue }: InTemporal): Runs {
  return {
    namespace,
    open: () => answered(() => openRuns({ client, namespace, taskQueue })),
    view: (run) =>
      answered(async () => {
        const view = await readRunView({ client, namespace }, run, { describedWithinMs: CALL_MS });
        return { view, deployment: view.status?.deployment ?? textOf(view.memo?.deployment) };
      }),
    send: (run, signal, input, digest) =>
      answered(async (): Promise<SentAnswer> => {
        const sending = { client, run, signal, input, requestId: uuidOf(digest) };
        const recorded = await send(sending, ACCEPTED_MS);
        if (recorded === undefined) throw away();
        const stop = AbortSignal.timeout(RECEIPT_MS);
        const late = new Promise<object>((resolve) => stop.addEventListener('abort', () => resolve({})));
        return { sent: true, ...(await Promise.race([receiptOf({ ...sending, stop }, recorded), late])) };
      }),
  };
}

async function openRuns({ client, taskQueue }: InTemporal): Promise<OpenRun[]> {
  const types = RUNBOOK_NAMES.filter((name) => name !== 'walSampler').map((name) => `'${name}'`);
  const query = `WorkflowType IN (${types.join(', ')}) AND TaskQueue = '${taskQueue}' AND ExecutionStatus = 'Running'`;
  const found: Omit<OpenRun, 'status'>[] = [];
  await client.withDeadline(Date.now() + CALL_MS, async () => {
    for await (const { workflowId, runId, type, startTime, memo } of client.workflow.list({ query })) {
      if (found.length >= MOST_OPEN) break;
      const deployment = textOf(memo?.['deployment']) ?? '';
      const runbook = RUNBOOK_NAMES.find((name) => name === memo?.['runbook']) ?? type;
      const phase = textOf(memo?.['phase']) ?? '';
      if (!workflowId.startsWith(PLAN_ID))
        found.push({ workflowId, runId, deployment, runbook, phase, startedAt: startTime.toISOString() });
    }
  });
  const until = Date.now() + READING_MS;
  const left = [...found];
  const runs: OpenRun[] = [];
  const readOn = async (): Promise<void> => {
    for (let run = left.shift(); run !== undefined; run = left.shift()) {
      const withinMs = Math.min(STATUS_MS, until - Date.now());
      const status = withinMs > 0 ? await queryStatus(client, run, withinMs).catch(() => undefined) : undefined;
      const { deployment = run.deployment, runbook = run.runbook, phase = run.phase } = status ?? {};
      runs.push({ ...run, deployment, runbook, phase, status });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, readOn));
  return runs.sort((a, b) => a.startedAt.localeCompare(b.startedAt));
}

/** A UUID that stands for a document, whichever gateway passes it. */
function uuidOf(digest: string): string {
  const hex = createHash('sha256').update(`runbooks/mailbox/v1 ${digest}`).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  );
}

const away = (cause?: unknown): RunbookError =>
  new RunbookError('TEMPORAL_UNAVAILABLE', 'Temporal does not answer the gateway, or refuses it.', {
    ...{ cause, httpStatus: 503 },
    next: 'Try again in some seconds: a document that arrives twice counts once. If this continues, notify the operators.',
  });

/** @throws RunbookError `NOT_FOUND`, `TEMPORAL_UNAVAILABLE` */
async function answered<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (isRunbookError(error, 'TEMPORAL_UNAVAILABLE')) throw away(error);
    if (isRunbookError(error)) throw error;
    if (!isNoRun(error)) throw away(error);
    throw new RunbookError('NOT_FOUND', 'There is no run with this Workflow ID.', {
      next: 'Read what waits for you again: `runbook waiting`.',
    });
  }
}
