import type { CeremonyRehearsalInput } from '../src/contracts/runbook-inputs';
import { ceremonyRehearsalInput } from '../src/contracts/runbook-inputs';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';

/** Every key holder goes the whole way once, with a value that means nothing. It touches no service. */
export async function ceremonyRehearsal(input: unknown): Promise<RunbookResult> {
  return executeRunbook<CeremonyRehearsalInput>(
    { name: 'ceremonyRehearsal', input: ceremonyRehearsalInput, body: carryOut },
    input,
  );
}

function carryOut(run: Run, input: CeremonyRehearsalInput): Promise<Ending> {
  throw new TypeError(`not built yet: ${run.state.runbook} of ${input.deployment}`);
}
