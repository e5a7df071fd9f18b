import type { ReadinessInput } from '../src/contracts/runbook-inputs';
import { readinessInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';

export async function readiness(input: unknown): Promise<RunbookResult> {
  return executeRunbook<ReadinessInput>({ name: 'readiness', input: readinessInput, body: carryOut }, input);
}

function carryOut(run: Run, input: ReadinessInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
