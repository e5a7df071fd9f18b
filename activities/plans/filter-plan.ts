import type { FilterChange, FilterRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, PlanDocument } from '../../src/contracts/plan';
import type { FilterReconciliationInput } from '../../src/contracts/runbook-inputs';
import { diffFilters, needsApproval, regionsInWords } from '../filters/filter-difference';
import { describeFilter } from '../filters/paths-filters';
import { identityOf, planDocument } from '../approvals/planning';

/** Every filter that is not as wanted, under each id of its secondary. What only narrows comes first. */
export function changesOf(secondaries: FilterRoute['secondaries']): FilterChange[] {
  const changes = secondaries.flatMap(({ secondary, filters, wanted }) =>
    wanted === undefined
      ? []
      : filters
          .filter(({ filter }) => describeFilter(filter) !== describeFilter(wanted))
          .map(({ id, filter }) => ({ secondary, id, before: filter, wanted })),
  );
  return [...changes.filter((each) => !isWidening(each)), ...changes.filter(isWidening)];
}

function isWidening({ before, wanted }: FilterChange): boolean {
  return needsApproval(before, wanted);
}

/** The plan: what each change newly sends and what it deletes, and the one operation that it needs. */
export function filterPlan(
  input: FilterReconciliationInput,
  primary: ClusterObservation,
  looked: readonly ClusterObservation[],
  { changes }: FilterRoute,
): PlanDocument {
  const of = (name: string) => looked.find((each) => each.cluster === name);
  const changed = looked.filter(({ cluster }) => changes.some(({ secondary }) => secondary === cluster));
  const operations = changes.flatMap(({ secondary, wanted }): AllowedOperation[] => {
    const observed = of(secondary);
    if (!observed) return [];
    return [
      {
        operation: 'performance.primary.paths-filter',
        on: identityOf(primary),
        with: identityOf(observed),
        detail: describeFilter(wanted),
      },
    ];
  });
  return planDocument({
    runbook: 'filterReconciliation',
    input,
    clusters: [primary, ...changed],
    operations: distinct(operations),
    warnings: [...new Set(changes.flatMap(warningsOf))],
    steps: [
      ...changes.map(stepOf),
      ...changed.map(({ cluster }) => `Compare the dynamic filter of ${cluster} on both sides`),
    ],
    choices: Object.fromEntries(
      changes.map(({ secondary, wanted }) => [`filter of ${secondary}`, describeFilter(wanted)]),
    ),
  });
}

function warningsOf({ secondary, before, wanted }: FilterChange): string[] {
  const { sent, removed } = diffFilters(before, wanted);
  return [
    ...(wanted === 'none' ? [`The filter of ${secondary} is deleted: nothing is kept away from it any more.`] : []),
    ...(sent.length === 0
      ? []
      : [`Newly sent to ${secondary}: ${regionsInWords(sent)}. What it has received cannot be called back.`]),
    ...(removed.length === 0
      ? []
      : [`Deleted on ${secondary}: ${regionsInWords(removed)}. Its clients lose these paths at once.`]),
    ...(sent.length === 0 && removed.length === 0 ? [`What ${secondary} may see stays the same.`] : []),
  ];
}

function stepOf({ secondary, id, before, wanted }: FilterChange): string {
  const verb = wanted === 'none' ? 'Delete' : before === 'none' ? 'Create' : 'Replace';
  return `${verb} the filter of ${secondary} (id ${id}): ${describeFilter(before)} becomes ${describeFilter(wanted)}`;
}

function distinct(operations: readonly AllowedOperation[]): AllowedOperation[] {
  const seen = new Set<string>();
  return operations.filter((each) => {
    const key = JSON.stringify(each);
    return seen.has(key) ? false : (seen.add(key), true);
  });
}
