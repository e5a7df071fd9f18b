import type { SecondaryRepointingInput } from '../src/contracts/runbook-inputs';
import { secondaryRepointingInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';
import { failOver } from './dr-failover';

export async function secondaryRepointing(input: unknown): Promise<RunbookResult> {
  return executeRunbook<SecondaryRepointingInput>(
    { name: 'secondaryRepointing', input: secondaryRepointingInput, body: carryOut, failOver },
    input,
  );
}

function carryOut(run: Run, input: SecondaryRepointingInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
