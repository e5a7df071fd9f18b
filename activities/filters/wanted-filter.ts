import type { ExpectedFilter, KnownFilter, PathsFilterFacts } from '../../src/contracts/activities';
import type { Check } from '../../src/contracts/plan';
import { RunbookError, orElse } from '../../src/errors';
import type { WantedFilter } from '../../src/inventory';
import type { DynamicFilter } from '../../src/vault';
import { check } from '../checks/check';
import type { ClusterAccess } from '../clusters';
import { readClusterId } from '../tokens/operation-token';
import { canonical, describeFilter, filterUnder, notMounted, readFiltersOf, readPerformance } from './paths-filters';

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
    const read = source ? (await readFiltersOf(source, target, signal)).filters : [];
    const [kept, ...others] = read.flatMap((each) => (each.filter === 'none' ? [] : [each.filter]));
    if (others.some((each) => describeFilter(each) !== describeFilter(kept))) {
      const told = read.map((each) => `${each.id}: ${describeFilter(each.filter)}`).join('; ');
      return refused(id, told, 'Make them equal with filterReconciliation.', 'one filter under both ids');
    }
    const filter = kept ?? (wanted === 'none' ? undefined : wanted);
    const writeIt = `Write it, or "none", under pathsFilters.${cluster} in the inventory.`;
    const own = filter === undefined ? await dynamicFilterOf(target, signal) : undefined;
    const away = [...(own?.mounts ?? []), ...(own?.namespaces ?? [])].join(', ');
    if (away !== '' && wanted !== 'none')
      return refused(id, `no paths filter is known, yet ${cluster} says that ${away} is kept away from it`, writeIt);
    if (source === undefined && wanted === undefined)
      return refused(id, 'no primary answers that keeps its filter, and the inventory names none', writeIt);
    const differs = kept !== undefined && wanted !== undefined && describeFilter(kept) !== describeFilter(wanted);
    const from = kept ? 'kept by the primary' : filter ? 'wanted by the inventory' : 'none anywhere';
    return {
      known: { id, ...(filter && { filter: canonical(filter) }) },
      judged: check('paths filter known', cluster, !differs, {
        observed: `${describeFilter(filter)} (${from})`,
        needed: differs ? `${describeFilter(wanted)}, as the inventory wants` : NEEDED,
        next: 'What the primary keeps is kept. Run filterReconciliation for what the inventory wants.',
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
    next: `Nothing was sent. Find out who changed it, make it right on ${cluster}, then retry.`,
  });
}

/** What is kept away from the secondary, in words. */
export function keptAway({ mode, paths }: PathsFilterFacts): string {
  if (paths.length === 0) return mode === 'deny' ? 'nothing' : 'everything';
  return mode === 'deny' ? paths.join(', ') : `everything but ${paths.join(', ')}`;
}

/** What the secondary says of its own filter; undefined where it says nothing. */
async function dynamicFilterOf(target: ClusterAccess, signal: AbortSignal): Promise<DynamicFilter | undefined> {
  const { secondaryId } = await readPerformance(target, signal);
  if (!secondaryId) return undefined;
  return target.client.performance.secondary.dynamicFilter(secondaryId, { token: await target.credential(), signal });
}
