import type { ChangeResult, OnDeployment } from '../../src/contracts/activities';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { HookEntry, HookName } from '../../src/inventory';
import { deploymentWorkflowId } from '../../src/contracts/names';
import { demand } from '../checks/check';
import { hasRole } from '../checks/replication';
import { currentExecution, onCluster } from '../execution';
import { awaitAnswer, awaitState, beforeSending, resultOf } from '../read-act-confirm';
import { readStatus } from '../observe';
import { refuseWhileDemoting } from '../quiesce/releases';
import { makeCall, requestOnce, runCommand } from './hook-call';
import type { HookEnd, HookFacts } from './hook-call';

/* Outside of the service: hooks that stop, direct and fence clients, and the probe of the clients' address. */

/** `from`: the cluster that is or was primary; `to`: the cluster that clients are directed to. */
interface HookInput {
  readonly deployment: string;
  readonly from: string;
  readonly to: string;
}

/** Runs a hook for clients. All other hooks have activities of their own, which verify an approval if required. */
export function runHook(
  input: HookInput & { readonly hook: 'quiesce' | 'traffic' | 'release' },
): Promise<ChangeResult> {
  return callHook(input);
}

/** Waits until the clients' address answers as the inventory's probe expects. */
export async function probeService({ deployment }: OnDeployment) {
  const execution = currentExecution();
  const { hooks, limits } = execution.clusters.deployment(deployment);
  const { probe } = hooks;
  if (!probe)
    throw new RunbookError('PRECONDITION_FAILED', 'The inventory has no probe.', {
      observed: 'no probe',
      needed: 'hooks.probe',
    });
  let tries = 0;
  await awaitState(execution, {
    read: async () => {
      tries += 1;
      const end = await requestOnce('probe', probe, execution.signal);
      if ('status' in end) return end.status;
      const { observed, next } = end.tls ?? {};
      const why = observed === undefined ? '' : `: ${observed}`;
      throw new RunbookError('UNREACHABLE', `The clients' address does not answer${why}.`, { next });
    },
    until: (status) => probe.expectStatus.includes(status),
    budgetMs: limits.serviceReadyMs,
    describe: (status) => `status ${status}`,
    needed: `status ${probe.expectStatus.join(' or ')} at the clients' address`,
    pollMs: 250,
  });
  return { firstSuccessAt: Date.now(), observed: `first success at try ${tries}` };
}

/** How long a cluster is asked for its role before clients are directed there. */
const ROLE_BUDGET_MS = 10_000;

type HookRequest = HookInput & { readonly hook: HookName };

/**
 * Runs a hook of the inventory once. `already`: the inventory has no such hook.
 *
 * A hook that is not declared idempotent never runs a second time without a person: if an earlier attempt may have
 * started it, or its end was not seen, the step parks and a person decides. An idempotent hook may be tried once more.
 *
 * The facts for a hook came through Temporal, where writers can put anything, and may end up in somebody's shell.
 * Therefore the clusters come from the inventory, the run must hold the lock, and the step name comes from our own
 * list.
 *
 * @throws RunbookError HOOK_FAILED if it ended and reported a failure; OUTCOME_UNKNOWN if its end was not seen
 */
export async function callHook(request: HookRequest): Promise<ChangeResult> {
  const execution = currentExecution();
  const { clusters } = execution;
  const { hook } = request;
  const entry = clusters.deployment(request.deployment).hooks[hook];
  if (!entry) return resultOf({ outcome: 'already', calls: 0 }, `no ${hook} hook in the inventory`);
  const facts = factsOf(request);
  const again = execution.doubt.mayHaveSent;
  if (again && !entry.idempotent) throw unseen(hook, 'an earlier attempt may have started it; its outcome is unknown');
  if (hook === 'traffic' || hook === 'release') {
    await demandPrimary(facts);
    await refuseWhileDemoting(`The ${hook} hook was not run`);
  }
  execution.throwIfCancelled();
  const calledAt = Date.now();
  const { signal } = execution;
  const run = entry.kind === 'command' ? runCommand(entry, facts, signal) : makeCall(entry, facts, signal);
  const ended = await run.catch((error: unknown) => {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    // Something was wrong before the hook started: a credential, a CA file.
    throw error.with({ outcomeKnown: true, retryable: error.retryable && entry.idempotent });
  });
  if (!ended.ok) throw failed(hook, entry, ended, again);
  const how = ended.how === 'exit 0' ? 'exit code 0' : ended.how;
  return resultOf({ outcome: 'done', calledAt, calls: 1 }, `${hook} hook ended with ${how}${outputText(ended)}`);
}

const outputText = ({ output }: HookEnd): string => (output === '' ? '' : `; its output: ${output}`);

/** @throws RunbookError UNKNOWN_CLUSTER, PRECONDITION_FAILED, INVALID_INPUT: nothing was started */
function factsOf({ hook, deployment, ...given }: HookRequest): HookFacts {
  const { clusters, run, step } = currentExecution();
  const [from, to] = [given.from, given.to].map((name) => clusters.of(deployment, name).entry.name);
  const lock = deploymentWorkflowId(deployment);
  if (run.wid !== lock)
    throw new RunbookError('PRECONDITION_FAILED', `The ${hook} hook runs only for the run that holds the lock.`, {
      observed: 'a run with another Workflow ID',
      needed: lock,
      next: 'Start the runbook that this hook belongs to.',
    });
  if (from === undefined || to === undefined || step === undefined)
    throw new RunbookError('INVALID_INPUT', 'The step of the hook has no number. Nothing was started.');
  const key = `${run.rid}/${step.number}/${step.attempt}/${hook}`;
  return { hook, deployment, from, to, workflowId: lock, runId: run.rid, step: STEPS[hook](from), key };
}

/** The names of the steps that run hooks: the name that comes with a step could say anything. */
const STEPS: Readonly<Record<HookName, (from: string) => string>> = {
  quiesce: () => 'Quiesce clients',
  release: () => 'Release clients',
  traffic: () => 'Direct clients to the new primary',
  fence: (from) => `Fence ${from}`,
  unfence: (from) => `Unfence ${from}`,
  snapshot: (from) => `Take a snapshot of ${from}`,
};

/**
 * Clients are directed and released only to a cluster whose active node reports right before that it is primary: DR
 * primary for a change within one DR set, otherwise performance primary.
 *
 * @throws RunbookError PRECONDITION_FAILED; another error if the cluster does not report its role in time
 */
async function demandPrimary({ hook, deployment, from, to }: HookFacts): Promise<void> {
  const { execution, clusters, access } = onCluster({ deployment, cluster: to });
  const kind = access.entry.drSet === clusters.of(deployment, from).entry.drSet ? 'dr' : 'performance';
  const read = () => readStatus(access, kind, execution.signal);
  const asked = { read, cluster: to, budgetMs: ROLE_BUDGET_MS, needed: `the role of ${to}` };
  const seen = await beforeSending(() => awaitAnswer(execution, asked));
  const next =
    'Find out which cluster serves. Retry once it reports that it is primary; or direct clients manually, and skip.';
  demand([hasRole({ cluster: to, [kind]: seen }, kind, 'primary', next)], `The ${hook} hook was not run`);
}

function failed(hook: HookName, entry: HookEntry, ended: HookEnd, again: boolean): RunbookError {
  const { how, begun, next: first = 'Correct the inventory or bring its receiver back.' } = ended;
  const answered = /^(exit|status) /.test(how);
  const seen = `${how}${outputText(ended)}`;
  // An idempotent hook is tried once more, so that a brief failure needs nobody; after that a person decides.
  const retryable = entry.idempotent && !again;
  if (begun && !answered && !entry.idempotent) return unseen(hook, how, seen);
  return new RunbookError('HOOK_FAILED', `The ${hook} hook failed: ${how}.`, {
    retryable,
    outcomeKnown: !begun,
    observed: seen,
    needed: entry.kind === 'command' ? 'exit code 0' : 'a status from 200 to 299',
    next: begun
      ? 'Check what the hook did and why it failed; retry runs it again.'
      : `It was not started. ${first} retry runs it.`,
  });
}

function unseen(hook: HookName, why: string, observed = why): RunbookError {
  return new RunbookError('OUTCOME_UNKNOWN', `Unknown whether the ${hook} hook completed: ${why}.`, {
    retryable: false,
    outcomeKnown: false,
    observed,
    needed: 'the end of the hook, or a hook that the inventory declares idempotent',
    next: 'Find out what it did: it was not run again, because the inventory does not declare it idempotent. retry runs it again.',
  });
}
