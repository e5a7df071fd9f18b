import type { StepCalls } from './activity-calls';
import type { FailureFacts } from './failures';
import type { Choice } from './parking';

/** One more thing that people may decide about a failure, and that is then done before the step is run again. */
export interface Remedy {
  /** Under which name the step is parked: what a decision names. */
  readonly step: string;
  readonly choice: Choice;
  readonly carryOut: (call: StepCalls) => Promise<void>;
}

/** What a step may be told beside its name and body. */
export interface StepOptions<T> {
  /** What was observed, in a few words, for the timeline. */
  readonly note?: (result: T) => string | undefined;
  /** Choices beside `retry`, where the step parks; `abort` alone where nothing is given. */
  readonly choices?: readonly Choice[];
  /** Failures that the runbook itself deals with: the step ends as failed and the error is thrown on. */
  readonly leaveToRunbook?: (failure: FailureFacts) => boolean;
  /** What may be decided beside `choices`, for failures that have a remedy. */
  readonly remedy?: (failure: FailureFacts) => Remedy | undefined;
  /** Skipping it counts only when a second, different person decides it too. */
  readonly skipNeedsTwo?: boolean;
}
