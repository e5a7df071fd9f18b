import type { RootTokenCeremonyInput } from '../src/contracts/runbook-inputs';
import { rootTokenCeremonyInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';

export async function rootTokenCeremony(input: unknown): Promise<RunbookResult> {
  return executeRunbook<RootTokenCeremonyInput>(
    { name: 'rootTokenCeremony', input: rootTokenCeremonyInput, body: carryOut },
    input,
  );
}

function carryOut(run: Run, input: RootTokenCeremonyInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
