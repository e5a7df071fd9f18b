/** A run as a page shows it: from the gateway, or from a status that somebody pasted. Nothing of it is trusted. */
import { z } from 'zod';
import { shellLine } from '../contracts/next-commands';
import { GATE_NAMES } from '../contracts/gates';
import { attested, finding } from '../contracts/run-facts';
import type { Waiting } from '../contracts/run-status';
import { DECISION_ACTIONS } from '../contracts/signals';
import { inLines } from '../contracts/words';
import { RunbookError } from '../errors';

const decision = z.enum(DECISION_ACTIONS);
const waits = z.discriminatedUnion('for', [
  z.object({
    for: z.literal('approval'),
    gate: z.enum(GATE_NAMES),
    planDigest: z.string(),
    missing: z.array(z.string()),
    approved: z.array(attested),
    until: z.number().optional(),
    again: z.string().optional(),
  }),
  z.object({
    for: z.literal('decision'),
    step: z.string(),
    parkingNo: z.int(),
    code: z.string(),
    message: z.string(),
    observed: z.string().optional(),
    needed: z.string().optional(),
    next: z.string().optional(),
    choices: z.array(z.object({ action: decision, effect: z.string(), needsTwo: z.boolean().optional() })),
    decidedOnce: z.object({ action: decision, by: attested }).optional(),
  }),
]);
export type ApprovalWait = Extract<Waiting, { for: 'approval' }>;
export type DecisionWait = Extract<Waiting, { for: 'decision' }>;

const status = z.object({
  namespace: z.string(),
  workflowId: z.string(),
  runId: z.string(),
  runbook: z.string(),
  deployment: z.string(),
  phase: z.string(),
  outcome: z.string().optional(),
  planText: z.string().optional(),
  planDigest: z.string().optional(),
  waiting: z.array(z.unknown()),
  findings: z.array(finding),
});

/** What `runbook status --json` adds around the status. */
const view = z.object({ workflowId: z.string(), state: z.string(), status: z.unknown().optional() });

/** An open run, in lines that can be shown; the text of its plan is as it came. */
export interface ShownRun extends Omit<z.infer<typeof status>, 'waiting'> {
  readonly waiting: readonly (ApprovalWait | DecisionWait)[];
}

/**
 * Reads the status of an open run: the answer of its query `status`, or the output of `runbook status --json`.
 *
 * @throws RunbookError `INVALID_INPUT` if it is neither; `NOT_FOUND` if the run has ended; `REPORT_UNAVAILABLE` if no worker
 *   answered
 */
export function readRun(given: unknown): ShownRun {
  const found: unknown = Array.isArray(given) && given.length === 1 ? given[0] : given;
  const around = view.safeParse(found).data;
  if (around !== undefined && around.state !== 'running') throw hasEnded(around.workflowId, around.state);
  if (around !== undefined && around.status === undefined)
    throw new RunbookError('REPORT_UNAVAILABLE', 'No worker answers for this run.', {
      needed: 'a worker, which reports what the run waits for',
      next: 'Tell the operators. Then look again.',
    });
  const { data } = status.safeParse(around?.status ?? found);
  if (data === undefined)
    throw new RunbookError('INVALID_INPUT', 'This is not the status of a run, or this page is too old to read it.', {
      needed: 'the answer of the query "status", or the output of "runbook status --json"',
      next: 'Copy it again, completely. If that does not help, get the current page, or use the terminal.',
    });
  if (data.outcome !== undefined) throw hasEnded(data.workflowId, data.outcome);
  return {
    ...inLines(data),
    // The exact text is signed.
    planText: data.planText,
    // Other kinds need no statement. The schema has the members of these two.
    waiting: inLines(data.waiting).flatMap((each) => (waits.safeParse(each).data as ApprovalWait | DecisionWait) ?? []),
  };
}

function hasEnded(workflowId: string, how: string): RunbookError {
  return new RunbookError('NOT_FOUND', 'This run has ended. Nothing was sent.', {
    observed: `${workflowId}: ${how}`,
    needed: 'an open run',
    next: `There is nothing left for you to do. To see what it did: ${shellLine('runbook', 'report', workflowId)}`,
  });
}
