import { lockWorkflowId } from '../../src/contracts/names';
import { readinessResult } from '../../src/contracts/readiness';
import type { Look } from './look';
import { within } from './look';
import { codeOf } from './point';
import type { Earlier } from './summary';

/** Closed checks that are looked at, until one has a result. */
const RUNS = 5;

/**
 * The result of the last check that ended, from Temporal. A check stands by itself: where the last one cannot be read,
 * or has another shape, there is nothing to compare with.
 */
export async function lastReadiness(look: Look, deployment: string): Promise<Earlier | undefined> {
  try {
    return await within(look, () => readLast(look, deployment));
  } catch (error) {
    if (look.signal.aborted) throw error;
    look.dependencies.log.warn({ deployment, error: codeOf(error) }, 'the last readiness check cannot be read');
    return undefined;
  }
}

async function readLast({ dependencies: { temporal } }: Look, deployment: string): Promise<Earlier | undefined> {
  const workflowId = lockWorkflowId('readiness', { deployment });
  if (workflowId === undefined) return undefined;
  const query = `WorkflowId = "${workflowId}" AND WorkflowType = "readiness" AND ExecutionStatus = "Completed"`;
  let seen = 0;
  // The newest come first.
  for await (const { runId } of temporal.workflow.list({ query, pageSize: RUNS })) {
    const ended: unknown = await temporal.workflow.getHandle(workflowId, runId, { followRuns: false }).result();
    const result = readinessResult.safeParse((ended as { readonly result?: unknown } | null)?.result);
    if (result.success && result.data.deployment === deployment) return { runId, result: result.data };
    seen += 1;
    if (seen === RUNS) break;
  }
  return undefined;
}
