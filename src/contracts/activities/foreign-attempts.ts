import type { OnCluster } from './inputs';
import type { ChangeResult } from './results';

/** What becomes of somebody else's generation attempt in the single slot of a cluster. */
export interface ForeignAttemptActivities {
  /**
   * Cancels the attempt that is in the slot now, where two different people decided to cancel that very one: their signed
   * decisions name its cluster and what its nonce begins with. They are read in the run's own history.
   */
  cancelForeignAttempt(input: OnCluster & { readonly kind: 'operation-token' | 'root-token' }): Promise<ChangeResult>;
}
