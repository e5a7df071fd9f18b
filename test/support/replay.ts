import { replayRun as replay } from '../../src/worker/workflow-code';
import type { TestRun } from './scenario';
import { workflowBundle } from './workflow-bundle';

/** Replays the history of a run with the current workflows. Throws if the run would get stuck on a worker that lost its cache. */
export async function replayRun(run: TestRun): Promise<void> {
  const history = await run.handle.fetchHistory();
  try {
    await replay({ workflowBundle: await workflowBundle() }, { history, workflowId: run.handle.workflowId });
  } catch (err) {
    throw new Error(`the replay failed; the history was:\n${outline(history)}`, { cause: err });
  }
}

type History = Awaited<ReturnType<TestRun['handle']['fetchHistory']>>;

/** Event numbers and types, with the name of the activity, signal, or timer; no payloads. */
function outline({ events }: History): string {
  return (events ?? [])
    .map((event) => {
      const about = [
        event.activityTaskScheduledEventAttributes?.activityType?.name,
        event.workflowExecutionSignaledEventAttributes?.signalName,
        event.timerStartedEventAttributes?.timerId,
        event.timerCanceledEventAttributes?.timerId,
      ];
      const kind = Object.keys(event).find((key) => key.endsWith('EventAttributes')) ?? '';
      return [String(event.eventId), kind.replace('EventAttributes', ''), ...about].filter(Boolean).join(' ');
    })
    .join('\n');
}
