import { setMaxListeners } from 'node:events';
import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity';
import type { StepContext } from '../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../src/errors';
import { redact } from '../src/keys';
import type { RunContext } from '../src/keys';
import { GivenUp } from './given-up';
import { checkInput } from './inputs';

const HEARTBEAT_MS = 1_500;
/** Another attempt begins 9 s after the last heartbeat that arrived, and the SDK holds one back for up to 4 s. */
const STANDSTILL_MS = 2 * HEARTBEAT_MS;

/**
 * Whether a request may have been sent whose effect is not known: its answer was lost in this attempt, or an attempt
 * before this one may have sent it and died. While set, no error that leaves the activity says that the outcome is known.
 */
export interface Doubt {
  mayHaveSent: boolean;
  /** When the last such request can have been sent, ms of `performance.now()`: a step of the system's time ends no doubt. */
  since: number;
}

/** What an activity's body is given. */
export interface Execution {
  /** Aborted when the activity is cancelled or its worker stops. */
  readonly signal: AbortSignal;
  /** The run in whose name this activity acts, from the activity's own context and never from input. */
  readonly run: RunContext;
  /** Kept by `readActConfirm`, read by {@link executeChange}. */
  readonly doubt: Doubt;
  /** Shown in the pending activity until it ends. Never holds a secret. */
  progress(text: string): void;
  /** Throws where the activity was cancelled: called right before each changing request. */
  throwIfCancelled(): void;
  /**
   * As {@link throwIfCancelled}, and throws where Temporal gave this attempt up while its process stood still: called right
   * before what no two attempts may do.
   */
  throwIfGivenUp(): Promise<void>;
  /** Whether another attempt may be at work in the place of this one: then what this one left is for that one to settle. */
  mayBeGivenUp(): Promise<boolean>;
}

/**
 * Wraps the body of an activity: heartbeats from a timer so that a dead worker is noticed within seconds, and turns
 * every error into an ApplicationFailure of the project's codes, redacted.
 */
export function execute<I extends object, R>(
  body: (input: I, execution: Execution) => Promise<R>,
): (input: I) => Promise<R> {
  return async (input) => {
    const context = Context.current();
    const { info } = context;
    const { workflowExecution: workflow, workflowNamespace: ns } = info;
    if (workflow === undefined || ns === undefined) throw toFailure(startedAlone());
    try {
      checkInput(info.activityType, input);
    } catch (error) {
      throw toFailure(error);
    }
    // One activity reads many nodes at once, each request listening for its own cancellation.
    setMaxListeners(0, context.cancellationSignal);
    let progress = '';
    const givenUp = new GivenUp(context, STANDSTILL_MS);
    const beat = () => {
      givenUp.turn();
      context.heartbeat({ progress });
    };
    const timer = setInterval(beat, HEARTBEAT_MS);
    const execution: Execution = {
      signal: context.cancellationSignal,
      run: { ns, wid: workflow.workflowId, rid: workflow.runId },
      doubt: { mayHaveSent: info.attempt > 1, since: performance.now() },
      progress: (text) => {
        progress = redact(text);
      },
      throwIfCancelled: () => {
        if (context.cancellationSignal.aborted) throw new CancelledFailure('cancelled before the call was sent');
      },
      throwIfGivenUp: () => givenUp.throwIfSo(),
      mayBeGivenUp: () => givenUp.mayBeReplaced(),
    };
    try {
      return await body(input, execution);
    } catch (error) {
      if (context.cancellationSignal.aborted && isCancellationOf(error)) throw new CancelledFailure('cancelled');
      throw toFailure(error);
    } finally {
      clearInterval(timer);
    }
  };
}

/** As {@link execute}, for what changes something: refuses after a reset until an operator acknowledged it. */
export function executeChange<I extends { readonly step: StepContext }, R>(
  body: (input: I, execution: Execution) => Promise<R>,
): (input: I) => Promise<R> {
  return execute((input: I, execution) => {
    const { originalRunId, acknowledgedRunId } = input.step;
    if (originalRunId !== execution.run.rid && acknowledgedRunId !== execution.run.rid) {
      throw new RunbookError(
        'RUN_WAS_RESET',
        'This run is a reset of an earlier one: what was done since then is not in its memory.',
        {
          observed: `run ${execution.run.rid}, reset from ${originalRunId}`,
          needed: 'a decision that acknowledges the reset',
          next: 'Read the state of the deployment, then decide retry: the activity reads the state again before it acts.',
        },
      );
    }
    return body(input, execution).catch((error: unknown) => {
      throw execution.doubt.mayHaveSent && isRunbookError(error) ? error.with({ outcomeKnown: false }) : error;
    });
  });
}

/** Whoever may start activities may start one alone; it has no history in which anything could be proven. */
function startedAlone(): RunbookError {
  return new RunbookError('NOT_APPROVED', 'This activity was started alone: it belongs to no run.', {
    observed: 'no workflow execution',
    needed: 'an activity of a run',
    next: 'Start the runbook. Whoever started this activity may do more in this namespace than anybody needs to.',
  });
}

function isCancellationOf(error: unknown): boolean {
  return (
    error instanceof CancelledFailure ||
    isRunbookError(error, 'REQUEST_CANCELLED') ||
    // By its name: an error of a module of Node may come from another realm.
    (error as { readonly name?: unknown } | undefined)?.name === 'AbortError'
  );
}

/** The one place where an error becomes what Temporal stores. */
export function toFailure(error: unknown): ApplicationFailure | CancelledFailure {
  if (error instanceof ApplicationFailure || error instanceof CancelledFailure) return error;
  if (error instanceof RunbookError) {
    const { observed, needed, next, cluster, about, outcomeKnown, httpStatus } = error;
    const details = {
      observed: shown(observed),
      needed: shown(needed),
      next: shown(next),
      cluster,
      about,
      ...(error.findings.length > 0 && { findings: error.findings }),
      outcomeKnown,
      httpStatus,
    };
    return ApplicationFailure.create({
      type: error.code,
      message: redact(error.message),
      nonRetryable: !error.retryable,
      details: [details],
      ...(error.retryAfterMs === undefined ? {} : { nextRetryDelay: error.retryAfterMs }),
    });
  }
  // An unknown error may quote anything: its name is all that is told.
  const name = error instanceof Error ? error.name : typeof error;
  return ApplicationFailure.create({
    type: 'INTERNAL',
    message: `A defect of this program (${name}).`,
    nonRetryable: false,
    details: [{ outcomeKnown: false }],
  });
}

function shown(text: string | undefined): string | undefined {
  return text === undefined ? undefined : redact(text);
}
