import { WorkflowNotFoundError } from '@temporalio/client';
import type { Check } from '../../src/contracts/plan';
import type { ActivityDependencies } from '../dependencies';
import type { PrimaryChanges } from '../roles/primary-changes';
import { asWarning, check, notCheckable } from './check';

/** An open run, as the server knows it without a worker. */
export interface OpenRun {
  readonly type: string;
  readonly runId: string;
  /** From the memo, where there is one. */
  readonly phase?: string;
  readonly deployment?: string;
}

/** The open run under a Workflow ID; undefined where there is none. Reads only: the run does not notice. */
export async function openRun(
  { temporal }: Pick<ActivityDependencies, 'temporal'>,
  workflowId: string,
): Promise<OpenRun | undefined> {
  try {
    const run = await temporal.workflow.getHandle(workflowId).describe();
    if (run.status.name !== 'RUNNING') return undefined;
    const { phase, deployment } = run.memo ?? {};
    return {
      type: run.type,
      runId: run.runId,
      ...(typeof phase === 'string' ? { phase } : {}),
      ...(typeof deployment === 'string' ? { deployment } : {}),
    };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

export function runText(run: OpenRun | undefined): string {
  return run ? `${run.type}, run ${run.runId}, ${run.phase ?? 'phase not told'}` : 'none';
}

/**
 * Not at once after the last change of the primary: a planned run has time. A promotion that no worker attested counts as
 * unknown: people see it, and nobody is held back by what somebody made up.
 */
export function coolDown(known: PrimaryChanges | undefined, coolDownMs: number, now: number): Check {
  const name = 'cool-down since the last change of the primary';
  const needed = `${inWords(coolDownMs)} ago or more`;
  if (known === undefined) return notCheckable(name, undefined, 'Temporal does not tell the closed runs', needed);
  const [last] = known.changes;
  const [unattested] = known.unattested;
  const passed = last === undefined || now - last.at >= coolDownMs;
  if (passed && unattested !== undefined) {
    const tell = known.unattested.length === 1 ? 'a run tells' : `${known.unattested.length} runs tell`;
    const observed = `no worker attested the promotion that ${tell} of (${unattested})`;
    const next = 'Find out who writes to this namespace, and whether the primary was changed lately.';
    return asWarning(check(name, undefined, false, observed, needed, next));
  }
  return check(
    name,
    undefined,
    passed,
    last ? `${last.runbook} ${inWords(Math.max(0, now - last.at))} ago (run ${last.runId})` : 'none lately',
    needed,
    'Wait for the cool-down: what is broken shows then. If it cannot wait, lower limits.coolDown in the inventory.',
  );
}

function inWords(milliseconds: number): string {
  const units = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1_000, 's'],
  ] as const;
  const [size, unit] = units.find(([each]) => milliseconds >= 2 * each) ?? [1, 'ms'];
  return `${Math.floor(milliseconds / size)} ${unit}`;
}
