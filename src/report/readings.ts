import type { ACTIVITY_KINDS } from '../contracts/activities';
import type { Report } from '../contracts/report';
import type { ActivityRecord, RunRecord } from './run-record';
import { listOf } from './run-record';

/* What a run read of the clusters, and whether that is still so at its end. */

/** Activities that may change the role of a cluster, or which primary it follows. */
const CHANGING_ROLES: readonly (keyof typeof ACTIVITY_KINDS)[] = [
  'demotePrimary',
  'promoteSecondary',
  'updatePrimary',
  'enablePrimary',
  'enableSecondary',
  'disablePrimary',
  'disableSecondary',
  'revokeSecondary',
  'forgetPrimary',
];

/** Whether an activity may change roles, so that roles that were read before it are no longer certain. */
export function changesRoles(activity: string): boolean {
  return CHANGING_ROLES.some((each) => each === activity);
}

/** The first and the last reading of the clusters, and whether the last one shows the roles after the run. */
export function statesOf(run: RunRecord): Pick<Report, 'initialState' | 'finalState' | 'finalRoles'> {
  const readings = run.activities.filter(
    ({ type, state, result }) =>
      (type === 'readDeployment' || type.startsWith('assess')) &&
      state === 'completed' &&
      listOf(result['observations']).length > 0,
  );
  const observed = (reading: ActivityRecord | undefined) =>
    listOf(reading?.result['observations']) as Report['finalState'];
  // A reading of the whole deployment tells more than an assessment, which may be of one cluster.
  const last = readings.findLast(({ type }) => type === 'readDeployment') ?? readings.at(-1);
  if (!last) return { finalState: [] };
  const changes = run.activities.filter(({ type }) => changesRoles(type));
  const isAfter = changes.every(({ closedAt }) => closedAt !== undefined && closedAt <= last.scheduledAt);
  return {
    ...(readings[0] !== last && { initialState: observed(readings[0]) }),
    finalState: observed(last),
    finalRoles: changes.length === 0 ? 'unchanged' : isAfter ? 'read-after-changes' : 'not-read-after-changes',
  };
}
