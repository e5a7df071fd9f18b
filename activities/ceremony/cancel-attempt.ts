import type { GenerationAttempt } from '../../src/vault';
import { attemptMark } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import type { RunbookError } from '../../src/errors';
import type { Execution } from '../execution';
import type { Slot } from './generation-slot';
import { CHANGE_TIMEOUT_MS, readActConfirm } from '../read-act-confirm';

const CANCEL_BUDGET_MS = 20_000;

/**
 * Cancels the very attempt that was read, and sees that it is gone.
 *
 * @returns `already`: it was gone before, and what ended it was not this
 * @throws RunbookError OUTCOME_UNKNOWN, CONFIRMATION_TIMEOUT, what the service refuses: it may be there still
 */
export async function cancelSeen(
  execution: Execution,
  { endpoints, token, cluster }: Pick<Slot, 'endpoints' | 'token' | 'cluster'>,
  seen: GenerationAttempt,
): Promise<'done' | 'already'> {
  const { outcome } = await readActConfirm(execution, {
    read: () => endpoints.readAttempt({ token, signal: execution.signal }),
    until: ({ started, nonce }) => !started || nonce !== seen.nonce,
    act: () => endpoints.cancelAttempt({ token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS }),
    budgetMs: CANCEL_BUDGET_MS,
    describe: ({ progress, required }) => `the attempt is there, ${progress} of ${required} key shares given`,
    needed: 'our attempt is gone',
    cluster,
  });
  return outcome;
}

/** Whether an error is no end: this attempt of the activity was cancelled, or nobody can say whether it counts. */
export function isForNextAttempt({ signal }: Execution, { code }: RunbookError): boolean {
  return signal.aborted || code === 'TEMPORAL_UNAVAILABLE';
}

export function notCancelled(cluster: string, { nonce = '' }: GenerationAttempt, { code }: RunbookError): Finding {
  return {
    severity: 'critical',
    code: 'attempt-not-cancelled',
    text: `The attempt ${attemptMark(nonce)} of this run on ${cluster} was not seen to be gone (${code}): who gives its last key share makes a token that nobody waits for.`,
    next: `No holder gives a share to it any more. Cancel it: \`vault operator generate-root -cancel\` (for an operation token with \`-dr-token\`), and see with \`-status\` that it is gone. Its entry stays in the ledger.`,
  };
}
