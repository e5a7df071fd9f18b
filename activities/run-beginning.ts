import { temporal as protos } from '@temporalio/proto';
import { OUTCOME_ATTRIBUTE, lockWorkflowId } from '../src/contracts/names';
import type { RunbookName } from '../src/contracts/names';
import type { RecordHead } from '../src/contracts/record';
import type { Finding } from '../src/contracts/run-facts';
import { RUNBOOK_INPUTS, inputMistakes } from '../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../src/errors';
import { findCluster, findDeployment } from '../src/inventory';
import type { Deployment } from '../src/inventory';
import { currentExecution } from './execution';

const LAST_RUN_MS = 2_000;
const ATTRIBUTES_MS = 2_000;

interface RecordStanding {
  /** The head of the record. It is kept in the run's result, and the next run compares it. */
  readonly record?: RecordHead;
  readonly findings: readonly Finding[];
}

/**
 * Reads the input of a runbook, with its defaults, and the state of the deployment's record. A run does this before its
 * first step.
 *
 * @param given - the start input as received
 * @throws RunbookError INVALID_INPUT, which names fields and expected types and quotes no values; UNKNOWN_DEPLOYMENT,
 *   UNKNOWN_CLUSTER
 */
export async function readRunbookInput(asked: { readonly runbook: RunbookName; readonly given: unknown }) {
  const { runbook, given } = asked;
  if (given === null) {
    const needed = 'one JSON object';
    throw wrongInput(runbook, `${runbook} needs one JSON object as input; none was given.`, needed);
  }
  const parsed = RUNBOOK_INPUTS[runbook].safeParse(given);
  if (parsed.success) {
    const input = parsed.data;
    // Checked before the run waits for anybody, and before its start is announced.
    refuseUnknownClusters(findDeployment(currentExecution().inventory, input.deployment), input);
    const [standing, outcomeInList] = await Promise.all([
      recordStanding(input.deployment, lockWorkflowId(runbook, input)),
      isOutcomeListed(),
    ]);
    return { input, ...standing, ...(outcomeInList && { outcomeInList }) };
  }
  const problems = inputMistakes(parsed.error);
  throw wrongInput(runbook, `The input of ${runbook} is invalid: ${problems.join('; ')}.`, problems.join('; '));
}

/** Whether the namespace has the search attribute for outcomes. One that is missing would fail the run at its end. */
async function isOutcomeListed(): Promise<boolean> {
  const { temporal, run } = currentExecution();
  const { operatorService } = temporal.connection;
  const { INDEXED_VALUE_TYPE_KEYWORD: keyword } = protos.api.enums.v1.IndexedValueType;
  const asked = () => operatorService.listSearchAttributes({ namespace: run.ns });
  try {
    const { customAttributes } = await temporal.withDeadline(Date.now() + ATTRIBUTES_MS, asked);
    return Object.hasOwn(customAttributes, OUTCOME_ATTRIBUTE) && customAttributes[OUTCOME_ATTRIBUTE] === keyword;
  } catch {
    // A server or a role that does not tell: the list goes without.
    return false;
  }
}

/** The members of an input that name clusters of the deployment. */
const NAMING_CLUSTERS = ['to', 'from', 'cluster', 'primary', 'secondary', 'provided', 'alsoGone'];

function refuseUnknownClusters(deployment: Deployment, input: Readonly<Record<string, unknown>>): void {
  for (const name of NAMING_CLUSTERS.flatMap((member) => input[member] ?? []))
    if (typeof name === 'string') findCluster(deployment, name);
}

function wrongInput(runbook: RunbookName, message: string, needed: string): RunbookError {
  const next = `See the page on ${runbook}, and start again.`;
  return new RunbookError('INVALID_INPUT', `${message} Nothing was changed.`, { needed, next });
}

/**
 * Compares the record of a deployment with what the last run under the same lock saw. A problem becomes a finding and
 * never stops a run.
 */
async function recordStanding(deployment: string, lockId: string | undefined): Promise<RecordStanding> {
  const { records } = currentExecution();
  try {
    const { head, alarms } = await records.read(deployment, lockId === undefined ? [] : await seenByLastRun(lockId));
    return { ...(head && { record: head }), findings: alarms };
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    const text = `The contents of the record of ${deployment} are unknown: ${error.message}`;
    return {
      findings: [{ severity: 'critical', code: 'record-not-read', text, ...(error.next && { next: error.next }) }],
    };
  }
}

/** The result is believed only if a worker marked it. */
async function seenByLastRun(workflowId: string): Promise<readonly unknown[]> {
  const { temporal, log } = currentExecution();
  try {
    return await temporal.withDeadline(Date.now() + LAST_RUN_MS, async () => {
      const query = `WorkflowId = "${workflowId}" AND ExecutionStatus = "Completed"`;
      // The newest comes first.
      for await (const { runId } of temporal.workflow.list({ query, pageSize: 1 })) {
        const ended: unknown = await temporal.workflow.getHandle(workflowId, runId, { followRuns: false }).result();
        return [(ended as { readonly record?: unknown } | null)?.record];
      }
      return [];
    });
  } catch (error) {
    log.warn({ workflowId, why: error instanceof Error ? error.name : 'unknown' }, 'the last run cannot be read');
    return [];
  }
}
