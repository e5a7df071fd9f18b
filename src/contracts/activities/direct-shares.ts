/** Activities of shares that holders enter in the service themselves, and encrypted tokens that people hand in. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled by its runbook
export interface DirectSharesActivities {}
