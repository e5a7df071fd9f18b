import type { DrFailoverInput } from '../src/contracts/runbook-inputs';
import { drFailoverInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';

export async function drFailover(input: unknown): Promise<RunbookResult> {
  return executeRunbook<DrFailoverInput>({ name: 'drFailover', input: drFailoverInput, body: failOver }, input);
}

export function failOver(run: Run, input: DrFailoverInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
