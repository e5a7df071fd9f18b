import { createHash, randomUUID } from 'node:crypto';
import { isGrpcServiceError } from '@temporalio/client';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { temporal } from '@temporalio/proto';
import { lockWorkflowId, webUiLink } from '../../contracts/names';
import { startMetadata } from '../../contracts/start-metadata';
import { payloadConverter } from '../../contracts/payload-converter';
import { inputOfTrigger } from '../../inventory';
import type { Trigger } from '../../inventory';
import type { Wish } from './incidents';

/** Earlier runs of a lock among which one of the same incident is looked for. */
const MOST_EARLIER = 50;
/** Longer than any sender repeats a message. */
const EARLIER_MS = 7 * 24 * 3_600_000;
/** gRPC's code ALREADY_EXISTS. */
const ALREADY_EXISTS = 6;

type Run = Omit<WorkflowExecutionInfo, 'raw'>;

/** A run by its IDs. */
export interface RunOfIncident {
  readonly workflowId: string;
  readonly runId: string;
}

/** The answer about one incident. */
export interface Outcome {
  /** Whether a run of this incident exists. False: another run holds the lock, and nothing was started. */
  readonly started: boolean;
  /** Whether an earlier message started it. */
  readonly duplicate: boolean;
  readonly runbook: string;
  /** The incident's run, or the run that holds the lock. */
  readonly run: RunOfIncident;
  /** Temporal's status in lower case. */
  readonly state: string;
  readonly link?: string;
}

export interface Starting {
  readonly client: Client;
  readonly namespace: string;
  readonly taskQueue: string;
  /** The Web UI, for links. */
  readonly webUi?: string | undefined;
}

/**
 * Starts the run of an incident under its lock, once: a start that is sent again, by this or another gateway, has the same
 * request ID, and the server answers with the run that it started.
 *
 * @throws what the client throws if the server does not answer; the start may have taken effect, and can be repeated
 */
export async function startRun(
  starting: Starting,
  trigger: Trigger,
  { incident, ticket, incidentKey }: Omit<Extract<Wish, { wanted: true }>, 'wanted'>,
): Promise<Outcome> {
  const { runbook, deployment } = trigger;
  const input = inputOfTrigger(trigger, { ticket, incidentKey });
  const isPlan = input['dryRun'] === true;
  const requestId = uuidOf([deployment, runbook, isPlan, incident]);
  const cluster = typeof input['cluster'] === 'string' ? input['cluster'] : undefined;
  const of = { deployment, ...(cluster !== undefined && { cluster }) };
  const lock = isPlan ? undefined : lockWorkflowId(runbook, of);
  const workflowId = lock ?? `plan:${cluster ?? deployment}:${requestId}`;
  const isOurs = ({ type, taskQueue, memo }: Run): boolean =>
    type === runbook && taskQueue === starting.taskQueue && memo?.['incident'] === incident;
  // Another run may have held the lock since the one of this incident: the server compares only with the last one.
  const earlier = lock === undefined ? undefined : await earlierRun(starting, workflowId, isOurs);
  if (earlier) return outcomeOf(starting, earlier, { started: true, duplicate: true });
  const delivery = randomUUID();
  const memo = { runbook, deployment, incident, delivery };
  const runId = await order(starting, { workflowId, requestId, runbook, input, memo });
  const run = await starting.client.workflow.getHandle(workflowId, runId).describe();
  const duplicate = run.memo?.['delivery'] !== delivery;
  return outcomeOf(starting, run, { started: isOurs(run), duplicate: isOurs(run) && duplicate });
}

/** Reads the state of a run that was started before. */
export async function runAgain(starting: Starting, { workflowId, runId }: RunOfIncident): Promise<Outcome> {
  const run = await starting.client.workflow.getHandle(workflowId, runId).describe();
  return outcomeOf(starting, run, { started: true, duplicate: true });
}

function outcomeOf(
  { namespace, webUi }: Starting,
  { type, workflowId, runId, status }: Run,
  facts: Pick<Outcome, 'started' | 'duplicate'>,
): Outcome {
  return {
    ...facts,
    ...{ runbook: type, run: { workflowId, runId }, state: status.name.toLowerCase() },
    ...(webUi && { link: webUiLink(webUi, namespace, workflowId, runId) }),
  };
}

async function earlierRun(
  { client }: Starting,
  workflowId: string,
  isOurs: (run: Run) => boolean,
): Promise<Run | undefined> {
  const since = new Date(Date.now() - EARLIER_MS).toISOString();
  const query = `WorkflowId = "${workflowId}" AND StartTime > "${since}"`;
  let looked = 0;
  for await (const run of client.workflow.list({ query, pageSize: MOST_EARLIER })) {
    if (isOurs(run)) return run;
    looked += 1;
    if (looked === MOST_EARLIER) break;
  }
  return undefined;
}

interface Order {
  readonly workflowId: string;
  readonly requestId: string;
  readonly runbook: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly memo: Readonly<Record<string, string>>;
}

/**
 * The client's own start chooses the request ID itself.
 *
 * @returns the Run ID; undefined if another run holds the Workflow ID
 */
async function order(
  { client, namespace, taskQueue }: Starting,
  { input, memo, ...start }: Order,
): Promise<string | undefined> {
  const { WorkflowIdReusePolicy, WorkflowIdConflictPolicy, TaskQueueKind } = temporal.api.enums.v1;
  const isPlan = start.workflowId.startsWith('plan:');
  const { staticSummary, staticDetails } = startMetadata(start.runbook, input, 'by the gateway, for an incident');
  const fields = Object.entries(memo).map(([name, value]) => [name, payloadConverter.toPayload(value)] as const);
  try {
    const { runId } = await client.workflowService.startWorkflowExecution({
      ...{ namespace, workflowId: start.workflowId, requestId: start.requestId, identity: client.options.identity },
      workflowType: { name: start.runbook },
      taskQueue: { name: taskQueue, kind: TaskQueueKind.TASK_QUEUE_KIND_NORMAL },
      input: { payloads: [payloadConverter.toPayload(input)] },
      memo: { fields: Object.fromEntries(fields) },
      // The lock: neither policy ends the run that holds it.
      workflowIdConflictPolicy: WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
      workflowIdReusePolicy: isPlan
        ? WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
        : WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
      userMetadata: {
        summary: payloadConverter.toPayload(staticSummary),
        details: payloadConverter.toPayload(staticDetails),
      },
    });
    return runId;
  } catch (error) {
    if (!(isGrpcServiceError(error) && Number(error.code) === ALREADY_EXISTS)) throw error;
    return undefined;
  }
}

/** The same UUID for the same values. */
function uuidOf(values: readonly unknown[]): string {
  const hex = createHash('sha256').update(JSON.stringify(values)).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  );
}
