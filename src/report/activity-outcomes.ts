import type { temporal } from '@temporalio/proto';
import { readHistory } from './history-events';
import { clusterOf } from './steps';

/** What a history says of one activity, for those who decide by it. */
interface ActivityOutcome {
  readonly type: string;
  readonly cluster?: string;
  /** `failed` includes every time-out. */
  readonly outcome: 'completed' | 'failed' | 'cancelled' | 'running';
  /** Of a failed activity: whether it is certain that its call had no effect, or that its effect is known. */
  readonly outcomeKnown?: boolean;
}

/**
 * The activities of a run in the order in which they were scheduled.
 * @param history all events of the run, from the first
 * @throws nothing
 */
export function activityRecords(history: temporal.api.history.v1.IHistory): readonly ActivityOutcome[] {
  return readHistory(history).activities.map((activity) => {
    const cluster = clusterOf(activity);
    return {
      type: activity.type,
      ...(cluster !== undefined && { cluster }),
      outcome: activity.state,
      ...(activity.state === 'failed' && { outcomeKnown: activity.failure?.outcomeKnown === true }),
    };
  });
}
