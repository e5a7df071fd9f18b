import type { Authority, FilterState, PathsFilterFacts, SecondaryFilters } from '../../src/contracts/activities';
import { RunbookError } from '../../src/errors';
import type { ActivityDependencies } from '../dependencies';
import { verifyOperation } from './authority';
import type { ClusterAccess, Clusters } from './clusters';
import type { Execution } from './execution';
import { canonicalPaths, needsApproval } from './filter-difference';
import { readActive } from './observe';
import { readClusterId } from './operation-token';

/** Equal for filters that mean the same; also what a plan allows, as the `detail` of the operation. */
export function describeFilter(filter: PathsFilterFacts | 'none' | undefined): string {
  if (filter === undefined || filter === 'none') return 'no paths filter';
  return `${filter.mode} ${canonicalPaths(filter.paths).join(', ') || 'nothing'}`;
}

export function readPerformance(access: ClusterAccess, signal: AbortSignal) {
  return readActive(access, signal, (node) => access.client.performance.status({ node, signal }));
}

/** What the primary keeps for one secondary: under the id that it knows it by, and under its cluster ID. */
export async function readFiltersOf(
  source: ClusterAccess,
  target: ClusterAccess,
  signal: AbortSignal,
): Promise<SecondaryFilters> {
  const [clusterId, onSource, onTarget] = await Promise.all([
    readClusterId(target, signal),
    readPerformance(source, signal),
    readPerformance(target, signal),
  ]);
  const attached = onTarget.mode === 'secondary' && onTarget.setId !== undefined && onTarget.setId === onSource.setId;
  // A blank id is that of a secondary that has forgotten its primary.
  const known = attached && onTarget.secondaryId ? onTarget.secondaryId : clusterId;
  const token = await source.credential();
  const filters = await Promise.all(
    [...new Set([known, clusterId])].map(async (id) => ({
      id,
      filter: stateOf(await source.client.performance.primary.pathsFilter.read(id, { token, signal })),
    })),
  );
  return { secondary: target.entry.name, id: known, filters, attached };
}

function stateOf(filter: PathsFilterFacts | undefined): FilterState {
  return filter === undefined ? 'none' : { mode: filter.mode, paths: canonicalPaths(filter.paths) };
}

/** For the report: what the filter was before this change, where there was one. */
export function beforeOf(calls: number, before: PathsFilterFacts | undefined): { readonly before?: FilterState } {
  return calls === 0 ? {} : { before: stateOf(before) };
}

export interface FilterWriting {
  readonly deployment: string;
  /** The performance primary. */
  readonly cluster: string;
  readonly id: string;
  readonly secondary?: string | undefined;
  readonly authority?: Authority | undefined;
}

/**
 * Called right before a filter is written or deleted, with what was read a moment ago: where the secondary may see more
 * afterwards, exactly this filter for exactly this secondary must have been approved. What only narrows needs nobody.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function demandApproval(
  { inventory }: ActivityDependencies,
  clusters: Clusters,
  { run, signal }: Execution,
  { deployment, cluster, id, secondary, authority }: FilterWriting,
  before: FilterState,
  wanted: FilterState,
): Promise<void> {
  if (!needsApproval(before, wanted)) return;
  if (secondary === undefined || authority === undefined)
    throw notApproved(
      `${describeFilter(before)} becomes ${describeFilter(wanted)}: the secondary may see more, and nobody approved it`,
    );
  const target = clusters.of(deployment, secondary);
  const [primaryId, secondaryId, status] = await Promise.all([
    readClusterId(clusters.of(deployment, cluster), signal),
    readClusterId(target, signal),
    readPerformance(target, signal),
  ]);
  if (id !== secondaryId && id !== status.secondaryId)
    throw notApproved(`${id} is not an id of ${secondary}, whose cluster ID is ${secondaryId}`);
  await verifyOperation(inventory, run, deployment, authority, {
    operation: 'performance.primary.paths-filter',
    on: { cluster, clusterId: primaryId },
    with: { cluster: secondary, clusterId: secondaryId },
    detail: describeFilter(wanted),
  });
}

function notApproved(why: string): RunbookError {
  return new RunbookError('NOT_APPROVED', `This is not approved: ${why}.`, {
    observed: why,
    needed: 'an approved plan that allows this filter for this secondary',
    next: 'Start filterReconciliation with the wanted filter; its gate asks for what is missing.',
  });
}
