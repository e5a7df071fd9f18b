import type { ChangeResult } from '../../../src/contracts/activities';
import type { StepContext } from '../../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../../src/errors';
import type { HookEntry, HookName } from '../../../src/inventory';
import type { Clusters } from '../clusters';
import type { Execution } from '../execution';
import { makeCall } from './hook-call';
import { runCommand } from './hook-command';
import type { HookEnd } from './hook-command';
import type { HookFacts } from './hook-facts';

export interface HookRequest {
  readonly deployment: string;
  readonly hook: HookName;
  readonly from: string;
  readonly to: string;
  readonly step: StepContext;
}

/**
 * Runs a hook of the inventory once. `already`: the inventory has none.
 *
 * A hook that is not declared idempotent is never run a second time unseen: where an attempt before this one may have
 * begun it, or its end was not seen, the step parks and a person decides. One that is may be tried once more.
 *
 * @throws RunbookError HOOK_FAILED where it ended and said that it failed; OUTCOME_UNKNOWN where its end was not seen
 */
export async function runHook(clusters: Clusters, request: HookRequest, execution: Execution): Promise<ChangeResult> {
  const { hook } = request;
  const entry = clusters.deployment(request.deployment).hooks[hook];
  if (!entry)
    return { outcome: 'already', observed: `no ${hook} hook in the inventory`, confirmedAt: Date.now(), calls: 0 };
  const again = execution.doubt.mayHaveSent;
  if (again && !entry.idempotent) throw unseen(hook, 'an earlier try of it began, and its end was not seen');
  execution.throwIfCancelled();
  const calledAt = Date.now();
  const ended = await carryOut(entry, factsOf(request, execution), execution).catch((error: unknown) => {
    throw isRunbookError(error) && error.code !== 'REQUEST_CANCELLED' ? beforeItBegan(error, entry) : error;
  });
  const { ok, how, output } = ended;
  if (!ok) throw failed(hook, entry, ended, again);
  return {
    outcome: 'done',
    observed: `${hook} hook ended with ${how === 'exit 0' ? 'exit code 0' : how}${output === '' ? '' : `; its output: ${output}`}`,
    calledAt,
    confirmedAt: Date.now(),
    calls: 1,
  };
}

function carryOut(entry: HookEntry, facts: HookFacts, { signal }: Execution): Promise<HookEnd> {
  return entry.kind === 'command' ? runCommand(entry, facts, signal) : makeCall(entry, facts, signal);
}

function factsOf({ hook, deployment, from, to, step }: HookRequest, { run }: Execution): HookFacts {
  const key = `${run.rid}/${step.number}/${step.attempt}/${hook}`;
  return { hook, deployment, from, to, workflowId: run.wid, runId: run.rid, step: step.name, key };
}

/** What was wrong before anything was begun: a credential, a CA file. */
function beforeItBegan(error: RunbookError, entry: HookEntry): RunbookError {
  const { code, message, observed, needed, next, retryable } = error;
  return new RunbookError(code, message, {
    ...{ observed, needed, next },
    outcomeKnown: true,
    retryable: retryable && entry.idempotent,
  });
}

function failed(hook: HookName, entry: HookEntry, { how, begun, output }: HookEnd, again: boolean): RunbookError {
  const answered = /^(exit|status) /.test(how);
  const said = output === '' ? '' : `; its output: ${output}`;
  const seen = `${how}${said}`;
  // One more try for what may be done twice, so that a moment's failure asks nobody; then a person decides.
  const retryable = entry.idempotent && !again;
  if (begun && !answered && !entry.idempotent) return unseen(hook, how, seen);
  return new RunbookError('HOOK_FAILED', `The ${hook} hook did not succeed: ${lastLine(seen)}.`, {
    retryable,
    outcomeKnown: !begun,
    observed: seen,
    needed: entry.kind === 'command' ? 'exit code 0' : `status ${entry.expectStatus.join(' or ')}`,
    next: begun
      ? 'See what the hook did and why it failed; retry runs it again.'
      : 'It was not begun. Correct the inventory or bring its receiver back; retry runs it.',
  });
}

function unseen(hook: HookName, why: string, observed = why): RunbookError {
  return new RunbookError('OUTCOME_UNKNOWN', `Whether the ${hook} hook did its work is not known: ${why}.`, {
    retryable: false,
    outcomeKnown: false,
    observed,
    needed: 'the end of the hook, or a hook that the inventory declares idempotent',
    next: 'Find out what it did: it was not run again, because the inventory does not declare it idempotent. retry runs it again.',
  });
}

/** Short enough for a line of the timeline. */
function lastLine(text: string): string {
  const [how = '', ...lines] = text.split('\n');
  const last = lines.at(-1);
  const line = last === undefined ? how : `${how.split('; its output:')[0] ?? how}; last line: ${last}`;
  return line.length <= 300 ? line : `${line.slice(0, 300)}...`;
}
