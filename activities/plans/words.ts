import type { PathsFilterFacts, Quiesce } from '../../src/contracts/activities';
import type { KeptToken } from '../../src/contracts/ceremony';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { ReplicationKind, TokenSource } from '../../src/contracts/runbook-inputs';
import { keyShares } from '../../src/contracts/words';
import type { Rights } from '../checks/credentials';
import { keptAway } from '../filters/paths-filters';

/* What several plans say in the same words, and ask in the same way. */

export const COMPARE_ROOTS = 'Compare the Merkle roots, where they can be compared';
export const FINAL_STATE = 'Read the final state';

/** How the operation token of a cluster comes, and what becomes of it; nothing to say of what a batch token serves. */
export function tokenSteps({ cluster, seal }: ClusterObservation, source: TokenSource | undefined, kept?: KeptToken) {
  const generated = `Generate an operation token on ${cluster} from the holders' ${keyShares(seal?.recovery)}`;
  return {
    begin: kept ? `Take the operation token of ${cluster} that the record keeps` : source === 'ceremony' && generated,
    end: source !== undefined && source !== 'batch' && 'Delete the operation tokens and destroy the ceremony keys',
  };
}

/** Of a planned change of the primary, after its demotion. */
export function comparisonStep(from: string, by: Quiesce, acceptLoss: 'none' | 'bounded'): string {
  const when = by === 'none' ? 'Compare' : 'Where clients were not seen to be held: compare';
  const then = acceptLoss === 'none' ? `promote ${from} back` : 'go on and state the bound';
  return `${when} the Merkle roots; where loss cannot be excluded ${then}`;
}

/** The performance secondaries of a DR set, after its primary has changed. */
export function followingSteps(secondaries: readonly ClusterObservation[], primary: string): string[] {
  return secondaries.map(
    ({ cluster }) =>
      `See that performance secondary ${cluster} follows ${primary}, else re-point it with its paths filter`,
  );
}

/** What a secondary may receive that it must not have, between update-primary and the second writing of its filter. */
export function exposureInWords(secondary: string, filter: PathsFilterFacts): string {
  return `Between update-primary and the second writing of its filter ${secondary} may receive what is kept away from it: ${keptAway(filter)}.`;
}

/**
 * What the workers' credential needs on a primary that issues an activation token.
 *
 * @param id - of performance replication: under which the secondary's filter is looked for there
 * @param writes - the filter is written too
 */
export function issuingRights(kind: ReplicationKind, id?: string, writes = true): Rights {
  const base = `sys/replication/${kind}/primary`;
  return {
    [`${base}/secondary-token`]: ['update', 'sudo'],
    [`${base}/revoke-secondary`]: ['update'],
    ...(id !== undefined && { [`${base}/paths-filter/${id}`]: ['read', ...(writes ? ['create|update'] : [])] }),
  };
}
