/** Root tokens, and operation tokens that runs left in the ledger. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface TokenActivities {}
