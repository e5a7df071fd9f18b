/** A former primary comes back after a failover: demotion, what it wrote, unfencing (design 8). */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface RejoinActivities {}
