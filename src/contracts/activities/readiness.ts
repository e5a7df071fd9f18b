/** Whether a switchover and a failover would start now. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface ReadinessActivities {}
