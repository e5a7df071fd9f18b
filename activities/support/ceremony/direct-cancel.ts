import type { GenerationAttempt } from '../../../src/client';
import type { Execution } from '../execution';
import type { Slot } from './generation-slot';
import { CHANGE_TIMEOUT_MS, readActConfirm } from '../read-act-confirm';

const CANCEL_BUDGET_MS = 20_000;

/**
 * Cancels the very attempt that was read, and sees that it is gone.
 *
 * @throws RunbookError OUTCOME_UNKNOWN, CONFIRMATION_TIMEOUT, what the service refuses: it may be there still
 */
export async function cancelSeen(
  execution: Execution,
  { endpoints, token, cluster }: Pick<Slot, 'endpoints' | 'token' | 'cluster'>,
  seen: GenerationAttempt,
): Promise<void> {
  await readActConfirm(execution, {
    read: () => endpoints.readAttempt({ token, signal: execution.signal }),
    until: ({ started, nonce }) => !started || nonce !== seen.nonce,
    act: () => endpoints.cancelAttempt({ token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS }),
    budgetMs: CANCEL_BUDGET_MS,
    describe: ({ progress, required }) => `the attempt is there, ${progress} of ${required} key shares given`,
    needed: 'our attempt is gone',
    cluster,
  });
}
