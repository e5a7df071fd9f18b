import { lockWorkflowId } from '../../src/contracts/names';
import { readinessResult } from '../../src/contracts/readiness';
import { isAttested } from '../../src/keys';
import type { Look } from './look';
import { within } from './look';
import { codeOf } from './point';
import type { Earlier } from './summary';

/** Closed checks that are looked at, until one has a result. */
const RUNS = 5;

/** What is known of the check before. */
interface KnownEarlier {
  readonly earlier?: Earlier;
  /** Later results than that one, which no worker attested: they count for nothing. */
  readonly unattested: number;
}

/**
 * The result of the last check that ended, from Temporal. A check stands by itself: where the last one cannot be read,
 * or has another shape, there is nothing to compare with.
 */
export async function lastReadiness(look: Look, deployment: string): Promise<KnownEarlier> {
  try {
    return await within(look, () => readLast(look, deployment));
  } catch (error) {
    if (look.signal.aborted) throw error;
    look.dependencies.log.warn({ deployment, error: codeOf(error) }, 'the last readiness check cannot be read');
    return { unattested: 0 };
  }
}

async function readLast({ dependencies }: Look, deployment: string): Promise<KnownEarlier> {
  const { temporal, sealKeyring } = dependencies;
  const workflowId = lockWorkflowId('readiness', { deployment });
  if (workflowId === undefined) return { unattested: 0 };
  const query = `WorkflowId = "${workflowId}" AND WorkflowType = "readiness" AND ExecutionStatus = "Completed"`;
  let [seen, unattested] = [0, 0];
  // The newest come first.
  for await (const { runId } of temporal.workflow.list({ query, pageSize: RUNS })) {
    const ended: unknown = await temporal.workflow.getHandle(workflowId, runId, { followRuns: false }).result();
    const found: unknown = (ended as { readonly result?: unknown } | null)?.result;
    const result = readinessResult.safeParse(found);
    if (result.success) {
      const { attested, ...content } = found as { readonly attested?: unknown };
      const facts = { deployment, kind: 'readiness', time: Date.parse(result.data.at) } as const;
      const believed = result.data.deployment === deployment && isAttested(sealKeyring, facts, content, attested);
      if (believed) return { earlier: { runId, result: result.data }, unattested };
      unattested += 1;
    }
    seen += 1;
    if (seen === RUNS) break;
  }
  return { unattested };
}
