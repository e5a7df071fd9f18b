import type { WalIndex } from '../observations';
import type { Finding } from '../run-facts';
import type { TokenSource } from '../runbook-inputs';

/** What a rejoin follows. */
export interface RejoinRoute {
  /** The former primary. */
  readonly cluster: string;
  /** The primary that serves. */
  readonly primary: string;
  /** The other members of the DR set, which may follow nobody now. */
  readonly others: readonly string[];
  /** What the former primary still takes itself for: `secondary` where it was demoted already. */
  readonly former: 'primary' | 'secondary';
  readonly tokenSource: TokenSource;
  readonly hooks: { readonly dump: boolean; readonly unfence: boolean };
}

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
