import type { Fields } from './fields';
import type { EpochSeconds } from './types';

/** A page of a subtree with damage (interface section 2, facts 7). */
export interface CorruptedPage {
  readonly page: number;
  /** The page itself, not only subpages of it. */
  readonly corrupted: boolean;
  /** 0 to 255. */
  readonly subpages: readonly number[];
}

export interface MerkleSubtree {
  readonly id: string;
  /** `replicated` or `local`. */
  readonly treeType?: string;
  readonly rootHash?: string;
  readonly corruptedSubtreeRoot: boolean;
  readonly corruptedPages: readonly CorruptedPage[];
}

/** Result of a Merkle check of a DR secondary. */
export interface MerkleReport {
  /** No root, subtree root, page or subpage is corrupted. */
  readonly healthy: boolean;
  readonly corruptedRoot: boolean;
  readonly subtrees: readonly MerkleSubtree[];
  readonly lastCorruptionCheckEpoch?: EpochSeconds;
}

export function readMerkleReport(data: Fields): MerkleReport {
  const report = data.child('merkle_corruption_report') ?? data.missing('merkle_corruption_report');
  const corruptedRoot = report.neededFlag('corrupted_root');
  const subtrees = (report.child('corrupted_tree_map')?.entries() ?? []).map(([id, tree]) => readSubtree(id, tree));
  return {
    healthy: !corruptedRoot && subtrees.every((tree) => !tree.corruptedSubtreeRoot && tree.corruptedPages.length === 0),
    corruptedRoot,
    subtrees,
    lastCorruptionCheckEpoch: report.epoch('last_corruption_check_epoch'),
  };
}

function readSubtree(id: string, tree: Fields): MerkleSubtree {
  return {
    id,
    treeType: tree.filledText('tree_type'),
    rootHash: tree.filledText('root_hash'),
    corruptedSubtreeRoot: tree.neededFlag('corrupted_subtree_root'),
    corruptedPages: (tree.child('corrupted_index_tuples_map')?.entries() ?? []).map(([page, damage]) => ({
      page: Number(page),
      corrupted: damage.flag('corrupted') ?? false,
      subpages: damage.numbers('subpages') ?? [],
    })),
  };
}
