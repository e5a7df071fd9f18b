/** A performance secondary becomes primary, and secondaries follow another primary (facts 8.5, 8.6). */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface PerformancePromotionActivities {}
