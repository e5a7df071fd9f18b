import { AsyncLocalStorage } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';
import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import type { Context } from '@temporalio/activity';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { Client } from '@temporalio/client';
import type { ActivityExecuteInput, ActivityInterceptorsFactory } from '@temporalio/worker';
import { z } from 'zod';
import type { BetweenClusters, OnCluster } from '../src/contracts/activities';
import { changesSomething } from '../src/contracts/activities';
import type { Log } from '../src/contracts/log';
import { payloadConverter } from '../src/contracts/payload-converter';
import { RunbookError, isRunbookError } from '../src/errors';
import type { Inventory } from '../src/inventory';
import { redact } from '../src/keys';
import type { RunContext, KeyRecords, SealKeyring, SigningKey } from '../src/keys';
import { Clusters } from './clusters';
import { TIMING } from './read-act-confirm';
import type { Timing } from './read-act-confirm';
import { checkInput } from './inputs';
import type { Records } from './record';

/**
 * Three within the heartbeat time-out: the SDK holds none back for longer than half a second. Twice as long without one is a
 * standstill: another attempt begins later still, after the time-out and the first retry interval.
 */
const HEARTBEATS = 3;
const HEARTBEAT_MS = 1_500;

/** What the workflow's interceptor writes into the header of each activity of a step, as far as it is read here. */
const STEP = z.looseObject({
  number: z.int(),
  attempt: z.int(),
  originalRunId: z.string(),
  acknowledgedRunId: z.string().optional(),
});
type StepHeader = z.infer<typeof STEP>;

/**
 * Whether a request may have been sent whose effect is not known: its answer was lost in this attempt, or an attempt
 * before this one may have sent it and died. While set, no error that leaves the activity says that the outcome is known.
 */
interface OutcomeDoubt {
  mayHaveSent: boolean;
  /** When the last such request can have been sent, ms of `performance.now()`: a step of the system's time ends no doubt. */
  since: number;
}

/** What the worker gives the activities. Nothing of it passes through Temporal. */
export interface ActivityDependencies {
  /** As it is in force now: an attempt of an activity works with one from its beginning to its end. */
  readonly inventory: Inventory;
  /** Why the inventory's file as it is now is not in force; absent where it is. */
  readonly inventoryRefusal?: string | undefined;
  /** The ceremony keys of this host. */
  readonly keyRecords: KeyRecords;
  readonly sealKeyring: SealKeyring;
  /** Signs invitations; holders pin its public half. */
  readonly signingKey: SigningKey;
  /** Over the worker's own connection: reads the run's own history and describes other runs. */
  readonly temporal: Client;
  /** Where reports of ended runs are kept as files too. */
  readonly reportDirectory: string | undefined;
  /** What outlives runs, of each deployment. */
  readonly records: Records;
  /** For tests. */
  readonly timing?: Timing | undefined;
  readonly log: Log;
}

/** One attempt of an activity. */
export interface Execution {
  /** Aborted when the activity is cancelled or its worker stops. */
  readonly signal: AbortSignal;
  /** The run in whose name this activity acts, from the activity's own context and never from input. */
  readonly run: RunContext;
  /** The step that it serves; undefined beside the steps, where an activity changes nothing. */
  readonly step: StepHeader | undefined;
  /** Kept by `readActConfirm`, read where an error leaves the activity. */
  readonly doubt: OutcomeDoubt;
  readonly timing: Timing;
  /** Since the activity was scheduled first until this attempt was, ms by the server's clock: budgets count it. */
  readonly spentMs: number;
  /** Shown in the pending activity until it ends. Never holds a secret. */
  progress(text: string): void;
  /** Throws where the activity was cancelled: called right before each changing request. */
  throwIfCancelled(): void;
  /**
   * As {@link throwIfCancelled}, and throws where Temporal gave this attempt up while its process stood still: called right
   * before what no two attempts may do.
   */
  assertCurrentAttempt(): Promise<void>;
  /** Whether another attempt may be at work in the place of this one: then what this one left is for that one to settle. */
  mayBeGivenUp(): Promise<boolean>;
}

/** What an activity works with: its attempt, and what the worker was given. */
export interface ActivityContext extends Execution, WorkerContext {}

/** What all activities of a worker share. */
interface WorkerContext extends ActivityDependencies {
  readonly timing: Timing;
  readonly clusters: Clusters;
}

const executions = new AsyncLocalStorage<ActivityContext>();

/** As {@link currentExecution}; undefined outside of an activity, as in a look from a shell. */
export function executionHere(): ActivityContext | undefined {
  return executions.getStore();
}

/** What the activity works with that is under way here. */
export function currentExecution(): ActivityContext {
  const found = executionHere();
  if (found === undefined) throw new TypeError('not inside an activity');
  return found;
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
 * What every activity is wrapped in, for the worker: it checks the input, refuses to change anything after a reset until an
 * operator acknowledged it, heartbeats from a timer so that a dead worker is noticed within seconds, and turns every error
 * into an ApplicationFailure of the project's codes, redacted.
 */
export function interceptActivities(
  dependencies: ActivityDependencies,
  clusters = new Clusters(dependencies),
): ActivityInterceptorsFactory {
  // Copied for each attempt: the inventory may be another one by then.
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
    const step = stepOf(input.headers['step']);
    checkInput(info.activityType, input.args[0]);
    if (changes) refuseAfterReset(run, step);
    return await heartbeating(context, { ...given, run, step, doubt }, (execution) =>
      executions.run(execution, activity),
    );
  } catch (error) {
    if (signal.aborted && isCancellationOf(error)) throw new CancelledFailure('cancelled');
    // Also what was refused before it began: an attempt before this one may have begun.
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
  // One activity reads many nodes at once, each request listening for its own cancellation.
  setMaxListeners(0, signal);
  let progress = '';
  const heartbeatMs = Math.min(HEARTBEAT_MS, (info.heartbeatTimeoutMs ?? Infinity) / HEARTBEATS);
  const givenUp = new AttemptFence(context, 2 * heartbeatMs);
  const timer = setInterval(() => {
    givenUp.turn();
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
      assertCurrentAttempt: () => givenUp.throwIfSo(),
      mayBeGivenUp: () => givenUp.mayBeReplaced(),
    });
  } finally {
    clearInterval(timer);
  }
}

/** @throws RunbookError NOT_APPROVED for an activity that was started alone: nothing could be proven in its history */
function runOf({ info }: Context): RunContext {
  const { workflowExecution: workflow, workflowNamespace: ns } = info;
  if (workflow !== undefined && ns !== undefined) return { ns, wid: workflow.workflowId, rid: workflow.runId };
  throw new RunbookError('NOT_APPROVED', 'This activity was started on its own: it does not belong to a run.', {
    observed: 'no workflow execution',
    needed: 'an activity of a run',
    next: 'Start the runbook instead. The account that started this activity has more rights in this namespace than anybody needs.',
  });
}

function stepOf(header: ActivityExecuteInput['headers'][string] | undefined): StepHeader | undefined {
  return STEP.safeParse(header && payloadConverter.fromPayload(header)).data;
}

function refuseAfterReset({ rid }: RunContext, step: StepHeader | undefined): void {
  if (step === undefined)
    throw new RunbookError('INVALID_INPUT', 'This activity does not know which step of its run it serves.', {
      observed: 'no step header, or a malformed one',
      needed: 'an activity that a step of a runbook of this version started',
      next: 'Nothing was done. If a run of this program started it, the run and the worker have different versions.',
    });
  const { originalRunId, acknowledgedRunId } = step;
  if (originalRunId === rid || acknowledgedRunId === rid) return;
  throw new RunbookError(
    'RUN_WAS_RESET',
    'This run was reset from an earlier one: it does not know what was done after the reset point.',
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
    message: `A defect in this program (${name}).`,
    nonRetryable: false,
    details: [{ outcomeKnown: false }],
  });
}

function shown(text: string | undefined): string | undefined {
  return text === undefined ? undefined : redact(text);
}

/** How long Temporal may take to say whether an attempt still counts. */
const ASK_MS = 3_000;

/** `replaced`: another attempt may be at work. `run-over`: nobody is. */
type Standing = 'counts' | 'replaced' | 'run-over';

/**
 * Whether an attempt of an activity still counts. While a process stands still (frozen, its machine paused, its event loop
 * blocked) no heartbeat leaves it: Temporal gives the attempt up and begins another. When it wakes it must not go on
 * beside that one. Only after a standstill Temporal is asked; without one a check costs nothing.
 *
 * Two clocks, because each misses something: the monotonic one does not count while the machine sleeps, the other one may
 * be set.
 */
class AttemptFence {
  #monotonic = performance.now();
  #wall = Date.now();
  #stoodStill = false;

  /** @param stillMs - so long without {@link turn} is a standstill */
  constructor(
    private readonly context: Context,
    private readonly stillMs: number,
  ) {}

  /** Called again and again by a timer of this process. */
  turn(): void {
    const monotonic = performance.now();
    const wall = Date.now();
    this.#stoodStill ||= Math.max(monotonic - this.#monotonic, wall - this.#wall) > this.stillMs;
    this.#monotonic = monotonic;
    this.#wall = wall;
  }

  /**
   * @throws CancelledFailure where this attempt was cancelled, or does not count any more
   * @throws RunbookError TEMPORAL_UNAVAILABLE where nobody can say whether it does
   */
  async throwIfSo(): Promise<void> {
    if (this.context.cancellationSignal.aborted) throw new CancelledFailure('cancelled before the call was sent');
    this.turn();
    while (this.#stoodStill) {
      // A standstill while Temporal is asked may outlast its answer: then it is asked again.
      this.#stoodStill = false;
      const standing = await this.#ask().catch((error: unknown): never => {
        this.#stoodStill = true;
        throw error;
      });
      if (standing !== 'counts') {
        this.#stoodStill = true;
        throw new CancelledFailure('replaced or ended by Temporal while the worker was stalled');
      }
      this.turn();
    }
  }

  /** Whether another attempt may be at work in the place of this one; so too where Temporal does not answer. */
  async mayBeReplaced(): Promise<boolean> {
    this.turn();
    const { notFound = false, timedOut = false, reset = false } = this.context.cancellationDetails ?? {};
    if (!this.#stoodStill && !notFound && !timedOut && !reset) return false;
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
      return mine?.attempt === info.attempt ? 'counts' : 'replaced';
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
