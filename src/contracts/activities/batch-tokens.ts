/** Activities of batch tokens. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled by its runbook
export interface BatchTokenActivities {}
