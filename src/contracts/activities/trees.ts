import type { TokenSource } from '../runbook-inputs';

export interface MerkleRoute {
  readonly tokenSource: TokenSource;
}

export interface ReindexRoute extends MerkleRoute {
  /** `last_reindex_epoch` before, seconds; 0: never. Absent where this version does not tell it. */
  readonly epochBefore?: number;
  /** The status says that the tree is corrupted, whatever the check can tell. */
  readonly corruptedByStatus: boolean;
}

/** The options of a reindex (interface 4.1: `reindex`). */
export interface ReindexOptions {
  readonly diff: boolean;
  readonly force: boolean;
  readonly skipFlush: boolean;
}
