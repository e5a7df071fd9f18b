import type { Follower, PromotionRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, PlanDocument, Precondition } from '../../src/contracts/plan';
import type { PerformancePromotionInput } from '../../src/contracts/runbook-inputs';
import { describeFilter } from '../filters/paths-filters';
import { identityOf, planDocument } from '../approvals/planning';
import { exposureInWords } from './repointing-plan';
import { keptAway } from '../filters/wanted-filter';

/** Whose place a promoted cluster takes: binds an approved promotion to the cluster that must not be primary. */
export function inPlaceOf(cluster: string): string {
  return `in place of ${cluster}`;
}

/** What people approve before the performance primary changes. */
export function promotionPlan(
  input: PerformancePromotionInput,
  route: PromotionRoute,
  observations: readonly ClusterObservation[],
  preconditions: readonly Precondition[],
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
          ...[route.heir, ...route.others].map((each) => follow(each, from)),
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
        [...route.others, ...(route.old ? [route.old] : []), route.heir].map(({ cluster, filter }) => [
          `filter of ${cluster}`,
          describeFilter(filter),
        ]),
      ),
    },
  });
}

function warnings(
  input: PerformancePromotionInput,
  { from, to, mode, others, old, staysOut, heir, repoint }: PromotionRoute,
  preconditions: readonly Precondition[],
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
    ...(heir.filter
      ? [
          `What the filter of ${to} kept away from it is lost to every cluster that follows it: ${keptAway(heir.filter)}.`,
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
          `Write a marker on ${from} and wait until ${to} has its WAL index`,
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
