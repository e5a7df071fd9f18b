import type { MerkleCheckInput } from '../src/contracts/runbook-inputs';
import { merkleCheckInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';

export async function merkleCheck(input: unknown): Promise<RunbookResult> {
  return executeRunbook<MerkleCheckInput>({ name: 'merkleCheck', input: merkleCheckInput, body: carryOut }, input);
}

function carryOut(run: Run, input: MerkleCheckInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
