import { AsyncLocalStorage } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';
import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import type { Context } from '@temporalio/activity';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { ActivityExecuteInput, ActivityInterceptorsFactory } from '@temporalio/worker';
import { z } from 'zod';
import type { BetweenClusters, OnCluster } from '../src/contracts/activities';
import { changesSomething } from '../src/contracts/activities';
import { payloadConverter } from '../src/contracts/payload-converter';
import { RunbookError, isRunbookError } from '../src/errors';
import { redact } from '../src/keys';
import type { RunContext } from '../src/keys';
import { Clusters } from './clusters';
import { checkInput } from './inputs';
import type { Timing } from './timing';
import { TIMING } from './timing';
import type { ActivityDependencies } from './dependencies';

/**
 * Three heartbeats fit into the heartbeat timeout: the SDK delays none by more than half a second. Twice the interval
 * without a heartbeat counts as a stall. Another attempt begins even later: after the timeout and the first retry
 * interval.
 */
const HEARTBEATS = 3;
const HEARTBEAT_MS = 1_500;

/** The part of the header that is read here. The workflow's interceptor writes it for each activity of a step. */
const STEP = z.looseObject({
  number: z.int(),
  attempt: z.int(),
  originalRunId: z.string(),
  acknowledgedRunId: z.string().optional(),
});
type StepHeader = z.infer<typeof STEP>;

/**
 * Whether a request with an unknown effect may have been sent: its answer was lost in this attempt, or an earlier
 * attempt may have sent it and died. While this is set, no error that leaves the activity claims that the outcome is
 * known.
 */
interface OutcomeDoubt {
  mayHaveSent: boolean;
  /** The latest time at which such a request can have been sent, ms of `performance.now()`: immune to clock changes. */
  since: number;
}

/** One attempt of an activity. */
export interface Execution {
  /** Aborted when the activity is cancelled or its worker stops. */
  readonly signal: AbortSignal;
  /** The run that this activity acts for. Taken from the activity's context, never from its input. */
  readonly run: RunContext;
  /** The step that the activity belongs to; undefined outside of steps, where an activity changes nothing. */
  readonly step: StepHeader | undefined;
  /** Written by `readActConfirm`, read when an error leaves the activity. */
  readonly doubt: OutcomeDoubt;
  readonly timing: Timing;
  /** From the first scheduling of the activity to that of this attempt, ms of server time. Counts against budgets. */
  readonly spentMs: number;
  /** Shown in the pending activity until it ends. Never holds a secret. */
  progress(text: string): void;
  /** Throws if the activity was cancelled. Called right before each changing request. */
  throwIfCancelled(): void;
  /**
   * Like {@link throwIfCancelled}. Also throws if Temporal abandoned this attempt while its process was stalled. Called
   * right before actions that no two attempts may take.
   */
  assertCurrentAttempt(): Promise<void>;
  /** Whether another attempt may have replaced this one. If so, the other attempt settles what this one left behind. */
  mayBeReplaced(): Promise<boolean>;
}

/** What an activity works with: its attempt, and what the worker provides. */
export interface ActivityContext extends Execution, WorkerContext {}

/** What all activities of a worker share. */
interface WorkerContext extends ActivityDependencies {
  readonly timing: Timing;
  readonly clusters: Clusters;
}

const executions = new AsyncLocalStorage<ActivityContext>();

/** Like {@link currentExecution}; undefined outside of an activity, as in a check from a shell. */
export function currentExecutionIfAny(): ActivityContext | undefined {
  return executions.getStore();
}

/** The context of the activity that is running here. */
export function currentExecution(): ActivityContext {
  const found = currentExecutionIfAny();
  if (found === undefined) throw new TypeError('not inside an activity');
  return found;
}

/**
 * Remembers until the end of an attempt what was made for a key, so that it is made once in each attempt. A failure is
 * not remembered: the next one who asks tries again.
 */
export function oncePerAttempt<T>(): (key: string, make: () => Promise<T>) => Promise<T> {
  const attempts = new WeakMap<ActivityContext, Map<string, Promise<T>>>();
  return (key, make) => {
    const attempt = currentExecution();
    const made = attempts.get(attempt) ?? new Map<string, Promise<T>>();
    attempts.set(attempt, made);
    const known = made.get(key);
    if (known) return known;
    const making = make();
    made.set(key, making);
    making.catch(() => made.delete(key));
    return making;
  };
}

/** What an activity on one cluster works with. */
export function onCluster({ deployment, cluster }: OnCluster) {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { limits } = clusters.deployment(deployment);
  return { execution, clusters, signal, limits, access: clusters.of(deployment, cluster) };
}

/** What an activity between a primary and one of its secondaries works with. */
export function betweenClusters({ deployment, primary, secondary }: BetweenClusters) {
  const { access: source, ...others } = onCluster({ deployment, cluster: primary });
  return { ...others, source, target: others.clusters.of(deployment, secondary) };
}

/**
 * The interceptor around every activity of a worker. It checks the input, refuses changes after a reset until an
 * operator has acknowledged the reset, heartbeats from a timer so that a dead worker is noticed within seconds, and
 * converts every error into a redacted ApplicationFailure with one of the project's codes.
 */
export function interceptActivities(
  dependencies: ActivityDependencies,
  clusters = new Clusters(dependencies),
): ActivityInterceptorsFactory {
  // Copied for each attempt: the inventory may have changed by then.
  return (context) => {
    const given = { ...dependencies, timing: dependencies.timing ?? TIMING, clusters };
    return { inbound: { execute: (input, next) => executeActivity(context, given, input, () => next(input)) } };
  };
}

async function executeActivity(
  context: Context,
  given: WorkerContext,
  input: ActivityExecuteInput,
  activity: () => Promise<unknown>,
): Promise<unknown> {
  const { info, cancellationSignal: signal } = context;
  const changes = changesSomething(info.activityType);
  const doubt = { mayHaveSent: info.attempt > 1, since: performance.now() };
  try {
    const run = runOf(context);
    const { step: header } = input.headers;
    const step = STEP.safeParse(header && payloadConverter.fromPayload(header)).data;
    checkInput(info.activityType, input.args[0]);
    if (changes) refuseAfterReset(run, step);
    return await heartbeating(context, { ...given, run, step, doubt }, (execution) =>
      executions.run(execution, activity),
    );
  } catch (error) {
    if (signal.aborted && isCancellationOf(error)) throw new CancelledFailure('cancelled');
    // Also if this attempt was refused before it began: an earlier attempt may have begun.
    throw toFailure(
      changes && doubt.mayHaveSent && isRunbookError(error) ? error.with({ outcomeKnown: false }) : error,
    );
  }
}

async function heartbeating<T>(
  context: Context,
  given: WorkerContext & Pick<Execution, 'run' | 'step' | 'doubt'>,
  body: (execution: ActivityContext) => Promise<T>,
): Promise<T> {
  const { info, cancellationSignal: signal } = context;
  // One activity reads many nodes at once, and each request listens for cancellation.
  setMaxListeners(0, signal);
  let progress = '';
  const heartbeatMs = Math.min(HEARTBEAT_MS, (info.heartbeatTimeoutMs ?? Infinity) / HEARTBEATS);
  const fence = new AttemptFence(context, 2 * heartbeatMs);
  const timer = setInterval(() => {
    fence.tick();
    context.heartbeat({ progress });
  }, heartbeatMs);
  try {
    return await body({
      ...given,
      signal,
      spentMs: info.attempt > 1 ? info.currentAttemptScheduledTimestampMs - info.scheduledTimestampMs : 0,
      progress: (text) => {
        progress = redact(text);
      },
      throwIfCancelled: () => {
        if (signal.aborted) throw new CancelledFailure('cancelled before the call was sent');
      },
      assertCurrentAttempt: () => fence.throwIfNotCurrent(),
      mayBeReplaced: () => fence.mayBeReplaced(),
    });
  } finally {
    clearInterval(timer);
  }
}

/** @throws RunbookError NOT_APPROVED for an activity without a run: there is no history that could prove anything */
function runOf({ info }: Context): RunContext {
  const { workflowExecution: workflow, workflowNamespace: ns } = info;
  if (workflow !== undefined && ns !== undefined) return { ns, wid: workflow.workflowId, rid: workflow.runId };
  throw new RunbookError('NOT_APPROVED', 'This activity was started on its own: it does not belong to a run.', {
    observed: 'no workflow execution',
    needed: 'an activity of a run',
    next: 'Start the runbook instead. The account that started this activity has more rights in this namespace than anybody needs.',
  });
}

function refuseAfterReset({ rid }: RunContext, step: StepHeader | undefined): void {
  if (step === undefined)
    throw new RunbookError('INVALID_INPUT', 'This activity was called without the step of its run.', {
      observed: 'no step header, or a malformed one',
      needed: 'an activity that a step of a runbook of this version started',
      next: 'Nothing was done. If a run of this program started it, the run and the worker have different versions.',
    });
  const { originalRunId, acknowledgedRunId } = step;
  if (originalRunId === rid || acknowledgedRunId === rid) return;
  throw new RunbookError(
    'RUN_WAS_RESET',
    'This run was reset from an earlier one: what was done after the reset point is missing from its history.',
    {
      observed: `run ${rid}, reset from ${originalRunId}`,
      needed: 'a decision that acknowledges the reset',
      next: 'Check the state of the deployment, then decide retry: the activity reads the state again before it acts.',
    },
  );
}

function isCancellationOf(error: unknown): boolean {
  return (
    error instanceof CancelledFailure ||
    isRunbookError(error, 'REQUEST_CANCELLED') ||
    // Checked by name: an error of a Node module may come from another realm.
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
  // An unknown error may quote anything: only its name is reported.
  const name = error instanceof Error ? error.name : typeof error;
  return ApplicationFailure.create({
    type: 'INTERNAL',
    message: `A defect in this program (${name}).`,
    nonRetryable: false,
    details: [{ outcomeKnown: false }],
  });
}

function shown(text: string | undefined): string | undefined {
  return text === undefined ? undefined : redact(text);
}

/** How long Temporal may take to answer whether an attempt is still current. */
const ASK_MS = 3_000;

/** `replaced`: another attempt may be at work. `run-over`: no attempt is. */
type Standing = 'current' | 'replaced' | 'run-over';

/**
 * Whether an attempt of an activity is still current. A stalled process (frozen, its machine paused, its event loop
 * blocked) sends no heartbeats: Temporal abandons the attempt and begins another. When the process wakes up, it must
 * not continue beside the new attempt. Temporal is asked only after a stall; without one, a check costs nothing.
 *
 * Two clocks are read because each misses something: the monotonic clock stops while the machine sleeps, and the wall
 * clock may be set.
 */
class AttemptFence {
  #monotonic = performance.now();
  #wall = Date.now();
  #stalled = false;

  /** @param stallMs - this long without {@link tick} counts as a stall */
  constructor(
    private readonly context: Context,
    private readonly stallMs: number,
  ) {}

  /** Called at intervals by a timer of this process. */
  tick(): void {
    const monotonic = performance.now();
    const wall = Date.now();
    this.#stalled ||= Math.max(monotonic - this.#monotonic, wall - this.#wall) > this.stallMs;
    this.#monotonic = monotonic;
    this.#wall = wall;
  }

  /**
   * @throws CancelledFailure if this attempt was cancelled or is no longer current
   * @throws RunbookError TEMPORAL_UNAVAILABLE if it cannot be determined whether it is current
   */
  async throwIfNotCurrent(): Promise<void> {
    if (this.context.cancellationSignal.aborted) throw new CancelledFailure('cancelled before the call was sent');
    this.tick();
    while (this.#stalled) {
      // A stall while Temporal is asked may make its answer obsolete: then it is asked again.
      this.#stalled = false;
      const standing = await this.#ask().catch((error: unknown): never => {
        this.#stalled = true;
        throw error;
      });
      if (standing !== 'current') {
        this.#stalled = true;
        throw new CancelledFailure('replaced or ended by Temporal while the worker was stalled');
      }
      this.tick();
    }
  }

  /** Whether another attempt may have replaced this one; also true if Temporal does not answer. */
  async mayBeReplaced(): Promise<boolean> {
    this.tick();
    const { notFound = false, timedOut = false, reset = false } = this.context.cancellationDetails ?? {};
    if (!this.#stalled && !notFound && !timedOut && !reset) return false;
    return this.#ask().then(
      (standing) => standing === 'replaced',
      () => true,
    );
  }

  async #ask(): Promise<Standing> {
    const { info } = this.context;
    const { workflowId = '', runId } = info.workflowExecution ?? {};
    try {
      const { client } = this.context;
      const { status, raw } = await client.withDeadline(Date.now() + ASK_MS, () =>
        client.workflow.getHandle(workflowId, runId).describe(),
      );
      if (status.name !== 'RUNNING') return 'run-over';
      const mine = raw.pendingActivities?.find(({ activityId }) => activityId === info.activityId);
      return mine?.attempt === info.attempt ? 'current' : 'replaced';
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return 'run-over';
      throw new RunbookError('TEMPORAL_UNAVAILABLE', 'It cannot be determined whether this attempt is still current.', {
        retryable: true,
        observed: `the worker was stalled, and Temporal does not answer (${error instanceof Error ? error.name : 'no error'})`,
        needed: 'the description of the run, which shows the current attempt',
        next: 'Nothing more was sent to the cluster. Check Temporal, then retry.',
      });
    }
  }
}
