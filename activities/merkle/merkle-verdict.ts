import type { Finding } from '../../src/contracts/run-facts';
import type { MerkleReport, MerkleSubtree } from '../../src/vault';

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

/** Pages of one subtree that a result names; the counts are of all. */
const PAGES_NAMED = 20;
/** Subpages of one page that a result names: there are at most 256. */
const SUBPAGES_NAMED = 32;

type Judged = Pick<MerkleCheckResult, 'verdict' | 'text' | 'rootCorrupted' | 'damage' | 'findings'>;

/**
 * A plain verdict out of the report of a check. Damage in any tree, page or subpage is corruption.
 *
 * @param statusSaysCorrupted - `corrupted_merkle_tree` of the status, read after the check; undefined where not told
 */
export function judgeMerkleReport(
  cluster: string,
  report: MerkleReport,
  statusSaysCorrupted: boolean | undefined,
): Judged {
  const damage = report.subtrees.map(damageOf).filter(({ rootCorrupted, pages }) => rootCorrupted || pages > 0);
  if (report.healthy) {
    const text = `The Merkle tree of ${cluster} is sound: no root, page or subpage is corrupted.`;
    const contradiction: Finding = {
      severity: 'warning',
      code: 'merkle-status-differs',
      text: `The check of ${cluster} found nothing, and its status still says corrupted_merkle_tree.`,
      next: 'Check again after a while; if it stays, ask the vendor.',
    };
    const findings = statusSaysCorrupted === true ? [contradiction] : [];
    return { verdict: 'sound', text, rootCorrupted: false, damage, findings };
  }
  const where = [
    ...(report.corruptedRoot ? ['the root of the tree'] : []),
    ...damage.map(
      ({ subtree, treeType, rootCorrupted, pages, subpages }) =>
        `subtree ${subtree}${treeType === undefined ? '' : ` (${treeType})`}: ${rootCorrupted ? 'its root, ' : ''}${pages} pages with ${subpages} corrupted subpages`,
    ),
  ];
  const text = `The Merkle tree of ${cluster} is corrupted: ${where.join('; ')}.`;
  const next = `Reindex ${cluster}: \`runbook start drReindex\`. Until then do not rely on it for a failover.`;
  const findings: Finding[] = [{ severity: 'critical', code: 'merkle-tree-corrupted', text, next }];
  return { verdict: 'corrupted', text, rootCorrupted: report.corruptedRoot, damage, findings };
}

/** A version without the check: nothing is known, which is not health. */
export function merkleNotAvailable(cluster: string, version: string | undefined, code: string): Judged {
  const text = `The Merkle tree of ${cluster} was not checked: version ${version ?? 'unknown'} of the service has no Merkle check (${code}).`;
  const next =
    'Nothing is known of the tree. Compare merkle_root with the primary while it is not written to, or upgrade.';
  const findings: Finding[] = [{ severity: 'warning', code: 'merkle-check-not-available', text, next }];
  return { verdict: 'not-available', text, damage: [], findings };
}

function damageOf({ id, treeType, corruptedSubtreeRoot, corruptedPages }: MerkleSubtree): SubtreeDamage {
  return {
    subtree: id,
    treeType,
    rootCorrupted: corruptedSubtreeRoot,
    pages: corruptedPages.length,
    subpages: corruptedPages.reduce((sum, { subpages }) => sum + subpages.length, 0),
    first: corruptedPages
      .slice(0, PAGES_NAMED)
      .map(({ page, subpages }) => ({ page, subpages: subpages.slice(0, SUBPAGES_NAMED) })),
  };
}
