import type { ExpectedFilter, FilterState, KnownFilter, PathsFilterFacts } from '../../src/contracts/activities';
import { orElse, RunbookError } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { readKind } from '../observe';
import { readClusterId } from '../tokens/operation-token';
import type { Check } from '../../src/contracts/plan';
import type { WantedFilter } from '../../src/inventory';
import type { DynamicFilter } from '../../src/vault';
import { check } from '../checks/check';

/** The filters that the primary has for one secondary. */
export interface SecondaryFilters {
  /** A cluster of the inventory; the id, if it is not in the inventory. */
  readonly secondary: string;
  /** Not a cluster of the inventory: only the id is known. */
  readonly outside?: true;
  /** The effective id: the one under which the primary lists the secondary. */
  readonly id: string;
  /** Under this id and, if that is different, under the cluster ID. */
  readonly filters: readonly { readonly id: string; readonly filter: FilterState }[];
  /** Whether the secondary follows this primary now. Otherwise its filter is kept for later. */
  readonly attached: boolean;
}

/** The same text for filters that mean the same. A plan uses it as the `detail` of the operation. */
export function describeFilter(filter: PathsFilterFacts | 'none' | undefined): string {
  if (filter === undefined || filter === 'none') return 'no paths filter';
  return `${filter.mode} ${canonicalPaths(filter.paths).join(', ') || 'nothing'}`;
}

/** The filter that a performance primary keeps under an id. */
export async function filterUnder(source: ClusterAccess, id: string, signal: AbortSignal) {
  return source.client.performance.primary.pathsFilter.read(id, { token: await source.credential(), signal });
}

export function filtersUnder(source: ClusterAccess, ids: readonly string[], signal: AbortSignal) {
  const read = async (id: string) => ({ id, filter: stateOf(await filterUnder(source, id, signal)) });
  return Promise.all([...new Set(ids)].map(read));
}

/** The filters that the primary keeps for one secondary: under its id there, and under its cluster ID. */
export async function readFiltersOf(source: ClusterAccess, target: ClusterAccess, signal: AbortSignal) {
  const [clusterId, onSource, onTarget] = await Promise.all([
    readClusterId(target, signal),
    readKind(source, 'performance', signal),
    readKind(target, 'performance', signal),
  ]);
  const attached = onTarget.mode === 'secondary' && onTarget.setId !== undefined && onTarget.setId === onSource.setId;
  // The id is blank if the secondary has forgotten its primary.
  const known = attached && onTarget.secondaryId ? onTarget.secondaryId : clusterId;
  const filters = await filtersUnder(source, [known, clusterId], signal);
  return { secondary: target.entry.name, id: known, filters, attached };
}

/** The one filter under the ids of a secondary; if they differ, a description of the difference. */
export function standing(filters: SecondaryFilters['filters']) {
  const [filter, ...others] = filters.flatMap((each) => (each.filter === 'none' ? [] : [each.filter]));
  if (others.every((each) => describeFilter(each) === describeFilter(filter))) return { filter };
  return { differing: filters.map((each) => `${each.id}: ${describeFilter(each.filter)}`).join('; ') };
}

/**
 * Warnings for approvers about paths that are not mounts according to the primary, such as mistyped ones. A path that
 * cannot be checked causes no warning.
 */
export async function notMounted(source: ClusterAccess, filters: readonly FilterState[]): Promise<string[]> {
  const { signal } = currentExecution();
  const paths = new Set(filters.flatMap((each) => (each === 'none' ? [] : canonicalPaths(each.paths))));
  const isMount = async (path: string): Promise<boolean> => {
    // The service returns the mount of any key below it; in a namespace, without the name of the namespace.
    const mount = await source.client.sys.mountOf(`${path}any`, { token: await source.credential(), signal });
    return path === mount.path || path.endsWith(`/${mount.path}`);
  };
  const warned = [...paths].map(async (path) => {
    const seen = await isMount(path).catch(orElse(signal, ({ code }) => code !== 'PERMISSION_DENIED'));
    return seen
      ? []
      : `No mount was found at ${path}. Unless it is a namespace, or a mount below which the workers have no rights, it is mistyped and has no effect in a filter.`;
  });
  return (await Promise.all(warned)).flat();
}

/** The operation detail of a filter under an id that belongs to no cluster of the inventory. */
export function filterOfId(id: string, filter: FilterState): string {
  return `${id}: ${describeFilter(filter)}`;
}

/** In the form in which the service stores it. */
function canonical({ mode, paths }: PathsFilterFacts): PathsFilterFacts {
  return { mode, paths: canonicalPaths(paths) };
}

export function stateOf(filter: FilterState | undefined): FilterState {
  return filter === undefined || filter === 'none' ? 'none' : canonical(filter);
}

/** The filter that a secondary must keep, and the check that it is known. */
interface FilterFinding {
  readonly known: KnownFilter;
  readonly judged: Check;
  /** Warnings for approvers, if the filter is going to be written for the first time. */
  readonly warnings: readonly string[];
}

/**
 * Finds the paths filter that a performance secondary must keep when it follows another primary: the filter that a
 * primary keeps for it under its former id or its cluster ID; otherwise the one in the inventory. If neither has a
 * filter, but the secondary itself reports that data is withheld from it, it is refused: it would receive everything.
 *
 * @param source - the primary that keeps the filters; absent if none answers
 */
export async function findFilter(
  source: ClusterAccess | undefined,
  target: ClusterAccess,
  wanted: WantedFilter | undefined,
  signal: AbortSignal,
): Promise<FilterFinding> {
  const cluster = target.entry.name;
  const NEEDED = 'the filter that it must keep';
  const refused = (id: string, observed: string, next: string, needed = NEEDED): FilterFinding => ({
    known: { id },
    judged: check('paths filter known', cluster, false, { observed, needed, next }),
    warnings: [],
  });
  const find = async (): Promise<FilterFinding> => {
    const id = await readClusterId(target, signal);
    const { filter: kept, differing } = standing(source ? (await readFiltersOf(source, target, signal)).filters : []);
    if (differing !== undefined)
      return refused(id, differing, 'Make them equal with filterReconciliation.', 'one filter under both ids');
    const filter = kept ?? (wanted === 'none' ? undefined : wanted);
    const writeIt = `Write it, or "none", under pathsFilters.${cluster} in the inventory.`;
    const own = filter === undefined ? await dynamicFilterOf(target, signal) : undefined;
    const away = [...(own?.mounts ?? []), ...(own?.namespaces ?? [])].join(', ');
    if (away !== '' && wanted !== 'none')
      return refused(id, `no paths filter is known, but ${cluster} reports that ${away} is kept away from it`, writeIt);
    if (source === undefined && wanted === undefined)
      return refused(id, 'no primary that keeps its filter answers, and the inventory names none', writeIt);
    const differs = kept !== undefined && wanted !== undefined && describeFilter(kept) !== describeFilter(wanted);
    const from = kept ? 'kept by the primary' : filter ? 'wanted by the inventory' : 'none anywhere';
    return {
      known: { id, ...(filter && { filter: canonical(filter) }) },
      judged: check('paths filter known', cluster, !differs, {
        observed: `${describeFilter(filter)} (${from})`,
        needed: differs ? `${describeFilter(wanted)}, as the inventory wants` : NEEDED,
        next: 'The filter on the primary is kept. Run filterReconciliation to apply the filter of the inventory.',
        otherwise: 'warn',
      }),
      warnings: source && filter && !kept ? await notMounted(source, [filter]) : [],
    };
  };
  return find().catch(orElse(signal, ({ code }) => refused('', code, `Find out why ${cluster} cannot be read.`)));
}

/**
 * The last check before a secondary is pointed at a primary: the primary has the expected filter for it, so that it
 * does not receive anything else.
 *
 * @param id - the id under which the primary applies the filter once the secondary is attached
 * @throws RunbookError PRECONDITION_FAILED
 */
export async function requireFilter(
  source: ClusterAccess,
  secondary: string,
  id: string,
  { filter }: ExpectedFilter,
  signal: AbortSignal,
): Promise<void> {
  const found = await filterUnder(source, id, signal);
  if (describeFilter(found) === describeFilter(filter)) return;
  const cluster = source.entry.name;
  throw new RunbookError('PRECONDITION_FAILED', `${cluster} does not keep the filter that ${secondary} must have.`, {
    cluster,
    observed: `${describeFilter(found)} under ${id}`,
    needed: `${describeFilter(filter)} under ${id}`,
    next: `Find out who changed it, correct it on ${cluster}, then retry.`,
  });
}

/** The data that is withheld from the secondary, as text. */
export function withheld({ mode, paths }: PathsFilterFacts): string {
  if (paths.length === 0) return mode === 'deny' ? 'nothing' : 'everything';
  return mode === 'deny' ? paths.join(', ') : `everything but ${paths.join(', ')}`;
}

/** The filter that the secondary reports about itself; undefined if it reports none. */
async function dynamicFilterOf(target: ClusterAccess, signal: AbortSignal): Promise<DynamicFilter | undefined> {
  const { secondaryId } = await readKind(target, 'performance', signal);
  if (!secondaryId) return undefined;
  return target.client.performance.secondary.dynamicFilter(secondaryId, { token: await target.credential(), signal });
}

/** Sorted unique paths with one trailing slash and no leading slash: the form in which the service stores them. */
export function canonicalPaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map((path) => `${path.replace(/^\/+|(?<!\/)\/+$/g, '')}/`))].sort();
}

/**
 * Whether a secondary may see more with the new filter, or loses its filter: people must approve that. Only the texts
 * are compared, so anything uncertain counts as wider. The new filter is not wider if there was none before, if each
 * path that was denied still is, or if each path that is allowed was allowed before, by itself or through a path above
 * it.
 */
export function isWider(before: FilterState, wanted: FilterState): boolean {
  if (before === 'none') return false;
  if (wanted === 'none' || before.mode !== wanted.mode) return true;
  const [had, has] = [canonicalPaths(before.paths), canonicalPaths(wanted.paths)];
  const [smaller, larger] = wanted.mode === 'deny' ? [had, has] : [has, had];
  return !smaller.every((path) => larger.some((each) => path.startsWith(each)));
}
