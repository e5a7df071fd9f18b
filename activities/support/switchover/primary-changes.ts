import { z } from 'zod';
import { deploymentWorkflowId } from '../../../src/contracts/names';
import type { Limits } from '../../../src/inventory';
import type { ActivityDependencies } from '../../dependencies';

/** A change of the primary of a deployment, by a run that said so at its end. */
export interface PrimaryChange {
  readonly runbook: string;
  readonly runId: string;
  /** Service was back, or the run ended where it does not tell that; epoch ms. */
  readonly at: number;
}

/** Runs that may have changed the primary; one of another type may have been taken over by a failover. */
const CHANGERS: ReadonlySet<string> = new Set(['drSwitchover', 'drFailover', 'performancePromotion']);
/** Enough to see roles flap; the results of more are not read. */
const RESULTS_READ = 50;
const DEADLINE_MS = 5_000;

const ended = z.object({
  outcome: z.enum(['completed', 'rolled-back']),
  outage: z.object({ endedAt: z.iso.datetime().optional() }).optional(),
});

/**
 * The changes of the primary within the times that the inventory looks at, the latest first: closed runs under the lock
 * of the deployment whose result says that they completed or rolled back.
 *
 * @returns undefined where Temporal cannot tell
 */
export async function readPrimaryChanges(
  { temporal, log }: Pick<ActivityDependencies, 'temporal' | 'log'>,
  deployment: string,
  { coolDownMs, flappingWithinMs }: Pick<Limits, 'coolDownMs' | 'flappingWithinMs'>,
  signal: AbortSignal,
): Promise<readonly PrimaryChange[] | undefined> {
  const since = new Date(Date.now() - Math.max(coolDownMs, flappingWithinMs));
  const query = [
    `WorkflowId = "${deploymentWorkflowId(deployment)}"`,
    'ExecutionStatus = "Completed"',
    `CloseTime > "${since.toISOString()}"`,
  ].join(' AND ');
  try {
    return await temporal.withAbortSignal(signal, () =>
      temporal.withDeadline(Date.now() + DEADLINE_MS, () => readChanges(temporal, query)),
    );
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ deployment, error: error instanceof Error ? error.name : 'unknown' }, 'closed runs cannot be read');
    return undefined;
  }
}

async function readChanges(temporal: ActivityDependencies['temporal'], query: string): Promise<PrimaryChange[]> {
  const changes: PrimaryChange[] = [];
  let read = 0;
  for await (const { workflowId, runId, type, memo, closeTime } of temporal.workflow.list({ query })) {
    const became = memo?.['runbook'];
    const runbook = typeof became === 'string' && CHANGERS.has(became) ? became : type;
    if (!CHANGERS.has(runbook)) continue;
    const handle = temporal.workflow.getHandle(workflowId, runId, { followRuns: false });
    // Whoever may write to the namespace may have made a result: only what has the shape of a report counts.
    const result = ended.safeParse(await handle.result());
    read += 1;
    const back = result.data?.outage?.endedAt;
    const at = back === undefined ? closeTime?.getTime() : Date.parse(back);
    if (result.success && at !== undefined) changes.push({ runbook, runId, at });
    if (read === RESULTS_READ) break;
  }
  return changes.toSorted((a, b) => b.at - a.at);
}
