import { WorkflowNotFoundError } from '@temporalio/client';
import { z } from 'zod';
import type { Check } from '../../src/contracts/plan';
import { durationText } from '../../src/contracts/words';
import { currentExecution } from '../execution';
import { check, notCheckable } from './check';

/** An open run as the server describes it without a worker: phase and deployment come from its memo, if it has one. */
export type OpenRun = NonNullable<Awaited<ReturnType<typeof openRun>>>;

const text = z.string().optional().catch(undefined);
const memoTexts = z.object({ phase: text, deployment: text, runbook: text });

/** The open run under a Workflow ID; undefined if there is none. Read-only: the run does not notice. */
export async function openRun(workflowId: string) {
  const { workflow } = currentExecution().temporal;
  try {
    const { type, runId, status, taskQueue, memo = {} } = await workflow.getHandle(workflowId).describe();
    return status.name === 'RUNNING' ? { type, runId, taskQueue, ...memoTexts.parse(memo) } : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

export function runText(run: OpenRun | undefined): string {
  return run ? `${run.type}, run ${run.runId}, ${run.phase ?? 'phase not reported'}` : 'none';
}

/** A change of the primary, as the record has it. */
interface ChangeBefore {
  readonly runbook: string;
  readonly runId: string;
  /** Epoch ms. */
  readonly at: number;
}

/** A planned run does not follow right after the last change of the primary: it can wait. */
export function coolDown(known: { readonly last?: ChangeBefore } | undefined, coolDownMs: number, now: number): Check {
  const name = 'cool-down since the last change of the primary';
  const needed = `${durationText(coolDownMs)} ago or more`;
  if (known === undefined) return notCheckable(name, undefined, { observed: 'the record cannot be read', needed });
  const { last } = known;
  return check(name, undefined, last === undefined || now - last.at >= coolDownMs, {
    observed: last ? `${last.runbook} ${durationText(now - last.at)} ago (run ${last.runId})` : 'none',
    needed,
    next: 'Wait for the cool-down, during which faults of the last change show. If it cannot wait, lower limits.coolDown in the inventory.',
  });
}
