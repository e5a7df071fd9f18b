import type { BatchTokenRotationInput } from '../src/contracts/runbook-inputs';
import { batchTokenRotationInput } from '../src/contracts/runbook-inputs';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';

/** A fresh batch token for DR operations, made on the primary and put where it is kept by one activity. */
export async function batchTokenRotation(input: unknown): Promise<RunbookResult> {
  return executeRunbook<BatchTokenRotationInput>(
    { name: 'batchTokenRotation', input: batchTokenRotationInput, body: carryOut },
    input,
  );
}

function carryOut(run: Run, input: BatchTokenRotationInput): Promise<Ending> {
  throw new TypeError(`not built yet: ${run.state.runbook} of ${input.deployment}`);
}
