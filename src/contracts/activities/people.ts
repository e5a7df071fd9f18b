/** Notifications, hooks, and what people said of themselves in the history of the run. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface PeopleActivities {}
