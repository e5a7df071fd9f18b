import { foreignAttemptStep } from '../../src/contracts/ceremony';
import type { FailureFacts } from '../engine/failures';
import type { RunState } from '../engine/run-state';
import type { Remedy } from '../engine/step-options';

/** In whose way an attempt is. */
export interface BlockedBurst {
  readonly deployment: string;
  readonly cluster: string;
  readonly kind: 'operation-token' | 'root-token';
}

/**
 * What people may decide about an attempt of somebody else in the slot: to cancel it, two of them, and that one alone.
 * Never done by default: the first choice is to wait until its owner ends it, and to retry.
 */
export function foreignAttemptRemedy(
  state: RunState,
  { deployment, cluster, kind }: BlockedBurst,
  failure: FailureFacts,
): Remedy | undefined {
  if (failure.code !== 'ATTEMPT_FOREIGN' || failure.about === undefined) return undefined;
  const mark = failure.about;
  return {
    step: foreignAttemptStep(cluster, mark),
    choice: {
      action: 'cancel-attempt',
      effect: `cancel attempt ${mark} on ${cluster}, which is not this run's: what its owner was given so far is lost to him; then run the step again. A second person must decide it too`,
      needsTwo: true,
    },
    carryOut: async (call) => {
      await call.cancelForeignAttempt({ deployment, cluster, kind });
    },
  };
}
