/** Merkle checks and reindexing of a DR secondary (interface 4.1), and samples of the WAL. */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type -- filled next
export interface TreeActivities {}
