import type { OperationTokenReference } from '../ceremony';
import type { Finding } from '../run-facts';
import type { DrReindexInput, MerkleCheckInput, TokenSource } from '../runbook-inputs';
import type { OnCluster } from './inputs';
import type { Assessment, Authority, ChangeResult } from './results';

/** `not-available`: this version of the service has no check, which says nothing of the tree. */
export type MerkleVerdict = 'sound' | 'corrupted' | 'not-available';

/** What is damaged in one subtree. */
export interface SubtreeDamage {
  readonly subtree: string;
  /** `replicated` or `local`. */
  readonly treeType?: string;
  readonly rootCorrupted: boolean;
  /** How many pages hold damage, and how many of their subpages. */
  readonly pages: number;
  readonly subpages: number;
  /** The first of these pages; a page without subpages is corrupted as a whole. */
  readonly first: readonly { readonly page: number; readonly subpages: readonly number[] }[];
}

/** A Merkle check in plain words (interface section 2: Merkle check result). */
export interface MerkleCheckResult {
  readonly cluster: string;
  readonly clusterId: string;
  readonly verdict: MerkleVerdict;
  /** One sentence. */
  readonly text: string;
  readonly rootCorrupted?: boolean;
  readonly damage: readonly SubtreeDamage[];
  readonly checkedAt: number;
  /** How long the service took, ms. */
  readonly tookMs: number;
  readonly findings: readonly Finding[];
}

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

/** A reindex that came to its end. */
export interface ReindexResult {
  /** `last_reindex_epoch` after, seconds; absent where this version does not tell it. */
  readonly epoch?: number;
  /** The stages that were seen, in the words of the service, and for how long each, ms. */
  readonly stages: readonly { readonly stage: string; readonly seenForMs: number }[];
  readonly followedForMs: number;
  readonly observed: string;
  readonly endedAt: number;
}

/** Merkle checks and reindexing of a DR secondary (interface 4.1), and samples of the WAL. */
export interface TreeActivities {
  assessMerkleCheck(input: {
    readonly input: MerkleCheckInput;
    readonly ownFingerprint?: string | undefined;
  }): Promise<Assessment<MerkleRoute>>;
  /** Reads only, and may take long on a large store: waits for the answer. */
  probeMerkleTree(input: OnCluster & { readonly token: OperationTokenReference }): Promise<MerkleCheckResult>;
  assessDrReindex(input: {
    readonly input: DrReindexInput;
    readonly ownFingerprint?: string | undefined;
  }): Promise<Assessment<ReindexRoute>>;
  /** Starts the reindex; `already` where one is under way or was done since the plan. */
  startDrReindex(
    input: OnCluster & {
      readonly token: OperationTokenReference;
      readonly authority: Authority;
      readonly options: ReindexOptions;
      readonly epochBefore?: number | undefined;
    },
  ): Promise<ChangeResult>;
  /** Waits until no reindex is under way; stage, rate and estimate are in the heartbeats. */
  followDrReindex(input: OnCluster & { readonly epochBefore?: number | undefined }): Promise<ReindexResult>;
}
