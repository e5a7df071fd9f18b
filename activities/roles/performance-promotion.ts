import type { Follower, PerformancePromotionActivities, PromotionRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { PerformancePromotionInput } from '../../src/contracts/runbook-inputs';
import { findCluster, findDeployment } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import { createSecondaryRepointingActivities } from '../joining/secondary-repointing';
import type { Clusters } from '../clusters';
import { execute } from '../execution';
import { mayCall } from '../joining/onboarding-primary';
import { judgeGone } from '../joining/performance-gone';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import { promotionPlan } from '../plans/promotion-plan';
import type { PromotionWorld } from '../checks/promotion-rules';
import { findPromotionSides, judgeFilterOf, judgeHeir, judgePlanned } from '../checks/promotion-rules';
import { compareVersions } from '../checks/versions';
import { findFilter } from '../filters/wanted-filter';

const BASE = 'sys/replication/performance';

/** Secondaries follow another primary, and a performance secondary becomes primary (facts 8.6). */
export function createPerformancePromotionActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): PerformancePromotionActivities {
  const { inventory } = dependencies;
  return {
    ...createSecondaryRepointingActivities(dependencies, clusters),

    assessPerformancePromotion: execute(async ({ input }, { signal }) => {
      const deployment = findDeployment(inventory, input.deployment);
      findCluster(deployment, input.to);
      if (input.from !== undefined) findCluster(deployment, input.from);
      const observations = await observeDeployment(clusters, input.deployment, signal);
      const base = {
        observations,
        site: await siteFacts(dependencies, input.deployment),
        gates: {
          promote: gateFacts(inventory, deployment, 'promote'),
          force: gateFacts(inventory, deployment, 'force'),
        },
      };
      const sides = findPromotionSides(input, observations);
      if ('refused' in sides) return { ...base, preconditions: [sides.refused] };
      const world: PromotionWorld = { ...sides, input, deployment, observations };
      const judged = [
        ...(input.mode === 'planned'
          ? judgePlanned(world)
          : judgeGone({ ...world, overrideDrSecondary: input.overrideDrSecondary })),
        ...judgeHeir(world),
      ];
      // Without the roles there is nothing to ask filters and rights of.
      if (judged.some(({ verdict }) => verdict === 'fail')) return { ...base, preconditions: judged };
      const { route, found } = await routeOf(clusters, world, signal);
      const preconditions = [...judged, ...found, ...(await rights(clusters, deployment, input, route, signal))];
      return { ...base, preconditions, route, plan: promotionPlan(input, route, observations, preconditions) };
    }),
  };
}

/** Who follows whom afterwards, and with which filter. */
async function routeOf(
  clusters: Clusters,
  world: PromotionWorld,
  signal: AbortSignal,
): Promise<{ readonly route: PromotionRoute; readonly found: readonly Precondition[] }> {
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
  const heir = await heirOf(clusters, world, signal);
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
    heir: heir.follower,
    hooks: {
      // Clients are held off only where they can be let through again.
      quiesce: planned && deployment.hooks.quiesce !== undefined && deployment.hooks.release !== undefined,
    },
  };
  return { route, found: [...heir.preconditions, ...filters.map(({ precondition }) => precondition)] };
}

/** The new primary as a secondary: planned, the primary keeps its filter; unplanned, only the inventory can tell. */
async function heirOf(
  clusters: Clusters,
  world: PromotionWorld,
  signal: AbortSignal,
): Promise<{ readonly follower: Follower; readonly preconditions: readonly Precondition[] }> {
  const { input, deployment, from, to } = world;
  const { cluster } = to;
  if (input.mode === 'planned') {
    const source = clusters.of(input.deployment, from.cluster);
    const target = clusters.of(input.deployment, cluster);
    const { known, precondition } = await findFilter(source, target, deployment.pathsFilters[cluster], signal);
    const follower = { cluster, ...known };
    return { follower, preconditions: [precondition, judgeFilterOf(world, follower)] };
  }
  const follower = fromInventory(deployment, to);
  if (deployment.pathsFilters[cluster] !== undefined)
    return { follower, preconditions: [judgeFilterOf(world, follower)] };
  return {
    follower,
    preconditions: [
      {
        name: 'the new primary has all data',
        cluster,
        observed: 'the inventory names no filter of it, and no primary answers that keeps it',
        needed: 'a secondary without paths filter',
        verdict: 'not-checkable',
        next: `The approvers attest that ${cluster} has no paths filter.`,
      },
    ],
  };
}

function fromInventory(deployment: Deployment, { cluster, clusterId }: ClusterObservation): Follower {
  const wanted = deployment.pathsFilters[cluster];
  return { cluster, id: clusterId ?? '', ...(wanted === undefined || wanted === 'none' ? {} : { filter: wanted }) };
}

/** What the worker's credentials must be able to do, cluster by cluster. */
async function rights(
  clusters: Clusters,
  deployment: Deployment,
  input: PerformancePromotionInput,
  { from, to, mode, others, old }: PromotionRoute,
  signal: AbortSignal,
): Promise<Precondition[]> {
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
