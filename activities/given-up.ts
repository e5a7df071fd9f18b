import { CancelledFailure } from '@temporalio/activity';
import type { Context } from '@temporalio/activity';
import { WorkflowNotFoundError } from '@temporalio/client';
import { RunbookError } from '../src/errors';

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
export class AttemptFence {
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
        throw new CancelledFailure('given up by Temporal while the worker stood still');
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
      throw new RunbookError('TEMPORAL_UNAVAILABLE', 'Whether this attempt still counts cannot be found out.', {
        retryable: true,
        observed: `the worker stood still, and Temporal does not answer (${error instanceof Error ? error.name : 'no error'})`,
        needed: 'the description of the run, which names the attempt that counts',
        next: 'Nothing more was sent to the cluster. Look at Temporal, then retry.',
      });
    }
  }
}
