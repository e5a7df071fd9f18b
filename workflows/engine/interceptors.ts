import { AsyncLocalStorage, defaultPayloadConverter } from '@temporalio/workflow';
import type { ActivityInput, Next, WorkflowInterceptors, WorkflowOutboundCallsInterceptor } from '@temporalio/workflow';
import type { StepContext } from '../../src/contracts/run-facts';

/** What the activities of a step are shown as, and told. */
interface StepScope {
  /** Shown beside the activity in the Web UI's timeline; costs no event. */
  readonly summary: string;
  /** Asked for each activity: it drains the facts since the one before. */
  readonly context: () => StepContext;
}

const scopes = new AsyncLocalStorage<StepScope>();

/** Runs `body`, of which every activity belongs to this step. Handlers of signals and updates are outside of it. */
export function inStep<T>(step: StepScope, body: () => Promise<T>): Promise<T> {
  return scopes.run(step, body);
}

/** Tells each activity of a step which one it serves: as its summary for people, and in the header for the worker. */
class StepInterceptor implements WorkflowOutboundCallsInterceptor {
  async scheduleActivity(
    input: ActivityInput,
    next: Next<WorkflowOutboundCallsInterceptor, 'scheduleActivity'>,
  ): Promise<unknown> {
    const step = scopes.getStore();
    // What has a summary of its own belongs to no step, such as a notification that a step gives rise to.
    if (step === undefined || input.options.summary !== undefined) return next(input);
    return next({
      ...input,
      options: { ...input.options, summary: step.summary },
      headers: { ...input.headers, step: defaultPayloadConverter.toPayload(step.context()) },
    });
  }
}

/** Found by the SDK under this name, in the modules that the bundle was told. */
export const interceptors = (): WorkflowInterceptors => ({ outbound: [new StepInterceptor()] });
