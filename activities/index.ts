import * as offered from './offered';

export { Clusters } from './clusters';
export type { ActivityDependencies } from './execution';
export { interceptActivities } from './execution';
export { Records } from './record';
export { sweepLedger, tellRecordAlarm } from './ceremony/token-ledger';
export { tellOverdueReadiness } from './readiness/summary';

/** What the workers offer, by the names under which Temporal knows it. They run inside of {@link interceptActivities} only. */
export const activities = { ...offered };

/** Workflows import this as a type: no code of the activities is in their bundle. */
export type RunbookActivities = typeof activities;
