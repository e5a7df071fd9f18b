import type { ApplicationFailure } from '@temporalio/workflow';
import type { Assessment } from '../../src/contracts/activities';
import type { PlanDocument } from '../../src/contracts/plan';
import { stepFailure } from './failures';

/** The plan and the route of an assessment that was not refused. */
export function planned<R>(assessed: Assessment<R>): { readonly plan: PlanDocument; readonly route: R } {
  const { plan, route } = assessed;
  if (!plan || route === undefined) throw stepFailure('PRECONDITION_FAILED', 'No plan can be made of what was read.');
  return { plan, route };
}

/** Why the run must not go on, with what was observed and needed; undefined where everything holds. */
export function refusalOf(
  assessed: Pick<Assessment<unknown>, 'preconditions' | 'plan'>,
): ApplicationFailure | undefined {
  const failed = assessed.preconditions.filter((each) => each.verdict === 'fail');
  if (failed.length === 0 && assessed.plan) return undefined;
  const lines = failed.map(
    (each) =>
      `${each.name}${each.cluster ? ` (${each.cluster})` : ''}: observed ${each.observed}, needed ${each.needed}`,
  );
  return stepFailure('PRECONDITION_FAILED', `Nothing was touched. ${lines.join('; ')}`, {
    observed: failed[0]?.observed,
    needed: failed[0]?.needed,
    next: failed.flatMap((each) => (each.next ? [each.next] : [])).join(' '),
  });
}

/** How many preconditions hold, for the timeline. */
export function verdictsInWords({ preconditions }: Pick<Assessment<unknown>, 'preconditions'>): string {
  const count = (verdict: string) => preconditions.filter((each) => each.verdict === verdict).length;
  return `${count('ok')} ok, ${count('warn')} warnings, ${count('fail')} failed, ${count('not-checkable')} not checkable`;
}
