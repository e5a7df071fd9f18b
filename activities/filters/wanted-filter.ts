import type { ExpectedFilter, KnownFilter, PathsFilterFacts } from '../../src/contracts/activities';
import type { Check } from '../../src/contracts/plan';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { WantedFilter } from '../../src/inventory';
import type { DynamicFilter } from '../../src/vault';
import { check } from '../checks/check';
import type { ClusterAccess } from '../clusters';
import { readClusterId } from '../tokens/operation-token';
import { canonicalPaths } from './filter-difference';
import { describeFilter, readFiltersOf, readPerformance } from './paths-filters';

/** The filter that a secondary must keep, and what stands against knowing it. */
interface FilterFinding {
  readonly known: KnownFilter;
  readonly judged: Check;
}

/**
 * Finds the paths filter that a performance secondary must keep when it follows another primary: what a primary keeps
 * for it under its former id or its cluster ID; where none does, what the inventory wants. A secondary that says itself
 * that something is kept away from it, while neither knows a filter, is refused: it would receive everything.
 *
 * @param source - the primary that keeps the filters; absent where none answers
 */
export async function findFilter(
  source: ClusterAccess | undefined,
  target: ClusterAccess,
  wanted: WantedFilter | undefined,
  signal: AbortSignal,
): Promise<FilterFinding> {
  const cluster = target.entry.name;
  try {
    const clusterId = await readClusterId(target, signal);
    const read = source ? (await readFiltersOf(source, target, signal)).filters : [];
    const kept = read.flatMap(({ filter }) => (filter === 'none' ? [] : [filter]));
    const told = read.map(({ id, filter }) => `${id}: ${describeFilter(filter)}`).join('; ');
    if (new Set(kept.map(describeFilter)).size > 1) {
      return refused(
        clusterId,
        cluster,
        told,
        'one filter under both ids',
        'Make them equal with filterReconciliation.',
      );
    }
    const fromInventory = wanted === undefined || wanted === 'none' ? undefined : canonical(wanted);
    const filter = kept[0] ?? fromInventory;
    const own = filter === undefined ? await dynamicFilterOf(target, signal) : undefined;
    if (own !== undefined && own.mounts.length + own.namespaces.length > 0 && wanted !== 'none') {
      return refused(
        clusterId,
        cluster,
        `no paths filter is known, yet ${cluster} says that ${[...own.mounts, ...own.namespaces].join(', ')} is kept away from it`,
        'the filter that it must keep',
        `Write it, or "none", under pathsFilters.${cluster} in the inventory.`,
      );
    }
    if (source === undefined && wanted === undefined) {
      return refused(
        clusterId,
        cluster,
        'no primary answers that keeps its filter, and the inventory names none',
        'the filter that it must keep',
        `Write it, or "none", under pathsFilters.${cluster} in the inventory.`,
      );
    }
    const differs = kept[0] !== undefined && wanted !== undefined && describeFilter(kept[0]) !== describeFilter(wanted);
    return {
      known: { id: clusterId, ...(filter && { filter: canonical(filter) }) },
      judged: check('paths filter known', cluster, !differs, {
        observed: `${describeFilter(filter)} (${kept[0] ? 'kept by the primary' : filter ? 'wanted by the inventory' : 'none anywhere'})`,
        needed: differs ? `${describeFilter(wanted)}, as the inventory wants` : 'the filter that it must keep',
        next: 'What the primary keeps is kept. Run filterReconciliation for what the inventory wants.',
        otherwise: 'warn',
      }),
    };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    return refused('', cluster, error.code, 'the filter that it must keep', `Find out why ${cluster} cannot be read.`);
  }
}

/**
 * The last look before a secondary is pointed at a primary: what that keeps for it is what is expected, so that nothing
 * else is sent to it. People who decided that the filter is not written have said so.
 *
 * @param id - under which the primary looks for the filter once the secondary is attached
 * @throws RunbookError PRECONDITION_FAILED
 */
export async function requireFilter(
  source: ClusterAccess,
  secondary: string,
  id: string,
  { filter, skippedBy }: ExpectedFilter,
  signal: AbortSignal,
): Promise<void> {
  if (skippedBy !== undefined) return;
  const found = await source.client.performance.primary.pathsFilter.read(id, {
    token: await source.credential(),
    signal,
  });
  if (describeFilter(found) === describeFilter(filter)) return;
  const cluster = source.entry.name;
  throw new RunbookError('PRECONDITION_FAILED', `${cluster} does not keep the filter that ${secondary} must have.`, {
    cluster,
    observed: `${describeFilter(found)} under ${id}`,
    needed: `${describeFilter(filter)} under ${id}`,
    next: `Nothing was sent. Find out who changed it, make it right on ${cluster}, then retry.`,
  });
}

/** What is kept away from the secondary, in words. */
export function keptAway({ mode, paths }: PathsFilterFacts): string {
  if (paths.length === 0) return mode === 'deny' ? 'nothing' : 'everything';
  return mode === 'deny' ? paths.join(', ') : `everything but ${paths.join(', ')}`;
}

function refused(id: string, cluster: string, observed: string, needed: string, next: string): FilterFinding {
  return { known: { id }, judged: check('paths filter known', cluster, false, { observed, needed, next }) };
}

function canonical({ mode, paths }: PathsFilterFacts): PathsFilterFacts {
  return { mode, paths: canonicalPaths(paths) };
}

/** What the secondary says of its own filter; undefined where it says nothing. */
async function dynamicFilterOf(target: ClusterAccess, signal: AbortSignal): Promise<DynamicFilter | undefined> {
  const { secondaryId } = await readPerformance(target, signal);
  if (!secondaryId) return undefined;
  return target.client.performance.secondary.dynamicFilter(secondaryId, { token: await target.credential(), signal });
}
