import type { OnCluster, ChangeResult } from '../../src/contracts/activities';
import { attemptMark, foreignAttemptStep } from '../../src/contracts/ceremony';
import type { Finding } from '../../src/contracts/run-facts';
import { escapeUntrusted } from '../../src/contracts/words';
import { RunbookError } from '../../src/errors';
import type { GenerationAttempt } from '../../src/vault';
import { decisionsOf } from '../approvals/people';
import { currentExecution } from '../execution';
import { CHANGE_TIMEOUT_MS, readActConfirm } from '../read-act-confirm';
import { ceremonyToken, endpointsOf } from './ceremony-access';
import { keyInWords, readAttempt } from './generation-slot';

const DECIDERS = 2;
const BUDGET_MS = 20_000;

/**
 * The one place that cancels a generation attempt that is not ours (interface section 3; facts 9, number 6): the one that
 * is in the slot now, where two different people decided to cancel that very one: their signed
 * decisions name its cluster and what its nonce begins with. They are read in the run's own history.
 */
export async function cancelForeignAttempt(
  input: OnCluster & { readonly kind: 'operation-token' | 'root-token' },
): Promise<ChangeResult> {
  const { deployment, cluster, kind } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const access = clusters.of(deployment, cluster);
  const { version } = await access.client.sys.health({ signal: execution.signal });
  const token = await ceremonyToken(access, version, kind, execution.signal);
  const endpoints = endpointsOf(access, kind);
  const slot = { endpoints, token, cluster };
  const first = await readAttempt(execution, slot);
  if (!first.started) return { outcome: 'already', calls: 0, ...seenNow(cluster, first) };
  const mark = attemptMark(first.nonce ?? '');
  const deciders = await decidersOf(deployment, foreignAttemptStep(cluster, mark));
  const whose = `attempt ${mark} with ${keyInWords(first.pgpFingerprint)}`;
  if (deciders.length < DECIDERS) throw undecided(cluster, whose, deciders);

  const changed = await readActConfirm(execution, {
    read: () => endpoints.readAttempt({ token, signal: execution.signal }),
    until: ({ started, nonce }) => !started || nonce !== first.nonce,
    // The service's own call names no attempt: it is looked at right before.
    act: () => endpoints.cancelAttempt({ token, signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS }),
    budgetMs: BUDGET_MS,
    describe: ({ progress, required }) => `the attempt is there, ${progress} of ${required} key shares given`,
    needed: `${whose} is gone`,
    cluster,
  });
  const { outcome, state, calls, calledAt } = changed;
  return {
    outcome,
    calls,
    calledAt,
    ...seenNow(cluster, state),
    findings: [told(cluster, whose, deciders, calls)],
  };
}

function seenNow(cluster: string, { started, nonce }: GenerationAttempt) {
  const observed = started
    ? `another attempt, ${attemptMark(nonce ?? '')}, is in the slot of ${cluster}`
    : `the slot of ${cluster} is free`;
  return { confirmedAt: Date.now(), observed };
}

/** Only what was asked of the service was done by this run. */
function told(cluster: string, whose: string, deciders: readonly string[], calls: number): Finding {
  if (calls === 0) {
    return {
      severity: 'info',
      code: 'foreign-attempt-gone',
      text: `The ${whose}, which was not this run's, was gone from ${cluster} before it was cancelled: this run cancelled nothing.`,
    };
  }
  return {
    severity: 'warning',
    code: 'foreign-attempt-cancelled',
    text: `The ${whose}, which was not this run's, was cancelled on ${cluster} as ${escapeUntrusted(deciders.join(' and '))} decided.`,
    next: 'Tell its owner: the key shares that it had been given are gone, and he has to begin anew.',
  };
}

/** Who decided to cancel the attempt of this step, and may; nobody counts twice. */
async function decidersOf(deployment: string, step: string): Promise<string[]> {
  const decisions = await decisionsOf(deployment);
  const deciders = decisions.filter((each) => each.step === step && each.action === 'cancel-attempt');
  return [...new Set(deciders.map(({ name }) => name))];
}

function undecided(cluster: string, whose: string, deciders: readonly string[]): RunbookError {
  return new RunbookError('NOT_APPROVED', `Nobody else's attempt on ${cluster} is cancelled without two people.`, {
    cluster,
    observed: `${whose}; decided by ${deciders.length === 0 ? 'nobody' : escapeUntrusted(deciders.join(', '))}`,
    needed: `decisions of ${DECIDERS} different people that name this very attempt`,
    next: 'Retry: where an attempt is in the slot, the run asks about that one.',
  });
}
