/** Unplanned change of the DR primary: evidence that it is gone, loss bound, promotion, force (design 8). */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface FailoverActivities {}
