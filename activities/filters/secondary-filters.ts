import type { DynamicFilter } from '../../src/vault';
import type {
  Authority,
  BetweenClusters,
  FilterChangeResult,
  OnCluster,
  PathsFilterFacts,
  PathsFilterResult,
} from '../../src/contracts/activities';
import { RunbookError, isRunbookError } from '../../src/errors';
import { currentExecution } from '../execution';
import { demandApproval } from '../joining/filter-authority';
import { CHANGE_TIMEOUT_MS, awaitState, beforeSending, readActConfirm, resultOf } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitClusterId } from '../tokens/operation-token';
import { beforeOf, describeFilter, readPerformance } from './paths-filters';

const FILTER_BUDGET_MS = 30_000;
const COMPARE_BUDGET_MS = 20_000;

/** The paths filter that the primary keeps for a secondary, under the id that it has or its cluster ID. */
export async function readPathsFilter({ deployment, primary, secondary }: BetweenClusters): Promise<PathsFilterResult> {
  const execution = currentExecution();
  const { clusters } = execution;
  const { signal } = execution;
  const target = clusters.of(deployment, secondary);
  const source = clusters.of(deployment, primary);
  const { streamingMs } = clusters.deployment(deployment).limits;
  const id = await awaitClusterId(target, execution, Math.min(ANSWER_BUDGET_MS, streamingMs));
  const { secondaryId } = await readPerformance(target, signal);
  const token = await source.credential();
  const ids = [...new Set([secondaryId ?? id, id])];
  const found = await Promise.all(
    ids.map((each) => source.client.performance.primary.pathsFilter.read(each, { token, signal })),
  );
  const filters = found.filter((filter) => filter !== undefined);
  if (new Set(filters.map(describeFilter)).size > 1) {
    throw new RunbookError('STATE_DIVERGED', `${primary} has different paths filters for ${secondary}.`, {
      cluster: primary,
      observed: ids.map((each, index) => `${each}: ${describeFilter(found[index])}`).join('; '),
      needed: 'one filter',
      next: `Write the right filter under ${ids.join(' and ')} on ${primary}, then retry.`,
    });
  }
  const [filter] = filters;
  return { id, filter, observed: describeFilter(filter) };
}

/** Writes a paths filter, as an approved plan allows for this secondary. */
export async function writePathsFilter(
  input: OnCluster & {
    readonly id: string;
    readonly filter: PathsFilterFacts;
    /** Whose filter it is, and a plan that allows it: absent only where the input was made by hand. */
    readonly secondary?: string;
    readonly authority?: Authority;
  },
): Promise<FilterChangeResult> {
  const execution = currentExecution();
  const { clusters } = execution;
  const { deployment, cluster, id, filter } = input;
  const { signal } = execution;
  const access = clusters.of(deployment, cluster);
  const token = await access.credential();
  const filters = access.client.performance.primary.pathsFilter;
  const wanted = describeFilter(filter);
  let before: PathsFilterFacts | undefined;
  const changed = await readActConfirm(execution, {
    read: () => filters.read(id, { token, signal }),
    until: (found) => describeFilter(found) === wanted,
    budgetMs: FILTER_BUDGET_MS,
    describe: describeFilter,
    needed: `under ${id}: ${wanted}`,
    cluster,
    allow: (found) => {
      before = found;
    },
    act: async () => {
      await beforeSending(() => demandApproval(input, before ?? 'none', filter));
      execution.throwIfCancelled();
      return filters.write({ id, ...filter }, { token, signal, timeoutMs: CHANGE_TIMEOUT_MS });
    },
  });
  return { ...resultOf(changed, wanted), ...beforeOf(changed.calls, before) };
}

/** Compares the dynamic filter of a secondary as both sides tell it, and with what is expected. */
export async function compareDynamicFilters(
  input: BetweenClusters & { readonly id: string; readonly expected?: PathsFilterFacts },
): Promise<{ readonly equal: boolean; readonly observed: string }> {
  const { deployment, primary, secondary, id, expected } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const { signal } = execution;
  const source = clusters.of(deployment, primary);
  const target = clusters.of(deployment, secondary);
  const wanted = describeFilter(expected);
  const read = async () => {
    const onSource = { token: await source.credential(), signal };
    const [filter, onPrimary, onSecondary] = await Promise.all([
      source.client.performance.primary.pathsFilter.read(id, onSource),
      source.client.performance.primary.dynamicFilter(id, onSource),
      target.client.performance.secondary.dynamicFilter(id, { token: await target.credential(), signal }),
    ]);
    return { filter: describeFilter(filter), onPrimary, onSecondary };
  };
  type Seen = Awaited<ReturnType<typeof read>>;
  const describe = ({ filter, onPrimary, onSecondary }: Seen) =>
    `paths filter ${filter}, expected ${wanted}; ${primary}: ${dynamicText(onPrimary)}; ${secondary}: ${dynamicText(onSecondary)}`;
  try {
    const seen = await awaitState(execution, {
      read,
      until: ({ filter, onPrimary, onSecondary }) =>
        dynamicText(onPrimary) === dynamicText(onSecondary) &&
        // Two sides may agree, and yet let everything through or keep away what nobody wants kept away.
        filter === wanted &&
        (expected === undefined || comesFrom(onPrimary, expected)),
      budgetMs: Math.min(COMPARE_BUDGET_MS, clusters.deployment(deployment).limits.streamingMs),
      describe,
      needed: 'the expected filter, and the same dynamic filter on both sides',
    });
    return { equal: true, observed: `the same on both sides: ${dynamicText(seen.onPrimary)}` };
  } catch (error) {
    if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
    return { equal: false, observed: error.observed ?? 'not readable' };
  }
}

/** Whether the expansion is there, and names nothing that is not below a path of the filter. */
function comesFrom(dynamic: DynamicFilter | undefined, { paths }: PathsFilterFacts): boolean {
  const below = (each: string) => paths.some((path) => each.startsWith(path.endsWith('/') ? path : `${path}/`));
  return dynamic !== undefined && [...dynamic.mounts, ...dynamic.namespaces].every(below);
}

function dynamicText(filter: DynamicFilter | undefined): string {
  if (!filter) return 'none';
  return `mounts ${[...filter.mounts].sort().join(', ') || 'none'}, namespaces ${[...filter.namespaces].sort().join(', ') || 'none'}`;
}
