import * as offered from './offered';

export { Clusters } from './clusters';
export type { ActivityDependencies } from './execution';
export { interceptActivities } from './execution';
export { Records } from './record';
export { TIMING } from './read-act-confirm';
export { sweepLedger, raiseRecordAlarm } from './ceremony/token-ledger';
export { notifyOverdueReadiness } from './readiness/summary';
export { watchSampler } from './alarms/no-samples';

/** The activities that workers offer, by their Temporal names. They run only inside {@link interceptActivities}. */
export const activities = { ...offered };

/** Workflows import this as a type only: no activity code gets into their bundle. */
export type RunbookActivities = typeof activities;
