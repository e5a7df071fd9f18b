import type { SecondaryFilters } from './paths-filters';
import type {
  FilterChangeResult,
  OnCluster,
  Authority,
  OnDeployment,
  PathsFilterFacts,
} from '../../src/contracts/activities';
import { currentExecution } from '../execution';
import { demandApproval } from '../joining/filter-authority';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm } from '../read-act-confirm';
import { beforeOf, describeFilter, readFiltersOf } from './paths-filters';

const FILTER_BUDGET_MS = 30_000;

/* Paths filters of a performance primary become what is wanted (interface 4.2: `paths-filter`; facts 6). */

/** Deletes a filter: the secondary gets everything. Demands the approval of gate `filter`. */
export async function deletePathsFilter(
  input: OnCluster & { readonly id: string; readonly secondary: string; readonly authority: Authority },
): Promise<FilterChangeResult> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { deployment, cluster, id } = input;
  const access = clusters.of(deployment, cluster);
  const token = await access.credential();
  const filters = access.client.performance.primary.pathsFilter;
  let before: PathsFilterFacts | undefined;
  const { outcome, calledAt, calls } = await readActConfirm(execution, {
    read: () => filters.read(id, { token, signal }),
    until: (found) => found === undefined,
    budgetMs: FILTER_BUDGET_MS,
    describe: describeFilter,
    needed: `under ${id}: no paths filter`,
    cluster,
    allow: (found) => {
      before = found;
    },
    act: async () => {
      await beforeSending(() => demandApproval(input, before ?? 'none', 'none'));
      execution.throwIfCancelled();
      return filters.delete(id, { token, signal, timeoutMs: CHANGE_TIMEOUT_MS });
    },
  });
  return {
    outcome,
    observed: 'no paths filter',
    calledAt,
    confirmedAt: Date.now(),
    calls,
    ...beforeOf(calls, before),
  };
}

/** The filters of these secondaries as they are. */
export async function readPathsFilters(
  input: OnDeployment & { readonly primary: string; readonly secondaries: readonly string[] },
): Promise<{ readonly secondaries: readonly SecondaryFilters[] }> {
  const { deployment, primary, secondaries } = input;
  const { clusters, signal } = currentExecution();
  return {
    secondaries: await Promise.all(
      secondaries.map((each) => readFiltersOf(clusters.of(deployment, primary), clusters.of(deployment, each), signal)),
    ),
  };
}
