import type { WalIndex } from '../observations';
import type { Finding } from '../run-facts';

/** What a former primary wrote after another cluster had become primary, as far as it can be known. */
export interface SplitFacts {
  /** Its `last_dr_wal`; absent where it does not tell one, as after its demotion. */
  readonly wal?: WalIndex;
  /** WAL entries that the primary lacks, at most; absent where no sample bounds them. */
  readonly atMostWalEntries?: string;
  readonly why: string;
  readonly observed: string;
  readonly findings: readonly Finding[];
}
