import type { RepointingRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { PlanDocument, Precondition } from '../../src/contracts/plan';
import type { SecondaryRepointingInput } from '../../src/contracts/runbook-inputs';
import { kindName } from '../joining/onboarding-read';
import { describeFilter } from '../filters/paths-filters';
import { identityOf, planDocument } from '../approvals/planning';
import { keptAway } from '../filters/wanted-filter';

/** What people approve before a secondary is re-pointed. */
export function repointingPlan(
  input: SecondaryRepointingInput,
  primary: ClusterObservation,
  secondary: ClusterObservation,
  route: RepointingRoute,
  preconditions: readonly Precondition[],
  ofTokens: readonly string[] = [],
): PlanDocument {
  const filter = route.filter?.filter;
  return planDocument({
    runbook: 'secondaryRepointing',
    input,
    clusters: [primary, secondary],
    operations: [
      {
        operation:
          route.kind === 'dr' ? 'dr.secondary.repoint-by-token' : `performance.secondary.repoint-by-${route.form}`,
        on: identityOf(secondary),
        with: identityOf(primary),
        ...(route.kind === 'performance' ? { detail: describeFilter(filter) } : {}),
      },
    ],
    warnings: [
      ...exposure(route),
      ...(route.kind === 'dr'
        ? [`Until ${secondary.cluster} streams again it protects nothing: do not plan a failover to it meanwhile.`]
        : [`Until ${secondary.cluster} streams again its clients read old data, and their writes fail.`]),
      `What ${secondary.cluster} has and ${primary.cluster} has not is removed from ${secondary.cluster} when their data is compared.`,
      ...preconditions
        .filter(({ name, verdict }) => name.startsWith('no known defect') && verdict === 'warn')
        .map(({ cluster, observed }) => `Acknowledged defect on ${cluster ?? 'a cluster'}: ${observed}`),
      ...ofTokens,
    ],
    steps: steps(route, secondary.cluster, primary.cluster),
    choices: {
      kind: route.kind,
      form: route.form,
      ...(route.tokenSource && { tokenSource: route.tokenSource }),
      ...(route.filter && { filter: describeFilter(filter), filterId: route.filter.id }),
      acknowledgeKnownBugs: input.acknowledgeKnownBugs,
    },
  });
}

/** What a secondary may receive that it must not have, between update-primary and the second writing of its filter. */
export function exposureInWords(secondary: string, filter: Parameters<typeof keptAway>[0]): string {
  return `Between update-primary and the second writing of its filter ${secondary} may receive what is kept away from it: ${keptAway(filter)}.`;
}

function exposure({ kind, form, secondary, filter }: RepointingRoute): string[] {
  if (kind === 'dr' || form === 'addresses') return [];
  if (!filter?.filter) return [`${secondary} has no paths filter: it receives everything that is not local.`];
  return [exposureInWords(secondary, filter.filter)];
}

function steps({ kind, form, tokenSource, filter }: RepointingRoute, secondary: string, primary: string): string[] {
  const write = filter?.filter
    ? [`Write the paths filter of ${secondary} on ${primary} under ${filter.id}: ${describeFilter(filter.filter)}`]
    : [];
  const join = [
    `Issue a ${kindName(kind)} activation token on ${primary} with the cluster ID of ${secondary} as its id, and use it`,
  ];
  return [
    ...(tokenSource === 'ceremony' ? [`Generate an operation token on ${secondary} from the holders' key shares`] : []),
    ...(form === 'addresses' ? [`Give ${secondary} the cluster addresses of ${primary}`] : [...write, ...join]),
    ...(form === 'token' && write.length > 0 ? ['Make sure of the filter again, and compare it'] : []),
    `Wait until ${secondary} ${kind === 'dr' ? 'streams from' : 'follows'} ${primary}`,
    ...(kind === 'performance' ? ['Compare the dynamic filter on both sides'] : []),
    'Compare the Merkle roots, where they can be compared',
    ...(tokenSource && tokenSource !== 'batch' ? ['Delete the operation token and destroy the ceremony keys'] : []),
    'Read the final state',
  ];
}
