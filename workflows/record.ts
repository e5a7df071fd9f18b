import {
  ApplicationFailure,
  CancellationScope,
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  defineUpdate,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import { RECORD_CONFLICT, RECORD_QUERY, RECORD_UPDATE, follows, stateOf, written } from '../src/contracts/record';
import type { RecordState, RecordWrite } from '../src/contracts/record';

/** A write costs five events. The server ends a run after 2,000 writes. */
const EVENTS_OF_ONE_RUN = 200;

/**
 * Keeps what outlives the runs of one deployment. Only workers use it: they start it, write with updates and read with a query.
 * It cannot check a mark and trusts nothing: a write is accepted if it follows the last one. It never ends. If somebody ended
 * it, the next worker that reads starts it again from its last state.
 */
export async function record(start?: unknown): Promise<never> {
  let state = stateOf(start);
  let isFull = false;
  const refuseConflict = (write: unknown): void => {
    if (follows(state, write)) return;
    throw ApplicationFailure.create({
      type: RECORD_CONFLICT,
      nonRetryable: true,
      message: `The write does not follow number ${state.head?.counter ?? 0}.`,
    });
  };
  setHandler(defineQuery<RecordState>(RECORD_QUERY), () => state, { description: 'The contents of the record' });
  setHandler(
    defineUpdate<void, [RecordWrite]>(RECORD_UPDATE),
    (write) => {
      // Checked again: another write of the same task may have been accepted since the validator looked.
      refuseConflict(write);
      state = written(state, write);
      // Decided where the history has an event, so that a replay decides the same at the same place.
      isFull = workflowInfo().historyLength > EVENTS_OF_ONE_RUN || workflowInfo().continueAsNewSuggested;
    },
    { validator: refuseConflict, description: 'For the workers' },
  );
  return CancellationScope.nonCancellable(async () => {
    await condition(() => isFull);
    await condition(allHandlersFinished);
    return continueAsNew<typeof record>(state);
  });
}
