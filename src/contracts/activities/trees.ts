import type { DrReindexInput, MerkleCheckInput, TokenSource } from '../runbook-inputs';
import type { Assessment } from './results';

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

/** Merkle checks and reindexing of a DR secondary (interface 4.1), and samples of the WAL. */
export interface TreeActivities {
  assessMerkleCheck(input: {
    readonly input: MerkleCheckInput;
    readonly ownFingerprint?: string | undefined;
  }): Promise<Assessment<MerkleRoute>>;
  assessDrReindex(input: {
    readonly input: DrReindexInput;
    readonly ownFingerprint?: string | undefined;
  }): Promise<Assessment<ReindexRoute>>;
}
