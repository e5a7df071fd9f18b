import type { FilterState, PathsFilterFacts } from '../../src/contracts/activities';
import { orElse } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { readActive } from '../observe';
import { readClusterId } from '../tokens/operation-token';
import { canonicalPaths } from './filter-difference';

/** The filters that the primary has for one secondary. */
export interface SecondaryFilters {
  /** A cluster of the inventory; outside of it the id. */
  readonly secondary: string;
  /** No cluster of the inventory: only the id is known. */
  readonly outside?: true;
  /** The id that counts: the one that the primary knows the secondary by. */
  readonly id: string;
  /** Under this id and, where it is another one, under the cluster ID. */
  readonly filters: readonly { readonly id: string; readonly filter: FilterState }[];
  /** Whether it follows this primary now; else its filter is kept for when it does. */
  readonly attached: boolean;
}

/** Equal for filters that mean the same; also what a plan allows, as the `detail` of the operation. */
export function describeFilter(filter: PathsFilterFacts | 'none' | undefined): string {
  if (filter === undefined || filter === 'none') return 'no paths filter';
  return `${filter.mode} ${canonicalPaths(filter.paths).join(', ') || 'nothing'}`;
}

export function readPerformance(access: ClusterAccess, signal: AbortSignal) {
  return readActive(access, signal, (node) => access.client.performance.status({ node, signal }));
}

/** The filter that a performance primary keeps under an id. */
export async function filterUnder(
  source: ClusterAccess,
  id: string,
  signal: AbortSignal,
): Promise<PathsFilterFacts | undefined> {
  return source.client.performance.primary.pathsFilter.read(id, { token: await source.credential(), signal });
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
  const filters = await Promise.all(
    [...new Set([known, clusterId])].map(async (id) => ({
      id,
      filter: stateOf(await filterUnder(source, id, signal)),
    })),
  );
  return { secondary: target.entry.name, id: known, filters, attached };
}

/** The filter under an id that no cluster of the inventory has. */
export async function readFilterOfId(
  source: ClusterAccess,
  id: string,
  signal: AbortSignal,
): Promise<SecondaryFilters> {
  const filter = stateOf(await filterUnder(source, id, signal));
  return { secondary: id, outside: true, id, filters: [{ id, filter }], attached: false };
}

/**
 * What approvers are told of the paths that the primary does not tell as mounts, as one that is mistyped. What cannot be
 * asked is no reason to warn.
 */
export async function notMounted(
  source: ClusterAccess,
  filters: readonly FilterState[],
  signal: AbortSignal,
): Promise<string[]> {
  const paths = new Set(filters.flatMap((each) => (each === 'none' ? [] : canonicalPaths(each.paths))));
  const isMount = async (path: string): Promise<boolean> => {
    // Of any key below it the service tells the mount; of one in a namespace without the namespace.
    const mount = await source.client.sys.mountOf(`${path}any`, { token: await source.credential(), signal });
    return path === mount.path || path.endsWith(`/${mount.path}`);
  };
  const warned = [...paths].map(async (path) => {
    const seen = await isMount(path).catch(orElse(signal, ({ code }) => code !== 'PERMISSION_DENIED'));
    return seen
      ? []
      : `Nothing is seen to be mounted at ${path}: unless it is a namespace, or a mount below which the workers may do nothing, it is mistyped, and has no effect in a filter.`;
  });
  return (await Promise.all(warned)).flat();
}

/** What a plan allows that writes a filter under an id of no cluster of the inventory. */
export function filterOfId(id: string, filter: FilterState): string {
  return `${id}: ${describeFilter(filter)}`;
}

/** As the service keeps it. */
export function canonical({ mode, paths }: PathsFilterFacts): PathsFilterFacts {
  return { mode, paths: canonicalPaths(paths) };
}

export function stateOf(filter: FilterState | undefined): FilterState {
  return filter === undefined || filter === 'none' ? 'none' : canonical(filter);
}
