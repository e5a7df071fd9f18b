import type { Finding } from '../../src/contracts/run-facts';
import type { WalSample } from '../../src/contracts/wal-samples';
import { walSamplerIdPrefix, walSampling } from '../../src/contracts/wal-samples';
import type { SealKeyring } from '../../src/keys';
import { isAttested } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';

/** Runs whose results are read: with the defaults of `walSampler` every minute, the last hour. */
const RUNS = 60;
const DEADLINE_MS = 5_000;

type Sources = Pick<ActivityDependencies, 'temporal' | 'log' | 'sealKeyring'>;

/** What the sampler left. */
interface KnownSamples {
  /** Oldest first; those that a worker attested. */
  readonly samples: readonly WalSample[];
  /** Runs of the sampler whose results no worker attested: what they say counts as unknown. */
  readonly unattested: number;
}

/** That results were left out because no worker attested them; nothing where all were attested. */
export function unattestedSamples({ unattested }: KnownSamples): Finding[] {
  const found: Finding = {
    severity: 'warning',
    code: 'samples-not-attested',
    text: `${unattested} results of walSampler were not made by these workers, or were changed since: what they say counts as unknown.`,
    next: 'Find out who writes to this namespace; where a seal key was taken away, put its entry back behind the others.',
  };
  return unattested === 0 ? [] : [found];
}

/**
 * The samples of the latest closed `walSampler` runs of a deployment, oldest first. Runs are found by their Workflow ID,
 * which begins with `walSampler:<deployment>:`, so that no result of another deployment is read.
 *
 * @param startedBefore - only of runs that began before then, epoch ms: a loss bound rests on what was sampled before
 *   the primary fell silent, however long people are waited for
 * @returns nothing where there are none, or where Temporal's visibility store cannot be asked: samples help, and are
 *   never needed
 */
export async function readWalSamples(
  dependencies: Sources,
  deployment: string,
  signal: AbortSignal,
  startedBefore?: number,
): Promise<KnownSamples> {
  const { temporal, log } = dependencies;
  try {
    const found = await temporal.withAbortSignal(signal, () =>
      temporal.withDeadline(Date.now() + DEADLINE_MS, () => readLatest(dependencies, deployment, startedBefore)),
    );
    return { ...found, samples: found.samples.toSorted((a, b) => a.at - b.at) };
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ deployment, error: error instanceof Error ? error.name : 'unknown' }, 'WAL samples cannot be read');
    return { samples: [], unattested: 0 };
  }
}

async function readLatest(
  { temporal, sealKeyring }: Sources,
  deployment: string,
  startedBefore: number | undefined,
): Promise<KnownSamples> {
  const query = [
    'WorkflowType = "walSampler"',
    'ExecutionStatus = "Completed"',
    `WorkflowId STARTS_WITH "${walSamplerIdPrefix(deployment)}"`,
    ...(startedBefore === undefined ? [] : [`StartTime < "${new Date(startedBefore).toISOString()}"`]),
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
  const found = results.flatMap((each) =>
    each.status === 'fulfilled' ? [samplesOf(each.value, deployment, sealKeyring)] : [],
  );
  return {
    samples: found.flatMap((each) => each ?? []),
    unattested: found.filter((each) => each === undefined).length,
  };
}

/** Whoever may write to the namespace may have made a result: undefined where no worker attested it as it is. */
function samplesOf(value: unknown, deployment: string, keyring: SealKeyring): readonly WalSample[] | undefined {
  const result: unknown = (value as { readonly result?: unknown } | null)?.result;
  // A run that was stopped found nothing.
  if (result === undefined) return [];
  const parsed = walSampling.safeParse(result);
  if (!parsed.success || parsed.data.deployment !== deployment) return undefined;
  const { attested, ...content } = result as { readonly attested?: unknown };
  const facts = { deployment, kind: 'wal-samples', time: parsed.data.to } as const;
  return isAttested(keyring, facts, content, attested) ? parsed.data.samples : undefined;
}
