/** Activities of the roster of a ceremony. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled by its runbook
export interface RosterActivities {}
