import type { FilterState, Assessment } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, Check, PlanDocument } from '../../src/contracts/plan';
import type { FilterReconciliationInput } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { identityOf, planDocument } from '../approvals/planning';
import { check } from '../checks/check';
import type { Rights } from '../checks/credentials';
import { roleText, rolesOf } from '../checks/replication';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { canonicalPaths, diffFilters, needsApproval, regionsInWords } from '../filters/filter-difference';
import { describeFilter, filterOfId, readFilterOfId, readFiltersOf } from '../filters/paths-filters';
import type { SecondaryFilters } from '../filters/paths-filters';
import { observe } from './observed';
import type { PlanInput } from './observed';

/** One filter that becomes another. A secondary has two where the primary knows it by another id than its cluster ID. */
export interface FilterChange {
  readonly secondary: string;
  /** The id is of no cluster of the inventory, and stands in the place of its name. */
  readonly outside?: true;
  /** The id under which the primary keeps the filter. */
  readonly id: string;
  readonly before: FilterState;
  readonly wanted: FilterState;
}

/** What `filterReconciliation` follows. */
export interface FilterRoute {
  readonly primary: string;
  readonly secondaries: readonly (SecondaryFilters & {
    /** Absent where nobody said what it should be: it is left as it is. */
    readonly wanted?: FilterState;
  })[];
  readonly changes: readonly FilterChange[];
}

/** Paths filters of a performance primary become what is wanted. */
export async function assessFilterReconciliation(
  request: PlanInput<FilterReconciliationInput>,
): Promise<Assessment<FilterRoute>> {
  const { input } = request;
  const { signal } = currentExecution();
  const observed = await observe(request, [...Object.keys(input.filters ?? {}), input.primary]);
  const { deployment, observations, access } = observed;
  const primary = findPrimary(input, observations);
  if ('verdict' in primary) return { ...observed.base({ filter: false }), preconditions: [primary] };
  const source = access(primary.cluster);
  const { wanted, checks } = wantedFilters(input, deployment, primary, observations);
  const ids = Object.entries(input.ids ?? {});
  const looked = observations.filter(
    (each) => isReadable(each) && (follows(each, primary) || wanted.has(each.cluster)),
  );
  const read = await Promise.all(looked.map((each) => readFiltersOf(source, access(each.cluster), signal)));
  const outside = await Promise.all(
    ids.map(async ([id, filter]) => ({ ...(await readFilterOfId(source, id, signal)), wanted: canonical(filter) })),
  );
  const known = read.map((each) => {
    const filter = wanted.get(each.secondary);
    return filter === undefined ? each : { ...each, wanted: filter };
  });
  const secondaries = [...known, ...outside];
  const route: FilterRoute = { primary: primary.cluster, secondaries, changes: changesOf(secondaries) };
  return {
    ...observed.base({ filter: route.changes.length > 0 }),
    preconditions: [
      check('performance primary', primary.cluster, true, {
        observed: roleText(primary, 'performance'),
        needed: 'primary',
      }),
      ...checks,
      ...ids.map(([id]) => ofNoCluster(id, observations)),
      ...secondaries.map(asWanted),
      ...(await strangers(primary, secondaries, source)),
      ...(route.changes.length === 0 ? [] : await observed.rights(primary.cluster, rightsFor(route.changes))),
    ],
    route,
    plan: filterPlan(input, primary, looked, route, await unseenPaths(source, route.changes, signal)),
  };
}

/** The paths that the primary does not tell as mounts. What cannot be asked is no reason to warn. */
async function unseenPaths(
  source: ClusterAccess,
  changes: readonly FilterChange[],
  signal: AbortSignal,
): Promise<string[]> {
  const paths = new Set(changes.flatMap(({ wanted }) => (wanted === 'none' ? [] : wanted.paths)));
  const token = await source.credential();
  const unseen = [...paths].map(async (path) => {
    try {
      // Of any key below it the service tells the mount.
      const mount = await source.client.sys.mountOf(`${path}any`, { token, signal });
      return mount.path === path ? [] : [path];
    } catch (error) {
      return isRunbookError(error, 'PERMISSION_DENIED') ? [path] : [];
    }
  });
  return (await Promise.all(unseen)).flat();
}

/** Who is performance primary is read, never configured. */
function findPrimary(
  { primary: named }: FilterReconciliationInput,
  observations: readonly ClusterObservation[],
): ClusterObservation | Check {
  const primaries = observations.filter((each) => each.performance?.mode === 'primary');
  const [primary, second] = named === undefined ? primaries : primaries.filter((each) => each.cluster === named);
  if (primary && !second) return primary;
  return check('one performance primary', named, false, {
    observed: rolesOf(observations, 'performance'),
    needed: named === undefined ? 'one performance primary in the deployment' : `${named} is a performance primary`,
    next: second
      ? 'Name the one that is meant: {"primary": ...}.'
      : 'Paths filters are kept on the performance primary.',
  });
}

const isReadable = ({ reachable, clusterId }: ClusterObservation) => reachable && clusterId !== undefined;

function follows(each: ClusterObservation, primary: ClusterObservation): boolean {
  return each.performance?.mode === 'secondary' && each.performance.setId === primary.performance?.setId;
}

/** What is wanted, of the input or else of the inventory, and what stands against it. */
function wantedFilters(
  { filters, ids }: FilterReconciliationInput,
  { pathsFilters }: Deployment,
  primary: ClusterObservation,
  observations: readonly ClusterObservation[],
): { readonly wanted: ReadonlyMap<string, FilterState>; readonly checks: readonly Check[] } {
  const wanted = new Map<string, FilterState>();
  const checks: Check[] = [];
  // Who names ids alone means those alone.
  for (const [cluster, filter] of Object.entries(filters ?? (ids === undefined ? pathsFilters : {}))) {
    const each = observations.find((one) => one.cluster === cluster);
    const attached = each !== undefined && follows(each, primary);
    // What the inventory says of a cluster that is no secondary now is for when it becomes one.
    if (!attached && filters === undefined && each?.reachable) continue;
    const readable = each !== undefined && isReadable(each) && cluster !== primary.cluster;
    checks.push(
      check('performance secondary', cluster, readable, {
        observed: roleText(each, 'performance'),
        needed: `${cluster} answers and is not the primary`,
        next: 'Its ids are read from it: start again when it answers, or leave it out with {"filters": ...}.',
      }),
    );
    if (!readable) continue;
    if (!attached) {
      const needed = `a performance secondary of ${primary.cluster}`;
      const next = 'Its filter is kept under its cluster ID, for when it is a secondary with this id.';
      checks.push(
        check('follows the primary', cluster, false, {
          observed: roleText(each, 'performance'),
          needed,
          next,
          otherwise: 'warn',
        }),
      );
    }
    wanted.set(cluster, canonical(filter));
  }
  return { wanted, checks };
}

function canonical(filter: FilterState): FilterState {
  return filter === 'none' ? 'none' : { mode: filter.mode, paths: canonicalPaths(filter.paths) };
}

/** What the inventory knows is named by its cluster: both of its ids get the same filter then, and what is wiped is seen. */
export function ofNoCluster(id: string, observations: readonly ClusterObservation[]): Check {
  const owner = observations.find((each) => each.clusterId === id || each.performance?.secondaryId === id);
  return check('the id of no cluster of the inventory', owner?.cluster, owner === undefined, {
    observed: owner ? `${id} is an id of ${owner.cluster}` : `${id} is of no cluster that answers`,
    needed: 'an id that no cluster of the inventory has',
    next: `Name ${owner?.cluster ?? 'the cluster'} by its name instead.`,
  });
}

/** Whether the filter of a secondary is as wanted: told, not demanded. */
function asWanted({ secondary, filters, wanted }: SecondaryFilters & { readonly wanted?: FilterState }): Check {
  const observed = filters.map(({ id, filter }) => `${id}: ${describeFilter(filter)}`).join('; ');
  if (wanted === undefined) {
    const needed = 'a wanted filter in the inventory or the input';
    return check('filter wanted', secondary, false, {
      observed,
      needed,
      next: 'It is left as it is.',
      otherwise: 'warn',
    });
  }
  const same = filters.every(({ filter }) => describeFilter(filter) === describeFilter(wanted));
  return check('filter as wanted', secondary, same, {
    observed,
    needed: describeFilter(wanted),
    next: 'This run writes it.',
    otherwise: 'warn',
  });
}

/** Secondaries that the primary knows and the inventory does not: their filters are shown and never touched. */
function strangers(
  primary: ClusterObservation,
  read: readonly SecondaryFilters[],
  source: ClusterAccess,
): Promise<Check[]> {
  const { signal } = currentExecution();
  const known = new Set(read.flatMap(({ filters }) => filters.map(({ id }) => id)));
  const ids = (primary.performance?.knownSecondaries ?? []).filter((id) => !known.has(id));
  return Promise.all(
    ids.map(async (id) => {
      const token = await source.credential();
      const filter = await source.client.performance.primary.pathsFilter.read(id, { token, signal });
      return check('every secondary is in the inventory and answers', primary.cluster, false, {
        observed: `${id}: ${describeFilter(filter)}`,
        needed: 'a cluster of the inventory with this id',
        next: 'Its filter is left as it is. List the cluster in the inventory, or revoke the id where it is not used.',
        otherwise: 'warn',
      });
    }),
  );
}

/** What the workers' credential must be allowed to do on the primary; nothing where nothing is changed. */
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

/** Every filter that is not as wanted, under each id of its secondary. What only narrows comes first. */
function changesOf(secondaries: FilterRoute['secondaries']): FilterChange[] {
  const changes = secondaries.flatMap(({ secondary, outside, filters, wanted }) =>
    wanted === undefined
      ? []
      : filters
          .filter(({ filter }) => describeFilter(filter) !== describeFilter(wanted))
          .map(({ id, filter }) => ({ secondary, ...(outside && { outside }), id, before: filter, wanted })),
  );
  return [...changes.filter((each) => !isWidening(each)), ...changes.filter(isWidening)];
}

function isWidening({ before, wanted }: FilterChange): boolean {
  return needsApproval(before, wanted);
}

/** The plan: what each change newly sends and what it deletes, and the one operation that it needs. */
function filterPlan(
  input: FilterReconciliationInput,
  primary: ClusterObservation,
  looked: readonly ClusterObservation[],
  { changes }: FilterRoute,
  unseen: readonly string[],
): PlanDocument {
  const changed = looked.filter(({ cluster }) => changes.some(({ secondary }) => secondary === cluster));
  const operation = { operation: 'performance.primary.paths-filter', on: identityOf(primary) } as const;
  const operations = changes.flatMap(({ secondary, outside, wanted }): (readonly [string, AllowedOperation])[] =>
    outside
      ? [[`id ${secondary}`, { ...operation, detail: filterOfId(secondary, wanted) }]]
      : changed
          .filter(({ cluster }) => cluster === secondary)
          .map((each) => [secondary, { ...operation, with: identityOf(each), detail: describeFilter(wanted) }]),
  );
  return planDocument({
    runbook: 'filterReconciliation',
    input,
    clusters: [primary, ...changed],
    // One for both ids of a secondary.
    operations: [...new Map(operations).values()],
    warnings: [
      ...unseen.map(
        (path) =>
          `Nothing is seen to be mounted at ${path}: unless it is a namespace, or a mount below which the workers may do nothing, it is mistyped, and has no effect in a filter.`,
      ),
      ...new Set(changes.flatMap(warningsOf)),
    ],
    steps: [
      ...changes.map(stepOf),
      ...changed.map(({ cluster }) => `Compare the dynamic filter of ${cluster} on both sides`),
    ],
    choices: Object.fromEntries(
      changes.map(({ secondary, wanted }) => [`filter of ${secondary}`, describeFilter(wanted)]),
    ),
  });
}

function warningsOf({ secondary, before, wanted }: FilterChange) {
  const { sent, removed } = diffFilters(before, wanted);
  return [
    wanted === 'none' && `The filter of ${secondary} is deleted: nothing is kept away from it any more.`,
    sent.length > 0 &&
      `Newly sent to ${secondary}: ${regionsInWords(sent)}. What it has received cannot be called back.`,
    removed.length > 0 && `Deleted on ${secondary}: ${regionsInWords(removed)}. Its clients lose these paths at once.`,
    sent.length === 0 && removed.length === 0 && `What ${secondary} may see stays the same.`,
  ];
}

function stepOf({ secondary, id, before, wanted }: FilterChange): string {
  const verb = wanted === 'none' ? 'Delete' : before === 'none' ? 'Create' : 'Replace';
  return `${verb} the filter of ${secondary} (id ${id}): ${describeFilter(before)} becomes ${describeFilter(wanted)}`;
}
