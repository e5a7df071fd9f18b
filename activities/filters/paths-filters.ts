import type { ExpectedFilter, FilterState, KnownFilter, PathsFilterFacts } from '../../src/contracts/activities';
import { orElse, RunbookError } from '../../src/errors';
import type { ClusterAccess } from '../clusters';
import { readKind } from '../observe';
import { readClusterId } from '../tokens/operation-token';
import type { Check } from '../../src/contracts/plan';
import type { WantedFilter } from '../../src/inventory';
import type { DynamicFilter } from '../../src/vault';
import { check } from '../checks/check';

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

/** The filter that a performance primary keeps under an id. */
export async function filterUnder(
  source: ClusterAccess,
  id: string,
  signal: AbortSignal,
): Promise<PathsFilterFacts | undefined> {
  return source.client.performance.primary.pathsFilter.read(id, { token: await source.credential(), signal });
}

export function filtersUnder(
  source: ClusterAccess,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<SecondaryFilters['filters']> {
  const read = async (id: string) => ({ id, filter: stateOf(await filterUnder(source, id, signal)) });
  return Promise.all([...new Set(ids)].map(read));
}

/** What the primary keeps for one secondary: under the id that it knows it by, and under its cluster ID. */
export async function readFiltersOf(
  source: ClusterAccess,
  target: ClusterAccess,
  signal: AbortSignal,
): Promise<SecondaryFilters> {
  const [clusterId, onSource, onTarget] = await Promise.all([
    readClusterId(target, signal),
    readKind(source, 'performance', signal),
    readKind(target, 'performance', signal),
  ]);
  const attached = onTarget.mode === 'secondary' && onTarget.setId !== undefined && onTarget.setId === onSource.setId;
  // A blank id is that of a secondary that has forgotten its primary.
  const known = attached && onTarget.secondaryId ? onTarget.secondaryId : clusterId;
  const filters = await filtersUnder(source, [known, clusterId], signal);
  return { secondary: target.entry.name, id: known, filters, attached };
}

/** The one filter that stands under the ids of a secondary; where they differ, what does. */
export function standing(filters: SecondaryFilters['filters']): {
  readonly filter?: PathsFilterFacts | undefined;
  readonly differing?: string;
} {
  const [filter, ...others] = filters.flatMap((each) => (each.filter === 'none' ? [] : [each.filter]));
  if (others.every((each) => describeFilter(each) === describeFilter(filter))) return { filter };
  return { differing: filters.map((each) => `${each.id}: ${describeFilter(each.filter)}`).join('; ') };
}

/**
 * What approvers are told of the paths that the primary does not tell as mounts, as one that is mistyped. What cannot
 * be asked is no reason to warn.
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
      : `No mount was found at ${path}. Unless it is a namespace, or a mount below which the workers have no rights, it is mistyped and has no effect in a filter.`;
  });
  return (await Promise.all(warned)).flat();
}

/** What a plan allows that writes a filter under an id of no cluster of the inventory. */
export function filterOfId(id: string, filter: FilterState): string {
  return `${id}: ${describeFilter(filter)}`;
}

/** As the service keeps it. */
function canonical({ mode, paths }: PathsFilterFacts): PathsFilterFacts {
  return { mode, paths: canonicalPaths(paths) };
}

export function stateOf(filter: FilterState | undefined): FilterState {
  return filter === undefined || filter === 'none' ? 'none' : canonical(filter);
}

/** The filter that a secondary must keep, and what stands against knowing it. */
interface FilterFinding {
  readonly known: KnownFilter;
  readonly judged: Check;
  /** What approvers are told of it, where it is to be written for the first time. */
  readonly warnings: readonly string[];
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
      return refused(id, `no paths filter is known, but ${cluster} reports that ${away} is withheld from it`, writeIt);
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
      warnings: source && filter && !kept ? await notMounted(source, [filter], signal) : [],
    };
  };
  return find().catch(orElse(signal, ({ code }) => refused('', code, `Find out why ${cluster} cannot be read.`)));
}

/**
 * The last look before a secondary is pointed at a primary: what that keeps for it is what is expected, so that nothing
 * else is sent to it.
 *
 * @param id - under which the primary looks for the filter once the secondary is attached
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

/** What is kept away from the secondary, in words. */
export function keptAway({ mode, paths }: PathsFilterFacts): string {
  if (paths.length === 0) return mode === 'deny' ? 'nothing' : 'everything';
  return mode === 'deny' ? paths.join(', ') : `everything but ${paths.join(', ')}`;
}

/** What the secondary says of its own filter; undefined where it says nothing. */
async function dynamicFilterOf(target: ClusterAccess, signal: AbortSignal): Promise<DynamicFilter | undefined> {
  const { secondaryId } = await readKind(target, 'performance', signal);
  if (!secondaryId) return undefined;
  return target.client.performance.secondary.dynamicFilter(secondaryId, { token: await target.credential(), signal });
}

/** Paths with one trailing slash and no leading one, each once and in order: the form in which the service keeps them. */
export function canonicalPaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map((path) => `${path.replace(/^\/+|(?<!\/)\/+$/g, '')}/`))].sort();
}

/**
 * Whether a secondary may see more with another filter, or its filter is gone: people must approve that. By the text of
 * both, so that what cannot be told from it counts as wider: it is narrower, or the same, where there was none before,
 * each path that was denied still is, or each that is allowed was before, by itself or with one above it.
 */
export function isWider(before: FilterState, wanted: FilterState): boolean {
  if (before === 'none') return false;
  if (wanted === 'none' || before.mode !== wanted.mode) return true;
  const [had, has] = [canonicalPaths(before.paths), canonicalPaths(wanted.paths)];
  const [smaller, larger] = wanted.mode === 'deny' ? [had, has] : [has, had];
  return !smaller.every((path) => larger.some((each) => path.startsWith(each)));
}
