import type { Assessment, Follower, PromotionRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, Check, PlanDocument } from '../../src/contracts/plan';
import type { PerformancePromotionInput } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { identityOf, planDocument } from '../approvals/planning';
import { check, notCheckable, refuses } from '../checks/check';
import { mayCall } from '../checks/credentials';
import { noKnownDefect } from '../checks/known-bugs';
import { otherReadable, takesPart } from '../checks/nodes';
import { goneChecks } from '../checks/performance-gone';
import { aliveByHeartbeat, healthyTree, lag, streams } from '../checks/replication';
import { hasRole, mayBeOneSet, onePrimary, roleText, rolesOf, sameSet } from '../checks/roles';
import { compareVersions, versionsInOrder } from '../checks/versions';
import type { Clusters } from '../clusters';
import { currentExecution } from '../execution';
import { describeFilter } from '../filters/paths-filters';
import { findFilter, keptAway } from '../filters/wanted-filter';
import type { PlanInput } from './observed';
import { observe } from './observed';
import { exposureInWords } from './secondary-repointing';

const BASE = 'sys/replication/performance';

/** The old primary, the new one, and the other secondaries of the performance set. */
interface PromotionSides {
  readonly from: ClusterObservation;
  readonly to: ClusterObservation;
  readonly others: readonly ClusterObservation[];
  readonly silent: readonly ClusterObservation[];
}

interface PromotionObserved extends PromotionSides {
  readonly input: PerformancePromotionInput;
  readonly deployment: Deployment;
  readonly observations: readonly ClusterObservation[];
}

/** A performance secondary becomes primary, planned or in the place of one that is gone (facts 8.6). */
export async function assessPerformancePromotion({
  input,
}: PlanInput<PerformancePromotionInput>): Promise<Assessment<PromotionRoute>> {
  const { clusters, signal } = currentExecution();
  const observed = await observe(input.deployment, [input.to, input.from]);
  const { deployment, observations } = observed;
  const base = observed.base({ promote: true, force: true });
  const sides = findSides(input, observations);
  if ('refused' in sides) return { ...base, preconditions: [sides.refused] };
  const world: PromotionObserved = { ...sides, input, deployment, observations };
  const judged = [
    ...(input.mode === 'planned'
      ? plannedChecks(world)
      : goneChecks({ ...world, overrideDrSecondary: input.overrideDrSecondary })),
    ...successorChecks(world),
  ];
  // Without the roles there is nothing to ask filters and rights of.
  if (refuses(judged)) return { ...base, preconditions: judged };
  const { route, found } = await routeOf(clusters, world, signal);
  const rights = await rightsFor(clusters, deployment, input, route, signal);
  const preconditions = [...judged, ...found, ...rights];
  return { ...base, preconditions, route, plan: promotionPlan(input, route, observations, preconditions) };
}

/** Who is primary is read, never configured; a primary that is gone must be named where several clusters are silent. */
function findSides(
  input: PerformancePromotionInput,
  observations: readonly ClusterObservation[],
): PromotionSides | { readonly refused: Check } {
  const to = observations.find(({ cluster }) => cluster === input.to);
  const candidates = observations.filter((each) =>
    input.mode === 'planned' ? each.performance?.mode === 'primary' : !each.reachable,
  );
  const named = observations.find(({ cluster }) => cluster === input.from);
  const from = input.from === undefined ? (candidates.length === 1 ? candidates[0] : undefined) : named;
  if (!to || !from || from === to) {
    return {
      refused: check(
        'a performance primary and its secondary',
        undefined,
        false,
        rolesOf(observations, 'performance'),
        input.mode === 'planned'
          ? `${input.to} is a performance secondary and ${input.from ?? 'one other cluster'} is the primary`
          : `${input.to} is a performance secondary and ${input.from ?? 'one other cluster'} is gone`,
        from === to
          ? `${input.to} is the performance primary already: there is nothing to do.`
          : input.mode === 'planned'
            ? 'Where no primary answers, start with {"mode": "unplanned"}.'
            : 'Say in "from" which cluster was the performance primary.',
      ),
    };
  }
  const setId = to.performance?.setId;
  const rest = observations.filter((each) => each !== from && each !== to);
  return {
    from,
    to,
    others: rest.filter((each) => each.performance?.mode === 'secondary' && each.performance.setId === setId),
    // A DR secondary, and a cluster of its own, are none; one that says nothing may be one.
    silent: rest.filter((each) => !each.reachable),
  };
}

/** Planned: both sides answer, and the new primary has, and hears, everything. */
function plannedChecks({ deployment, from, to, observations }: PromotionObserved): Check[] {
  const { heartbeatAgeMs, lagWalEntries } = deployment.limits;
  const setId = from.performance?.setId;
  return [
    ...takesPart(from),
    hasRole(from, 'performance', 'primary', `The performance primary is not ${from.cluster}: correct "from".`),
    onePrimary(
      'performance',
      observations.filter((each) => mayBeOneSet(each.performance?.setId, setId)),
    ),
    sameSet('performance', from, to, `${to.cluster} replicates from another primary.`),
    streams(to, 'performance'),
    aliveByHeartbeat(to, 'performance', heartbeatAgeMs),
    lag('performance', from, to, lagWalEntries),
    versionsInOrder(from, to),
  ];
}

/** What must hold of the cluster that becomes primary, and of those that are to follow it. */
function successorChecks({ input, deployment, to, others, silent, observations }: PromotionObserved): Check[] {
  const { members } = drSetOf(deployment, input.to);
  const protects = observations.filter(
    (each) => members.includes(each.cluster) && each !== to && each.dr?.mode === 'secondary',
  );
  return [
    ...takesPart(to),
    hasRole(to, 'performance', 'secondary', `Only a performance secondary can be promoted.`),
    ...healthyTree(to, 'performance'),
    check(
      'DR secondary of the new primary',
      to.cluster,
      protects.length > 0,
      rolesOf(protects, 'dr') || 'none',
      'a DR secondary of its own, so that the new primary is protected',
      `Onboard a DR secondary of ${to.cluster} before or soon after.`,
      'warn',
    ),
    ...others.flatMap((each) => [
      versionsInOrder(to, each),
      ...(input.repoint === 'token' ? [] : [hasId(each)]),
      noKnownDefect(each, 'performance', `update-primary by ${input.repoint}`, input.acknowledgeKnownBugs),
    ]),
    ...silent.map((each) =>
      otherReadable(
        each,
        `Where ${each.cluster} is a performance secondary, re-point it later with secondaryRepointing.`,
      ),
    ),
  ];
}

/** By addresses a secondary keeps its id, under which its filter must be: one that tells none cannot be re-pointed so. */
function hasId(observation: ClusterObservation): Check {
  const id = observation.performance?.secondaryId;
  return check(
    'its id is known',
    observation.cluster,
    Boolean(id),
    id ? `id ${id}` : `${roleText(observation, 'performance')}, no id`,
    'the id of its activation token, which it keeps: its paths filter is written under it',
    'Start again with {"repoint": "token"}.',
  );
}

/** A new primary that never got everything has not all data: what was kept away from it is lost to all. */
function hasAllData({ input, to }: PromotionObserved, candidate: Follower): Check {
  const { filter } = candidate;
  const accepted = input.mode === 'unplanned' || input.acceptLoss === 'bounded';
  return check(
    'the new primary has all data',
    to.cluster,
    filter === undefined,
    filter === undefined ? 'no paths filter' : `${describeFilter(filter)}: it never got ${keptAway(filter)}`,
    'a secondary without paths filter',
    accepted
      ? 'What was kept away from it is lost to every cluster that follows it. Choose another secondary if there is one.'
      : 'Choose another secondary; remove its filter with filterReconciliation first; or accept the loss with {"acceptLoss": "bounded"}.',
    accepted ? 'warn' : 'fail',
  );
}

/** Who follows whom afterwards, and with which filter. */
async function routeOf(
  clusters: Clusters,
  world: PromotionObserved,
  signal: AbortSignal,
): Promise<{ readonly route: PromotionRoute; readonly found: readonly Check[] }> {
  const { input, deployment, from, to, others, silent } = world;
  const planned = input.mode === 'planned';
  const source = planned ? clusters.of(input.deployment, from.cluster) : undefined;
  const filters = await Promise.all(
    others.map(async ({ cluster, performance }) => {
      const target = clusters.of(input.deployment, cluster);
      const finding = await findFilter(source, target, deployment.pathsFilters[cluster], signal);
      return { cluster, id: performance?.secondaryId, ...finding };
    }),
  );
  const candidate = await candidateOf(clusters, world, signal);
  // Newer than the new primary is well; older would replicate from newer to older.
  const older = planned && compareVersions(from.version ?? '', to.version ?? '') < 0;
  const rejoins = planned && !older;
  const route: PromotionRoute = {
    mode: input.mode,
    from: from.cluster,
    to: to.cluster,
    repoint: input.repoint,
    others: filters.map(({ cluster, known, id }) => ({ cluster, ...known, ...(id ? { addressesId: id } : {}) })),
    silent: silent.map(({ cluster }) => cluster).filter((cluster) => cluster !== from.cluster),
    ...(rejoins ? { old: fromInventory(deployment, from) } : {}),
    ...(older ? { staysOut: `${from.cluster} stays out until it is upgraded to the version of ${to.cluster}.` } : {}),
    candidate: candidate.follower,
    hooks: {
      // Clients are held off only where they can be let through again.
      quiesce: planned && deployment.hooks.quiesce !== undefined && deployment.hooks.release !== undefined,
    },
  };
  return { route, found: [...candidate.preconditions, ...filters.map(({ judged }) => judged)] };
}

/** The new primary as a secondary: planned, the primary keeps its filter; unplanned, only the inventory can tell. */
async function candidateOf(
  clusters: Clusters,
  world: PromotionObserved,
  signal: AbortSignal,
): Promise<{ readonly follower: Follower; readonly preconditions: readonly Check[] }> {
  const { input, deployment, from, to } = world;
  const { cluster } = to;
  if (input.mode === 'planned') {
    const source = clusters.of(input.deployment, from.cluster);
    const target = clusters.of(input.deployment, cluster);
    const { known, judged } = await findFilter(source, target, deployment.pathsFilters[cluster], signal);
    const follower = { cluster, ...known };
    return { follower, preconditions: [judged, hasAllData(world, follower)] };
  }
  const follower = fromInventory(deployment, to);
  if (deployment.pathsFilters[cluster] !== undefined) return { follower, preconditions: [hasAllData(world, follower)] };
  return {
    follower,
    preconditions: [
      notCheckable(
        'the new primary has all data',
        cluster,
        'the inventory names no filter of it, and no primary answers that keeps it',
        'a secondary without paths filter',
        `The approvers attest that ${cluster} has no paths filter.`,
      ),
    ],
  };
}

function fromInventory(deployment: Deployment, { cluster, clusterId }: ClusterObservation): Follower {
  const wanted = deployment.pathsFilters[cluster];
  return { cluster, id: clusterId ?? '', ...(wanted === undefined || wanted === 'none' ? {} : { filter: wanted }) };
}

/** What the worker's credentials must be able to do, cluster by cluster. */
async function rightsFor(
  clusters: Clusters,
  deployment: Deployment,
  input: PerformancePromotionInput,
  { from, to, mode, others, old }: PromotionRoute,
  signal: AbortSignal,
): Promise<Check[]> {
  const asPrimary = {
    [`${BASE}/primary/secondary-token`]: ['update', 'sudo'],
    [`${BASE}/primary/revoke-secondary`]: ['update'],
    [`${BASE}/primary/paths-filter/id`]: ['read', 'create|update'],
    [deployment.marker.path]: ['create|update'],
  };
  const asSecondary = { [`${BASE}/secondary/update-primary`]: ['update'] };
  const promote = { [`${BASE}/secondary/promote`]: ['update'] };
  const needed: readonly (readonly [string, Record<string, readonly string[]>])[] = [
    [to, { ...promote, ...asPrimary, ...asSecondary }],
    ...others.map(({ cluster }) => [cluster, asSecondary] as const),
    ...(mode === 'planned'
      ? [
          [
            from,
            { [`${BASE}/primary/demote`]: ['update'], ...promote, ...asPrimary, ...(old ? asSecondary : {}) },
          ] as const,
        ]
      : []),
  ];
  const asked = await Promise.all(
    needed.map(([cluster, paths]) => mayCall(clusters.of(input.deployment, cluster), paths, signal)),
  );
  return asked.flat();
}

/** Whose place a promoted cluster takes: binds an approved promotion to the cluster that must not be primary. */
export function inPlaceOf(cluster: string): string {
  return `in place of ${cluster}`;
}

/** What people approve before the performance primary changes. */
function promotionPlan(
  input: PerformancePromotionInput,
  route: PromotionRoute,
  observations: readonly ClusterObservation[],
  preconditions: readonly Check[],
): PlanDocument {
  const { from, to, mode } = route;
  const of = (name: string) => {
    const found = observations.find(({ cluster }) => cluster === name);
    if (!found) throw new TypeError(`no observation of ${name}`);
    return identityOf(found);
  };
  const follow = ({ cluster, filter }: Follower, primary: string): AllowedOperation => ({
    operation: 'performance.secondary.repoint-after-promotion',
    on: of(cluster),
    with: of(primary),
    detail: describeFilter(filter),
  });
  const promote = (cluster: string, other: string): AllowedOperation => ({
    operation: 'performance.secondary.promote',
    on: of(cluster),
    detail: inPlaceOf(other),
  });
  const others = route.others.map(({ cluster }) => cluster);
  const planned: AllowedOperation[] =
    mode === 'unplanned'
      ? []
      : [
          { operation: 'performance.primary.demote', on: of(from), with: of(to) },
          promote(from, to),
          ...[route.candidate, ...route.others].map((each) => follow(each, from)),
        ];
  const unplanned: AllowedOperation[] =
    mode === 'planned' || !input.offerForce
      ? []
      : [{ operation: 'performance.secondary.promote-force', on: of(to), detail: inPlaceOf(from) }];
  return planDocument({
    runbook: 'performancePromotion',
    input,
    clusters: observations.filter(({ cluster }) => [from, to, ...others].includes(cluster)),
    operations: [
      promote(to, from),
      ...[...route.others, ...(route.old ? [route.old] : [])].map((each) => follow(each, to)),
      ...planned,
      ...unplanned,
    ],
    warnings: warnings(input, route, preconditions),
    steps: steps(input, route),
    choices: {
      mode,
      repoint: route.repoint,
      acceptLoss: input.acceptLoss,
      overrideDrSecondary: input.overrideDrSecondary,
      offerForce: input.offerForce,
      acknowledgeKnownBugs: input.acknowledgeKnownBugs,
      ...Object.fromEntries(
        [...route.others, ...(route.old ? [route.old] : []), route.candidate].map(({ cluster, filter }) => [
          `filter of ${cluster}`,
          describeFilter(filter),
        ]),
      ),
    },
  });
}

function warnings(
  input: PerformancePromotionInput,
  { from, to, mode, others, old, staysOut, candidate, repoint }: PromotionRoute,
  preconditions: readonly Check[],
): string[] {
  const exposed = (each: Follower): string[] => (each.filter ? [exposureInWords(each.cluster, each.filter)] : []);
  const usable = preconditions.find(
    ({ name, verdict }) => name.startsWith('no DR secondary') && verdict === 'warn',
  )?.observed;
  return [
    `Every token and every lease changes for who moves to ${to}: clients of ${from} log in again there, and leases of ${from} stay with ${from}.`,
    `Local mounts and their data stay behind on ${from}.`,
    ...(mode === 'planned'
      ? [`From the demotion of ${from} until ${to} serves no cluster takes writes of shared data.`]
      : [
          `What ${from} took and did not ship is lost; by how much is not known.`,
          `${from} still believes that it is primary when it comes back: keep clients and the cluster port of the others away from it until it is demoted.`,
        ]),
    ...(usable === undefined ? [] : [`Instead of this, a DR secondary of ${from} would keep all tokens: ${usable}.`]),
    ...(candidate.filter
      ? [
          `What the filter of ${to} kept away from it is lost to every cluster that follows it: ${keptAway(candidate.filter)}.`,
        ]
      : []),
    ...(repoint === 'token' ? others.flatMap(exposed) : []),
    ...(old ? exposed(old) : []),
    ...(old && !old.filter && mode === 'planned'
      ? [`${from} becomes a secondary without paths filter: it goes on having everything.`]
      : []),
    ...(staysOut === undefined ? [] : [staysOut]),
    ...(mode === 'planned' && input.acceptLoss === 'bounded'
      ? [`Writes that ${to} was not seen to have are lost when ${from} joins again.`]
      : []),
  ];
}

function steps(input: PerformancePromotionInput, route: PromotionRoute): string[] {
  const { from, to, mode, hooks } = route;
  const follow = (each: Follower, form: 'token' | 'addresses'): string =>
    `Point ${each.cluster} at ${to} by ${form}, with ${describeFilter(each.filter)} on ${to}, and compare it`;
  return [
    ...(mode === 'planned'
      ? [
          ...(hooks.quiesce ? ['Quiesce the clients'] : []),
          `Write a marker on ${from} and wait until ${to} has it`,
          `Demote ${from} (no performance primary from here on)`,
          `Compare the Merkle roots; where loss cannot be excluded ${input.acceptLoss === 'none' ? `promote ${from} back` : 'go on and state the bound'}`,
          `Promote ${to}; where that is refused promote ${from} back`,
        ]
      : [`Promote ${to}${input.offerForce ? '; where that is refused, people may ask at gate "force"' : ''}`]),
    `Wait until ${to} serves reads and writes`,
    ...(hooks.quiesce ? ['Release the clients'] : []),
    ...route.others.map((each) => follow(each, route.repoint)),
    ...(route.old ? [follow(route.old, 'token')] : []),
    'Read the final state',
  ];
}
