import type { PathsFilterFacts } from '../../src/contracts/activities';
import type { Run } from '../engine/run';

/**
 * Two people decided that a paths filter is not written before its secondary is pointed at a primary: the secondary gets
 * what is kept away from it now.
 *
 * @param step - the step that was skipped
 * @returns who skipped it, and why: the activity that points the secondary looks for the filter otherwise
 */
export function filterNotWritten(
  run: Run,
  { primary, secondary }: { readonly primary: string; readonly secondary: string },
  { mode, paths }: PathsFilterFacts,
  step: string,
): string {
  const skipped = run.state.steps.filter(({ name }) => name === step).at(-1)?.note ?? 'skipped';
  run.state.finding({
    severity: 'critical',
    code: 'paths-filter-skipped',
    text: `The paths filter of ${secondary} (${mode} ${paths.join(', ')}) was not written on ${primary} before ${secondary} was pointed at it: ${skipped}. ${secondary} may have received what the filter keeps away from it.`,
    next: `Write the filter with filterReconciliation; what ${secondary} received cannot be taken back.`,
  });
  return skipped;
}
