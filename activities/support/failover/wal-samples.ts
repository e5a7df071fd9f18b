import type { WalSample } from '../../../src/contracts/wal-samples';
import { walSamplerIdPrefix, walSampling } from '../../../src/contracts/wal-samples';
import type { ActivityDependencies } from '../../dependencies';

export type { KnownNow, LagTrend, LossBound } from './wal-lag';
export { lagPoints, lagTrend, lossBound } from './wal-lag';

/** Runs whose results are read: with the defaults of `walSampler` every minute, the last hour. */
const RUNS = 60;
const DEADLINE_MS = 5_000;

/**
 * The samples of the latest closed `walSampler` runs of a deployment, oldest first. Runs are found by their Workflow ID,
 * which begins with `walSampler:<deployment>:`, so that no result of another deployment is read.
 *
 * @returns nothing where there are none, or where Temporal's visibility store cannot be asked: samples help, and are
 *   never needed
 */
export async function readWalSamples(
  dependencies: Pick<ActivityDependencies, 'temporal' | 'log'>,
  deployment: string,
  signal: AbortSignal,
): Promise<readonly WalSample[]> {
  const { temporal, log } = dependencies;
  try {
    const found = await temporal.withAbortSignal(signal, () =>
      temporal.withDeadline(Date.now() + DEADLINE_MS, () => readLatest(dependencies, deployment)),
    );
    return found.toSorted((a, b) => a.at - b.at);
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ deployment, error: error instanceof Error ? error.name : 'unknown' }, 'WAL samples cannot be read');
    return [];
  }
}

async function readLatest(
  { temporal }: Pick<ActivityDependencies, 'temporal'>,
  deployment: string,
): Promise<WalSample[]> {
  const query = [
    'WorkflowType = "walSampler"',
    'ExecutionStatus = "Completed"',
    `WorkflowId STARTS_WITH "${walSamplerIdPrefix(deployment)}"`,
  ].join(' AND ');
  const runs: { readonly workflowId: string; readonly runId: string }[] = [];
  // The newest come first.
  for await (const { workflowId, runId } of temporal.workflow.list({ query, pageSize: RUNS })) {
    runs.push({ workflowId, runId });
    if (runs.length === RUNS) break;
  }
  const results = await Promise.allSettled(
    runs.map(({ workflowId, runId }) => temporal.workflow.getHandle(workflowId, runId, { followRuns: false }).result()),
  );
  return results.flatMap((each) => (each.status === 'fulfilled' ? samplesOf(each.value, deployment) : []));
}

/** Whoever may write to the namespace may have made a result: only what has the shape of samples is taken. */
function samplesOf(value: unknown, deployment: string): readonly WalSample[] {
  const result = (value as { readonly result?: unknown } | null)?.result;
  const parsed = walSampling.safeParse(result);
  return parsed.success && parsed.data.deployment === deployment ? parsed.data.samples : [];
}
