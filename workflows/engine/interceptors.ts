import type { TimelineStep } from '../../src/contracts/run-status';
import { stepNumber } from '../../src/moves/steps';
import {
  ActivityFailure,
  ApplicationFailure,
  AsyncLocalStorage,
  defaultPayloadConverter,
  isCancellation,
  workflowInfo,
} from '@temporalio/workflow';
import type {
  ActivityInput,
  Next,
  WorkflowInterceptors,
  WorkflowInternalsInterceptor,
  WorkflowOutboundCallsInterceptor,
} from '@temporalio/workflow';
import type { Finding, StepContext } from '../../src/contracts/run-facts';
import { MOST_RECORD, RECORD_WORKFLOW } from '../../src/contracts/record';
import { withinBounds } from '../../src/contracts/signals';
import type { ActivityRecord, Served, ShownFailure, StepPosition } from '../../src/report/run-record';
import { fieldsOf, listOf, shownError } from '../../src/report/run-record';
import { failureFacts } from './failures';

/** Which step activities belong to, and the run that keeps what they were given and gave. */
interface StepScope {
  readonly state: {
    readonly activities: ActivityLog;
    readonly acknowledgedRunId: string | undefined;
    placeOf(name: string): Pick<TimelineStep, 'planned' | 'unforeseen'>;
  };
  readonly step: StepPosition;
}

const scopes = new AsyncLocalStorage<StepScope>();

/**
 * Runs `body`. All its activities belong to this step; number 0 is not shown in the timeline. Handlers of signals and updates are
 * outside the step.
 */
export function inStep<T>(state: StepScope['state'], step: StepPosition, body: () => Promise<T>): Promise<T> {
  return scopes.run({ state, step }, body);
}

/** Passes its step to each activity, as summary and in the header, and records what came of it. */
class StepInterceptor implements WorkflowOutboundCallsInterceptor {
  async scheduleActivity(
    input: ActivityInput,
    next: Next<WorkflowOutboundCallsInterceptor, 'scheduleActivity'>,
  ): Promise<unknown> {
    const scope = scopes.getStore();
    // An activity with its own summary belongs to no step, for example a notification that a step causes.
    if (scope === undefined || input.options.summary !== undefined) return withoutServed(await next(input)).result;
    const { state, step } = scope;
    const { name, number, attempt } = step;
    const { originalExecutionRunId: originalRunId } = workflowInfo();
    const context: StepContext = { name, number, attempt, originalRunId, acknowledgedRunId: state.acknowledgedRunId };
    return state.activities.note(input.activityType, step, input.args[0], () =>
      next({
        ...input,
        options: { ...input.options, summary: `${stepNumber({ number, ...state.placeOf(name) })}${name}` },
        headers: { ...input.headers, step: defaultPayloadConverter.toPayload(context) },
      }),
    );
  }
}

/** Prefix of names that the SDK reserves. */
const RESERVED = '__temporal_';

/**
 * Receives what people send before the SDK decodes it. At a signal with a reserved name, the SDK throws before any handler gets
 * it, and would fail every task of the run for good. Under another name it is refused like any other unknown signal.
 */
const arrivals: WorkflowInternalsInterceptor = {
  activate: (input, next) => {
    for (const { signalWorkflow: signal, doUpdate: update } of input.activation.jobs ?? []) {
      if (signal?.signalName?.startsWith(RESERVED)) signal.signalName = signal.signalName.replace('__', '');
      // Workers put several entries of a record at once.
      const most = workflowInfo().workflowType === RECORD_WORKFLOW ? MOST_RECORD : undefined;
      for (const sent of [signal, update]) if (sent?.input) sent.input = withinBounds(sent.input, most);
    }
    next(input);
  },
};

/** A memo replaces the one before it and costs an event: of those that one workflow task wrote, only the last is sent. */
const lastMemo: WorkflowInternalsInterceptor = {
  concludeActivation: (input, next) => {
    const { commands } = next(input);
    const last = commands.findLast((command) => command.modifyWorkflowProperties);
    return { commands: commands.filter((command) => command === last || !command.modifyWorkflowProperties) };
  },
};

/** The SDK finds it under this name, in the modules that are configured for the bundle. */
export const interceptors = (): WorkflowInterceptors => ({
  outbound: [new StepInterceptor()],
  internals: [arrivals, lastMemo],
});

type Changing = { -readonly [K in keyof ActivityRecord]: ActivityRecord[K] };

/** Input and result of the activities of a run's steps, in the order in which they were ordered. */
export class ActivityLog {
  readonly records: ActivityRecord[] = [];

  /** @param found - receives the findings of an activity */
  constructor(private readonly found: (findings: readonly Finding[]) => void) {}

  /** Orders an activity and records what came of it. */
  async note(type: string, step: StepPosition, input: unknown, order: () => Promise<unknown>): Promise<unknown> {
    const { name, number, attempt } = step;
    const record: Changing = {
      ...{ type, input: fieldsOf(input), step: { name, number, attempt } },
      ...{ scheduledAt: Date.now(), state: 'running', tries: 1, workerLost: false, result: {} },
    };
    this.records.push(record);
    try {
      const answer = await order();
      const { served, result } = withoutServed(answer);
      close(record, 'completed', served);
      record.result = fieldsOf(result);
      this.found(listOf(record.result['findings']) as readonly Finding[]);
      return result;
    } catch (error) {
      close(record, isCancellation(error) ? 'cancelled' : 'failed', servedOf(error));
      const failure = failureOf(error);
      if (failure) record.failure = failure;
      throw error;
    }
  }
}

/** A result without what the worker measured. */
function withoutServed(answer: unknown): { readonly result: unknown; readonly served?: Served } {
  const { served, ...result } = fieldsOf(answer) as { readonly served?: Served };
  return served === undefined ? { result: answer } : { result, served };
}

/** The worker's clock may differ from the server's, so what it measured is clamped to the run's own times. */
function close(record: Changing, state: ActivityRecord['state'], served?: Served): void {
  const now = Date.now();
  const within = (at: number) => Math.min(Math.max(at, record.scheduledAt), now);
  record.state = state;
  record.closedAt = served ? within(served.to) : now;
  if (!served) return;
  record.startedAt = within(served.from);
  record.tries = served.tries;
  record.workerLost = served.workerLost === true;
}

/** It is in the details after the facts of the failure, as it is in a result. */
function servedOf(error: unknown): Served | undefined {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  const details = cause instanceof ApplicationFailure ? cause.details : undefined;
  return fieldsOf(details?.[1])['served'] as Served | undefined;
}

function failureOf(error: unknown): ShownFailure | undefined {
  const facts = failureFacts(error);
  return facts && { ...shownError(facts.code, facts.message), outcomeKnown: facts.outcomeKnown };
}
