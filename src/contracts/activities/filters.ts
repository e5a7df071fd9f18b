/** Wanted paths filters and what is there (interface 4.2). */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface FilterActivities {}
