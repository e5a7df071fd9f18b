import type { DynamicFilter } from '../../src/vault';
import type { PathsFilterFacts, RunbookActivities } from '../../src/contracts/activities';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { execute, executeChange } from '../execution';
import { demandApproval } from './filter-authority';
import { follows, primaryAddresses } from './following';
import { describeReplication, isAlive } from '../observe';
import { awaitClusterId } from '../tokens/operation-token';
import { beforeOf, describeFilter, readPerformance } from '../filters/paths-filters';
import { CHANGE_TIMEOUT_MS, awaitState, beforeSending, readActConfirm } from '../read-act-confirm';

const FILTER_BUDGET_MS = 30_000;
const COMPARE_BUDGET_MS = 20_000;
/** How long a secondary that does not answer is waited for before its step parks, ms. */
const ANSWER_BUDGET_MS = 30_000;
/** A performance secondary finds the new primary through addresses that it learned before; minutes are not needed. */
const FOLLOW_BUDGET_MS = 60_000;

type PerformanceActivities = Pick<
  RunbookActivities,
  'awaitPerformanceSecondaries' | 'readPathsFilter' | 'writePathsFilter' | 'compareDynamicFilters'
>;

/** Performance secondaries after a DR promotion: do they follow, else re-point them with their filters (interface 4.2, facts 6). */
export function createPerformanceSecondaryActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): PerformanceActivities {
  return {
    awaitPerformanceSecondaries: execute(async ({ deployment, primary, secondaries }, execution) => {
      const { signal } = execution;
      const { limits } = clusters.deployment(deployment);
      const addresses = await primaryAddresses(clusters.of(deployment, primary), signal);
      const following = await Promise.all(
        secondaries.map(async (cluster) => {
          const access = clusters.of(deployment, cluster);
          let id: string | undefined;
          try {
            const seen = await awaitState(execution, {
              read: async () => {
                const state = await readPerformance(access, signal);
                id = state.secondaryId ?? id;
                return state;
              },
              until: (state) =>
                follows(state, addresses) && state.state === 'stream-wals' && isAlive(state, limits.heartbeatAgeMs),
              budgetMs: Math.min(FOLLOW_BUDGET_MS, limits.streamingMs),
              describe: describeReplication,
              needed: `${cluster} follows ${primary}`,
              cluster,
              pollMs: 1_000,
            });
            return { cluster, follows: true, observed: describeReplication(seen), id };
          } catch (error) {
            if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
            return { cluster, follows: false, observed: error.observed ?? 'not readable', id };
          }
        }),
      );
      return { following };
    }),

    readPathsFilter: execute(async ({ deployment, primary, secondary }, execution) => {
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
    }),

    writePathsFilter: executeChange(async (input, execution) => {
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
          await beforeSending(() => demandApproval(dependencies, clusters, execution, input, before ?? 'none', filter));
          execution.throwIfCancelled();
          return filters.write({ id, ...filter }, { token, signal, timeoutMs: CHANGE_TIMEOUT_MS });
        },
      });
      const { outcome, calledAt, calls } = changed;
      return { outcome, observed: wanted, calledAt, confirmedAt: Date.now(), calls, ...beforeOf(calls, before) };
    }),

    compareDynamicFilters: execute(async ({ deployment, primary, secondary, id, expected }, execution) => {
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
    }),
  };
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
