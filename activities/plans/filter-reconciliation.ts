import { readingAfterWait } from '../../src/moves/every-run';
import { compareFilters } from '../../src/moves/following';
import type { Move, PlannedOperation } from '../../src/moves/move';
import { changeFilter } from '../../src/moves/records';
import type { FilterChange } from '../../src/moves/records';
import type { FilterState, Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { check } from '../checks/check';
import { hasRole, ownerOf, roleText, rolesOf } from '../checks/replication';
import type { Rights } from '../checks/rights';
import {
  describeFilter,
  filterOfId,
  filtersUnder,
  isWider,
  notMounted,
  readFiltersOf,
  stateOf,
} from '../filters/paths-filters';
import type { SecondaryFilters } from '../filters/paths-filters';
import { observe } from './observed';
import type { PlanInput } from './observed';

/** What `filterReconciliation` follows. */
export interface FilterRoute {
  readonly primary: string;
  readonly secondaries: readonly (SecondaryFilters & {
    /** Absent if no filter was specified: the secondary is left unchanged. */
    readonly wanted?: FilterState;
  })[];
  readonly changes: readonly FilterChange[];
}

/** Changes the paths filters of a performance primary to the wanted ones. */
export async function assessFilterReconciliation(
  request: PlanInput<'filterReconciliation'>,
): Promise<Assessment<FilterRoute>> {
  const { input } = request;
  const observed = await observe('filterReconciliation', request, [...Object.keys(input.filters ?? {}), input.primary]);
  const { deployment, observations, access, signal } = observed;
  const primary = findPrimary(input, observations);
  if ('verdict' in primary) return { ...observed.base(), preconditions: [primary] };
  const source = access(primary.cluster);
  const { wanted, checks } = wantedFilters(input, deployment, primary, observations);
  const ids = Object.entries(input.ids ?? {});
  const looked = observations.filter(
    (each) => isReadable(each) && (follows(each, primary) || wanted.has(each.cluster)),
  );
  const secondaries = await Promise.all([
    ...looked.map(async ({ cluster }) => ({
      ...(await readFiltersOf(source, access(cluster), signal)),
      wanted: wanted.get(cluster),
    })),
    ...ids.map(async ([id, filter]) => {
      const filters = await filtersUnder(source, [id], signal);
      return { ...{ secondary: id, outside: true as const, id, filters }, attached: false, wanted: stateOf(filter) };
    }),
  ]).catch((error: unknown) => {
    if (isRunbookError(error, 'PERMISSION_DENIED')) return error.code;
    throw error;
  });
  if (typeof secondaries === 'string') {
    // The existing filters cannot be compared with the wanted ones.
    const unread = check('paths filters readable', primary.cluster, false, {
      observed: `they could not be read: ${secondaries}`,
      needed: 'the existing filter under each id',
      next: `Let the workers' credential read sys/replication/performance/primary/paths-filter/+ on ${primary.cluster}.`,
    });
    return { ...observed.base(), preconditions: [...checks, unread] };
  }
  const changes = changesOf(secondaries);
  const route: FilterRoute = { primary: primary.cluster, secondaries, changes };
  const changed = looked.filter(({ cluster }) => changes.some(({ secondary }) => secondary === cluster));
  const wantedNow = changes.map((each) => each.wanted);
  return {
    ...observed.base(changes.length > 0 && 'filter'),
    preconditions: [
      hasRole(primary, 'performance', 'primary'),
      ...checks,
      ...ids.map(([id]) => ofNoCluster(id, observations)),
      ...secondaries.map((each) => asWanted(each)),
      ...(await observed.rights([], { [primary.cluster]: rightsFor(changes) })),
    ],
    route,
    plan: observed.plan({
      clusters: [primary, ...changed],
      moves: [
        readingAfterWait,
        ...movesOf(primary, changed, changes),
        ...secondaries.flatMap(({ secondary, attached, wanted: its }) =>
          attached && its !== undefined ? [{ step: compareFilters(secondary) }] : [],
        ),
      ],
      warnings: [...(await notMounted(source, wantedNow)), ...new Set(changes.map(warningsOf))],
      choices: Object.fromEntries(
        changes.map(({ secondary, wanted }) => [`filter of ${secondary}`, describeFilter(wanted)]),
      ),
    }),
  };
}

/** Which cluster is performance primary is read, never configured. */
function findPrimary({ primary: named }: InputOf<'filterReconciliation'>, observations: readonly ClusterObservation[]) {
  const primaries = observations.filter((each) => each.performance?.mode === 'primary');
  const [primary, second] = named === undefined ? primaries : primaries.filter((each) => each.cluster === named);
  if (primary && !second) return primary;
  return check('one performance primary', named, false, {
    observed: rolesOf(observations, 'performance'),
    needed: named === undefined ? 'one performance primary in the deployment' : `${named} is a performance primary`,
    next: second
      ? 'Name the one that you mean: {"primary": ...}.'
      : 'Paths filters are stored on the performance primary.',
  });
}

const isReadable = ({ reachable, clusterId }: ClusterObservation) => reachable && clusterId !== undefined;

function follows(each: ClusterObservation, primary: ClusterObservation): boolean {
  return each.performance?.mode === 'secondary' && each.performance.setId === primary.performance?.setId;
}

/** The wanted filters, from the input or else the inventory, and the checks on them. */
function wantedFilters(
  { filters, ids }: InputOf<'filterReconciliation'>,
  { pathsFilters }: Deployment,
  primary: ClusterObservation,
  observations: readonly ClusterObservation[],
): { readonly wanted: ReadonlyMap<string, FilterState>; readonly checks: readonly Check[] } {
  const wanted = new Map<string, FilterState>();
  const checks: Check[] = [];
  // An input that names only ids means only those.
  for (const [cluster, filter] of Object.entries(filters ?? (ids === undefined ? pathsFilters : {}))) {
    const each = observations.find((one) => one.cluster === cluster);
    const attached = each !== undefined && follows(each, primary);
    // The inventory's filter for a cluster that is no secondary now is for when it becomes one.
    if (!attached && filters === undefined && each?.reachable) continue;
    const readable = each !== undefined && isReadable(each) && cluster !== primary.cluster;
    const observed = roleText(each, 'performance');
    checks.push(
      check('performance secondary', cluster, readable, {
        observed,
        needed: `${cluster} answers and is not the primary`,
        next: 'Its ids are read from it: start again when it answers, or leave it out with {"filters": ...}.',
      }),
    );
    if (!readable) continue;
    if (!attached) {
      const needed = `a performance secondary of ${primary.cluster}`;
      const next = 'Its filter is stored under its cluster ID, for when it becomes a secondary with this id.';
      checks.push(check('follows the primary', cluster, false, { observed, needed, next, otherwise: 'warn' }));
    }
    wanted.set(cluster, stateOf(filter));
  }
  return { wanted, checks };
}

/** A cluster of the inventory is given by its name: then both of its ids get the same filter, and the run can read it. */
export function ofNoCluster(id: string, observations: readonly ClusterObservation[]): Check {
  const owner = ownerOf(id, 'performance', observations);
  return check('an id outside the inventory', owner?.cluster, owner === undefined, {
    observed: owner ? `${id} is an id of ${owner.cluster}` : `no cluster that answers has the id ${id}`,
    needed: 'an id that no cluster of the inventory has',
    next: `Name the cluster ${owner?.cluster ?? ''} instead of its id.`,
  });
}

/** Whether the filter of a secondary is as wanted: a warning, never a refusal. */
export function asWanted(
  { secondary, filters, wanted }: SecondaryFilters & { readonly wanted?: FilterState },
  next = 'This run writes it.',
): Check {
  const observed = filters.map(({ id, filter }) => filterOfId(id, filter)).join('; ');
  const otherwise = 'warn';
  if (wanted === undefined) {
    const needed = 'a wanted filter in the inventory or the input';
    return check('filter wanted', secondary, false, { observed, needed, next: 'It is left unchanged.', otherwise });
  }
  const needed = describeFilter(wanted);
  const same = filters.every(({ filter }) => describeFilter(filter) === needed);
  return check('filter as wanted', secondary, same, { observed, needed, next, otherwise });
}

/** What the workers' credential must be allowed to do on the primary; nothing if nothing changes. */
function rightsFor(changes: readonly FilterChange[]): Rights {
  const [first] = changes;
  if (first === undefined) return {};
  return {
    [`sys/replication/performance/primary/paths-filter/${first.id}`]: [
      ...(changes.some(({ wanted }) => wanted !== 'none') ? ['update'] : []),
      ...(changes.some(({ wanted }) => wanted === 'none') ? ['delete'] : []),
    ],
  };
}

/** Every filter that is not as wanted, under each id of its secondary. Changes that only narrow come first. */
function changesOf(secondaries: FilterRoute['secondaries']): FilterChange[] {
  const changes = secondaries.flatMap(({ secondary, outside, filters, wanted }) =>
    wanted === undefined
      ? []
      : filters
          .filter(({ filter }) => describeFilter(filter) !== describeFilter(wanted))
          .map(({ id, filter }) => ({ secondary, ...(outside && { outside }), id, before: filter, wanted })),
  );
  const widens = ({ before, wanted }: FilterChange) => isWider(before, wanted);
  return [...changes.filter((each) => !widens(each)), ...changes.filter(widens)];
}

/** One step for each change. One operation covers both ids of a secondary. */
function movesOf(
  primary: ClusterObservation,
  changed: readonly ClusterObservation[],
  changes: readonly FilterChange[],
): Move[] {
  const operationFor = ({ secondary, outside, wanted }: FilterChange): PlannedOperation => {
    const target = outside ? undefined : changed.find(({ cluster }) => cluster === secondary);
    const detail = target ? describeFilter(wanted) : filterOfId(secondary, wanted);
    return { kind: 'performance', endpoint: 'primary/paths-filter', gate: 'filter', on: primary, with: target, detail };
  };
  const isFirst = (each: FilterChange) =>
    changes.find(({ secondary, outside }) => secondary === each.secondary && outside === each.outside) === each;
  return changes.map((each) => ({
    step: changeFilter(each),
    note: `${describeFilter(each.before)} becomes ${describeFilter(each.wanted)}`,
    operations: [isFirst(each) && operationFor(each)],
  }));
}

function warningsOf({ secondary, before, wanted }: FilterChange): string {
  const change = `${describeFilter(before)} becomes ${describeFilter(wanted)}`;
  if (wanted === 'none')
    return `The filter of ${secondary} is deleted (${change}): everything is then sent to ${secondary}, and cannot be recalled.`;
  const deleted = `Data that is newly kept away is deleted on ${secondary}: its clients lose it immediately.`;
  return isWider(before, wanted)
    ? `The filter of ${secondary} becomes wider or different (${change}): data that it kept away and now lets through is sent to ${secondary}, and cannot be recalled. ${deleted}`
    : `The filter of ${secondary} becomes narrower (${change}). ${deleted}`;
}
