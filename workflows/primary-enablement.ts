import type { PrimaryEnablementInput } from '../src/contracts/runbook-inputs';
import { primaryEnablementInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';
import { failOver } from './dr-failover';

export async function primaryEnablement(input: unknown): Promise<RunbookResult> {
  return executeRunbook<PrimaryEnablementInput>(
    { name: 'primaryEnablement', input: primaryEnablementInput, body: carryOut, failOver },
    input,
  );
}

function carryOut(run: Run, input: PrimaryEnablementInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
