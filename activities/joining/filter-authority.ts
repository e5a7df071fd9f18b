import type { Authority, FilterState } from '../../src/contracts/activities';
import type { AllowedOperation } from '../../src/contracts/plan';
import { RunbookError, isRunbookError } from '../../src/errors';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import { currentExecution } from '../execution';
import { needsApproval } from '../filters/filter-difference';
import { describeFilter, readPerformance } from '../filters/paths-filters';
import type { Pair } from './repoint-authority';
import { pairOf, verifyFollowing } from './repoint-authority';

interface FilterWriting {
  readonly deployment: string;
  /** The performance primary. */
  readonly cluster: string;
  readonly id: string;
  readonly secondary?: string | undefined;
  readonly authority?: Authority | undefined;
}

/**
 * Called right before a filter is written or deleted, with what was read a moment ago: exactly this filter for exactly
 * this secondary must have been approved. Where the secondary sees nothing more afterwards, a plan serves too that lets it
 * join or follow this primary, with this filter where the plan names one.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function demandApproval(
  { deployment, cluster, id, secondary, authority }: FilterWriting,
  before: FilterState,
  wanted: FilterState,
): Promise<void> {
  const { clusters, inventory, run, signal } = currentExecution();
  if (secondary === undefined || authority === undefined)
    throw notApproved(`${describeFilter(before)} becomes ${describeFilter(wanted)}, and nobody approved it`);
  const target = clusters.of(deployment, secondary);
  const [{ on, with: primary }, status] = await Promise.all([
    pairOf(target, clusters.of(deployment, cluster), signal),
    readPerformance(target, signal),
  ]);
  if (id !== on.clusterId && id !== status.secondaryId)
    throw notApproved(`${id} is not an id of ${secondary}, whose cluster ID is ${on.clusterId}`);
  try {
    await verifyBeginning(inventory, run, deployment, authority, {
      operation: 'performance.primary.paths-filter',
      on: primary,
      with: on,
      detail: describeFilter(wanted),
    });
  } catch (error) {
    if (!isRunbookError(error, 'NOT_APPROVED') || needsApproval(before, wanted)) throw error;
    if (!(await comesWithFollowing({ deployment, authority }, { on, with: primary }, wanted))) throw error;
  }
}

/** Whether a plan lets the secondary join or follow this primary with this filter: it is written for that. */
async function comesWithFollowing(
  { deployment, authority }: { readonly deployment: string; readonly authority: Authority },
  pair: Pair,
  filter: FilterState,
): Promise<boolean> {
  const { inventory, run } = currentExecution();
  const joining: AllowedOperation = {
    ...pair,
    operation: 'performance.secondary.enable',
    detail: describeFilter(filter),
  };
  const follows = (form: 'token' | 'addresses') =>
    verifyFollowing(deployment, authority, { ...pair, form, filter, begun: true });
  for (const verify of [
    () => follows('token'),
    () => follows('addresses'),
    () => verifyOperation(inventory, run, deployment, authority, joining),
  ]) {
    try {
      await verify();
      return true;
    } catch (error) {
      if (!isRunbookError(error, 'NOT_APPROVED')) throw error;
    }
  }
  return false;
}

function notApproved(why: string): RunbookError {
  return new RunbookError('NOT_APPROVED', `This is not approved: ${why}.`, {
    observed: why,
    needed: 'an approved plan that allows this filter for this secondary',
    next: 'Start filterReconciliation with the wanted filter; its gate asks for what is missing.',
  });
}
