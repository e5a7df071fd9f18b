import type { WalSamplerInput } from '../src/contracts/runbook-inputs';
import { walSamplerInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';

export async function walSampler(input: unknown): Promise<RunbookResult> {
  return executeRunbook<WalSamplerInput>({ name: 'walSampler', input: walSamplerInput, body: carryOut }, input);
}

function carryOut(run: Run, input: WalSamplerInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
