import type {
  FilterChangeResult,
  OnCluster,
  Authority,
  OnDeployment,
  FilterActivities,
  FilterRoute,
  FilterState,
  PathsFilterFacts,
  SecondaryFilters,
} from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { FilterReconciliationInput } from '../../src/contracts/runbook-inputs';
import { findCluster, findDeployment } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import { check } from '../checks/switchover-rule';
import type { Clusters } from '../clusters';
import type { ActivityDependencies } from '../dependencies';
import { currentExecution, execute } from '../execution';
import { demandApproval } from '../joining/filter-authority';
import { describeReplication } from '../observe';
import { changesOf, filterPlan } from '../plans/filter-plan';
import { CHANGE_TIMEOUT_MS, beforeSending, readActConfirm } from '../read-act-confirm';
import { credentialMay } from '../roles/permissions';
import { canonicalPaths } from './filter-difference';
import { beforeOf, describeFilter, readFiltersOf } from './paths-filters';

const FILTER_BUDGET_MS = 30_000;
const FILTER_PATH = 'sys/replication/performance/primary/paths-filter';
/* Paths filters of a performance primary become what is wanted (interface 4.2: `paths-filter`; facts 6). */

export function createFilterActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<FilterActivities, 'assessFilterReconciliation'> {
  const { inventory } = dependencies;
  return {
    assessFilterReconciliation: execute(async ({ input }, { signal }) => {
      const deployment = findDeployment(inventory, input.deployment);
      for (const name of [...Object.keys(input.filters ?? {}), ...(input.primary === undefined ? [] : [input.primary])])
        findCluster(deployment, name);
      const observations = await observeDeployment(clusters, input.deployment, signal);
      const found = findPrimary(input, observations);
      const gates = (needed: boolean) => ({ filter: gateFacts(inventory, deployment, 'filter', needed) });
      const base = { observations, site: await siteFacts(dependencies, input.deployment) };
      if ('refused' in found) return { ...base, gates: gates(false), preconditions: [found.refused] };
      const { primary } = found;
      const source = clusters.of(input.deployment, primary.cluster);

      const { wanted, preconditions: named } = wantedFilters(input, deployment, primary, observations);
      const looked = observations.filter(
        (each) => isReadable(each) && (follows(each, primary) || wanted.has(each.cluster)),
      );
      const read = await Promise.all(
        looked.map((each) => readFiltersOf(source, clusters.of(input.deployment, each.cluster), signal)),
      );
      const secondaries = read.map((each) => {
        const filter = wanted.get(each.secondary);
        return filter === undefined ? each : { ...each, wanted: filter };
      });
      const route: FilterRoute = { primary: primary.cluster, secondaries, changes: changesOf(secondaries) };
      const preconditions = [
        check('performance primary', primary.cluster, true, describeReplication(primary.performance), 'primary'),
        ...named,
        ...secondaries.map(asWanted),
        ...(await strangers(primary, read, async (id) => {
          const token = await source.credential();
          return describeFilter(await source.client.performance.primary.pathsFilter.read(id, { token, signal }));
        })),
        ...(route.changes.length === 0
          ? []
          : [
              await credentialMay(
                source,
                [`${FILTER_PATH}/${route.changes[0]?.id ?? ''}`],
                neededRights(route),
                signal,
              ),
            ]),
      ];
      return {
        ...base,
        gates: gates(route.changes.length > 0),
        preconditions,
        route,
        plan: filterPlan(input, primary, looked, route),
      };
    }),
  };
}

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
      await beforeSending(() => demandApproval(execution, clusters, execution, input, before ?? 'none', 'none'));
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

/** Who is performance primary is read, never configured. */
function findPrimary(
  { primary: named }: FilterReconciliationInput,
  observations: readonly ClusterObservation[],
): { readonly primary: ClusterObservation } | { readonly refused: Precondition } {
  const primaries = observations.filter((each) => each.performance?.mode === 'primary');
  const [primary, second] = named === undefined ? primaries : primaries.filter((each) => each.cluster === named);
  if (primary && !second) return { primary };
  const seen = observations
    .map(
      ({ cluster, reachable, performance, error }) =>
        `${cluster}: ${reachable ? describeReplication(performance) : (error ?? 'not readable')}`,
    )
    .join('; ');
  return {
    refused: check(
      'one performance primary',
      named,
      false,
      seen,
      named === undefined ? 'one performance primary in the deployment' : `${named} is a performance primary`,
      second ? 'Name the one that is meant: {"primary": ...}.' : 'Paths filters are kept on the performance primary.',
    ),
  };
}

const isReadable = ({ reachable, clusterId }: ClusterObservation) => reachable && clusterId !== undefined;

function follows(each: ClusterObservation, primary: ClusterObservation): boolean {
  return each.performance?.mode === 'secondary' && each.performance.setId === primary.performance?.setId;
}

/** What is wanted, of the input or else of the inventory, and what stands against it. */
function wantedFilters(
  { filters }: FilterReconciliationInput,
  { pathsFilters }: Deployment,
  primary: ClusterObservation,
  observations: readonly ClusterObservation[],
): { readonly wanted: ReadonlyMap<string, FilterState>; readonly preconditions: readonly Precondition[] } {
  const wanted = new Map<string, FilterState>();
  const preconditions: Precondition[] = [];
  for (const [cluster, filter] of Object.entries(filters ?? pathsFilters)) {
    const each = observations.find((one) => one.cluster === cluster);
    const attached = each !== undefined && follows(each, primary);
    // What the inventory says of a cluster that is no secondary now is for when it becomes one.
    if (!attached && filters === undefined && each?.reachable) continue;
    const readable = each !== undefined && isReadable(each) && cluster !== primary.cluster;
    preconditions.push(
      check(
        'performance secondary',
        cluster,
        readable,
        each?.reachable ? describeReplication(each.performance) : (each?.error ?? 'not readable'),
        `${cluster} answers and is not the primary`,
        'Its ids are read from it: start again when it answers, or leave it out with {"filters": ...}.',
      ),
    );
    if (!readable) continue;
    if (!attached) {
      const needed = `a performance secondary of ${primary.cluster}`;
      const next = 'Its filter is kept under its cluster ID, for when it is a secondary with this id.';
      preconditions.push(
        check('follows the primary', cluster, false, describeReplication(each.performance), needed, next, 'warn'),
      );
    }
    wanted.set(cluster, filter === 'none' ? 'none' : { mode: filter.mode, paths: canonicalPaths(filter.paths) });
  }
  return { wanted, preconditions };
}

/** Whether the filter of a secondary is as wanted: told, not demanded. */
function asWanted({ secondary, filters, wanted }: SecondaryFilters & { readonly wanted?: FilterState }): Precondition {
  const observed = filters.map(({ id, filter }) => `${id}: ${describeFilter(filter)}`).join('; ');
  if (wanted === undefined) {
    const needed = 'a wanted filter in the inventory or the input';
    return check('filter wanted', secondary, false, observed, needed, 'It is left as it is.', 'warn');
  }
  const same = filters.every(({ filter }) => describeFilter(filter) === describeFilter(wanted));
  return check('filter as wanted', secondary, same, observed, describeFilter(wanted), 'This run writes it.', 'warn');
}

/** Secondaries that the primary knows and the inventory does not: their filters are shown and never touched. */
function strangers(
  primary: ClusterObservation,
  read: readonly SecondaryFilters[],
  filterOf: (id: string) => Promise<string>,
): Promise<Precondition[]> {
  const known = new Set(read.flatMap(({ filters }) => filters.map(({ id }) => id)));
  const ids = (primary.performance?.knownSecondaries ?? []).filter((id) => !known.has(id));
  return Promise.all(
    ids.map(async (id) =>
      check(
        'every secondary is in the inventory and answers',
        primary.cluster,
        false,
        `${id}: ${await filterOf(id)}`,
        'a cluster of the inventory with this id',
        'Its filter is left as it is. List the cluster in the inventory, or revoke the id where it is not used.',
        'warn',
      ),
    ),
  );
}

function neededRights({ changes }: FilterRoute): ('update' | 'delete')[] {
  return [
    ...(changes.some(({ wanted }) => wanted !== 'none') ? ['update' as const] : []),
    ...(changes.some(({ wanted }) => wanted === 'none') ? ['delete' as const] : []),
  ];
}
