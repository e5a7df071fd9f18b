import type { Finding } from '../run-facts';
import type { TokenDisposal } from './results';

/** A token of the record, as the plan names it: never the token, nor its sealed form. */
export interface LedgerToken {
  /** Id of the entry. */
  readonly id: string;
  readonly cluster: string;
  readonly kind: 'operation-token' | 'root-token';
  /** The run that made it. */
  readonly workflowId: string;
  readonly runId: string;
  /** ISO time of the last change of the entry. */
  readonly at: string;
  /**
   * `deletable`: sealed in the record. `orphan`: it may exist, and nobody holds it. `in-use`: its run is open, or cannot
   * be asked about. `undelivered`: a root token, encrypted to its recipient, that its run did not hand on.
   */
  readonly state: 'deletable' | 'orphan' | 'in-use' | 'undelivered';
}

export interface DisposalRoute {
  readonly tokens: readonly LedgerToken[];
}

/** What became of one token of the record. */
export interface LedgerDisposal extends TokenDisposal {
  /** Who can end it when, where it is not deleted. */
  readonly next?: string;
  readonly findings: readonly Finding[];
}
