import {
  ActivityFailure,
  ApplicationFailure,
  CancelledFailure,
  TimeoutFailure,
  isCancellation,
} from '@temporalio/workflow';
import type { Finding } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { escapeUntrusted } from '../../src/contracts/words';

/** What is known about a failed step. */
export interface FailureFacts {
  readonly code: string;
  readonly message: string;
  readonly observed?: string;
  readonly needed?: string;
  readonly next?: string;
  readonly cluster?: string;
  /** The exact subject, if decisions depend on it. */
  readonly about?: string;
  /** What else people must know. */
  readonly findings?: readonly Finding[];
  /** Whether the effect of the last call is known. */
  readonly outcomeKnown: boolean;
}

/** The run was told to stop: it cleans up and completes as `aborted`. */
export class RunStopped extends Error {
  constructor(
    readonly by: string,
    readonly reason: string,
  ) {
    super(`stopped by ${escapeUntrusted(by)}: ${escapeUntrusted(reason)}`);
    this.name = 'RunStopped';
  }
}

/** A failover takes the run over: it becomes that failover, in the same execution. */
export class TakenOver extends RunStopped {
  constructor(
    readonly input: InputOf<'drFailover'>,
    by: string,
  ) {
    super(by, `taken over by a failover: ${escapeUntrusted(input.reason)}`);
    this.name = 'TakenOver';
  }
}

/** A person chose what to do with an outage that was interrupted or stuck. */
export class OutageDecision extends Error {
  constructor(readonly choice: 'promote-secondary' | 'promote-back' | 'leave') {
    super(`decided: ${choice}`);
    this.name = 'OutageDecision';
  }
}

/** A step failed, and the runbook handles the failure itself. */
export class StepFailed extends Error {
  constructor(
    readonly step: string,
    readonly failure: FailureFacts,
  ) {
    super(`${step}: ${failure.code}`);
    this.name = 'StepFailed';
  }
}

/** The facts of what an activity or a step body threw; undefined if it is not a failure of the step. */
export function failureFacts(error: unknown): FailureFacts | undefined {
  if (isCancellation(error)) return undefined;
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) {
    const { message, type, details } = cause;
    // Not one of ours, or incomplete: nothing vouches for what the last call did.
    const { outcomeKnown = false, ...facts } = (details?.[0] ?? {}) as Partial<FailureFacts>;
    const { observed, needed, next, cluster, about, findings } = facts;
    return { code: type ?? 'INTERNAL', message, observed, needed, next, cluster, about, findings, outcomeKnown };
  }
  if (cause instanceof TimeoutFailure) {
    const waitedForWorker = cause.timeoutType === 'SCHEDULE_TO_START';
    return {
      code: waitedForWorker ? 'WORKER_UNREACHABLE' : 'ACTIVITY_TIMEOUT',
      message: waitedForWorker
        ? 'No worker that holds the keys took the task in time.'
        : 'The activity did not finish in time. The outcome of its last call is unknown.',
      next: 'Check that a worker is running, then retry. The activity reads the state before it acts.',
      outcomeKnown: waitedForWorker,
    };
  }
  return undefined;
}

/** A failure that a step body raises itself. It parks the step like a failed activity. */
export function stepFailure(
  code: string,
  message: string,
  details: Omit<FailureFacts, 'code' | 'message' | 'outcomeKnown'> = {},
): ApplicationFailure {
  return ApplicationFailure.create({
    type: code,
    message,
    nonRetryable: true,
    details: [{ ...details, outcomeKnown: true }],
  });
}

/** Whether the error means that this run was cancelled, not that something failed. */
export function isStop(error: unknown): boolean {
  return error instanceof RunStopped || error instanceof CancelledFailure || isCancellation(error);
}

/** Runs branches in parallel and waits for all of them, even if one fails, so that none keeps running unseen. */
export async function inParallel<const T extends readonly unknown[]>(branches: T) {
  await Promise.allSettled(branches);
  return Promise.all(branches);
}

/** Inside an outage, a step that only reads waits for nobody. What it could not read is not proven. */
export async function readInOutage<T>(
  step: Promise<T>,
  failed: (failure: FailureFacts) => void = () => undefined,
): Promise<T | undefined> {
  try {
    return await step;
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error;
    failed(error.failure);
    return undefined;
  }
}
