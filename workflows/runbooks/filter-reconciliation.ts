import type { SecondaryFilters } from '../../activities/filters/paths-filters';
import type { FilterRoute } from '../../activities/plans/filter-reconciliation';
import { changeFilter as stepOf } from '../../src/moves/records';
import type { FilterChange } from '../../src/moves/records';
import { approvePlan } from '../procedures/approved-plan';
import { changingFilter, sameFilterOnBothSides } from '../procedures/repoint';
import type { Approvals } from '../engine/approvals';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import type { ChangeResult, FilterState } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { failOver } from './dr-failover';

/**
 * Makes the paths filters of a performance primary what the inventory, or the input, wants. Any change needs gate `filter`;
 * if nothing has to be changed, nobody is asked.
 */
export const filterReconciliation = runbook('filterReconciliation', reconcile, { failOver });

async function reconcile(run: Run, input: InputOf<'filterReconciliation'>): Promise<Ending> {
  // 0./1. Read every filter. Show what would be newly sent and what deleted. Gate `filter` if anything changes.
  const approved = await approvePlan<FilterRoute>(run, {
    input,
    assess: (call) => call.assessFilterReconciliation({ input }),
    gateIfNeeded: 'filter',
  });
  if ('outcome' in approved) return approved;
  const { route } = approved;
  const undo = undoOf(input, route);

  // 2. Create, replace or delete one filter after the other. Filters that become narrower come first.
  if (route.changes.length > 0) {
    run.state.enterPhase('working');
    run.state.finding({
      severity: 'info',
      code: 'filters-before',
      text: `The filters before this run: ${route.changes.map(({ secondary, before }) => `${secondary} ${asText(before)}`).join('; ')}.`,
      next: `To undo it: \`${nextCommandOf.start('filterReconciliation', undo)}\`.`,
    });
    for (const change of route.changes) await changeFilter(run, input, route, approved.approvals, change);
  }

  // 3. Both clusters filter the same. The secondary's own view needs its own credential, so people may skip this.
  for (const { secondary, id, wanted, attached } of route.secondaries)
    if (wanted !== undefined && attached) {
      const pair = { deployment: input.deployment, primary: route.primary, secondary };
      await sameFilterOnBothSides(run, pair, { id, filter: wanted === 'none' ? undefined : wanted });
    }

  return {
    outcome: 'completed',
    leftToDo: [],
    result: {
      primary: route.primary,
      before: snapshot(route.secondaries),
      ...(route.changes.length > 0 ? { undo: { runbook: 'filterReconciliation', input: undo } } : {}),
    },
  };
}

/** Step 2 for one filter. The activity itself works out whether it widens, and checks the approval then. */
async function changeFilter(
  run: Run,
  { deployment }: InputOf<'filterReconciliation'>,
  { primary: cluster }: FilterRoute,
  approvals: Approvals,
  change: FilterChange,
): Promise<void> {
  const { secondary: named, outside, id, before, wanted } = change;
  const secondary = outside ? undefined : named;
  await run.skippableStep(
    stepOf(change),
    `the filter of ${named} stays unchanged; before this run: ${asText(before)}`,
    (call) =>
      approvals.begin('filter', (authority) => {
        const of = { deployment, cluster, id, secondary, filter: wanted, authority };
        return changingFilter<ChangeResult>(run, of, () => call.writePathsFilter(of));
      }),
    { skipNeedsTwo: true },
  );
}

/** The input that restores the filters. */
function undoOf(
  { deployment }: InputOf<'filterReconciliation'>,
  { primary, secondaries, changes }: FilterRoute,
): Readonly<Record<string, unknown>> {
  const changed = secondaries.filter(({ secondary }) => changes.some((change) => change.secondary === secondary));
  const before = (which: readonly SecondaryFilters[]) =>
    Object.fromEntries(which.map((each) => [each.secondary, countingOf(each)]));
  const [filters, ids] = [changed.filter(({ outside }) => !outside), changed.filter(({ outside }) => outside)];
  const asked = { filters: before(filters), ...(ids.length > 0 && { ids: before(ids) }) };
  return { deployment, primary, ...asked, reason: 'undo of a filter reconciliation' };
}

/** The filter under the id that is in use. */
function countingOf({ id, filters }: SecondaryFilters): FilterState {
  return filters.find((each) => each.id === id)?.filter ?? 'none';
}

function snapshot(secondaries: readonly SecondaryFilters[]): Readonly<Record<string, FilterState>> {
  return Object.fromEntries(
    secondaries.flatMap(({ secondary, id, filters }) =>
      filters.map((each) => [each.id === id ? secondary : `${secondary} (id ${each.id})`, each.filter] as const),
    ),
  );
}

function asText(filter: FilterState): string {
  return filter === 'none' ? 'no paths filter' : `${filter.mode} ${filter.paths.join(', ') || 'nothing'}`;
}
