/** Secondaries are revoked, and replication ends (interface 4.1, 4.2). */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface DecommissionActivities {}
