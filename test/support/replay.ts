import { Worker } from '@temporalio/worker';
import { PAYLOAD_CONVERTER_PATH } from '../../src/worker/workflow-code';
import type { TestRun } from './scenario';
import { workflowBundle } from './workflow-bundle';

/** Replays the history of a run with today's workflows. Throws where it would wedge on a worker that lost its cache. */
export async function replayRun(run: TestRun): Promise<void> {
  await Worker.runReplayHistory(
    { workflowBundle: await workflowBundle(), dataConverter: { payloadConverterPath: PAYLOAD_CONVERTER_PATH } },
    await run.handle.fetchHistory(),
    run.handle.workflowId,
  );
}
