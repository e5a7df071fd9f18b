import { AsyncLocalStorage, defaultPayloadConverter } from '@temporalio/workflow';
import type { ActivityInput, Next, WorkflowInterceptors, WorkflowOutboundCallsInterceptor } from '@temporalio/workflow';
import type { StepPosition } from '../../src/report/run-record';
import { withoutServed } from './activity-log';
import type { RunState } from './run-state';

/** Which step activities belong to, and the run that keeps what they were given and gave. */
interface StepScope {
  readonly state: Pick<RunState, 'activities' | 'stepContext'>;
  readonly step: StepPosition;
}

const scopes = new AsyncLocalStorage<StepScope>();

/**
 * Runs `body`, of which every activity belongs to this step; number 0 is none of the timeline. Handlers of signals and
 * updates are outside of it.
 */
export function inStep<T>(state: StepScope['state'], step: StepPosition, body: () => Promise<T>): Promise<T> {
  return scopes.run({ state, step }, body);
}

/** Tells each activity of a step which one it serves, as its summary and in the header; and keeps what came of it. */
class StepInterceptor implements WorkflowOutboundCallsInterceptor {
  async scheduleActivity(
    input: ActivityInput,
    next: Next<WorkflowOutboundCallsInterceptor, 'scheduleActivity'>,
  ): Promise<unknown> {
    const scope = scopes.getStore();
    // What has a summary of its own belongs to no step, such as a notification that a step gives rise to.
    if (scope === undefined || input.options.summary !== undefined) return withoutServed(await next(input)).result;
    const { state, step } = scope;
    return state.activities.note(input.activityType, step, input.args[0], () =>
      next({
        ...input,
        options: { ...input.options, summary: step.number === 0 ? step.name : `${step.number} ${step.name}` },
        headers: { ...input.headers, step: defaultPayloadConverter.toPayload(state.stepContext(step)) },
      }),
    );
  }
}

/** Found by the SDK under this name, in the modules that the bundle was told. */
export const interceptors = (): WorkflowInterceptors => ({ outbound: [new StepInterceptor()] });
