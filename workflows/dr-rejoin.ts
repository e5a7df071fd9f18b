import type { DrRejoinInput } from '../src/contracts/runbook-inputs';
import { drRejoinInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';
import { failOver } from './dr-failover';

export async function drRejoin(input: unknown): Promise<RunbookResult> {
  return executeRunbook<DrRejoinInput>({ name: 'drRejoin', input: drRejoinInput, body: carryOut, failOver }, input);
}

function carryOut(run: Run, input: DrRejoinInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
