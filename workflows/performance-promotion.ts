import type { PerformancePromotionInput } from '../src/contracts/runbook-inputs';
import { performancePromotionInput } from '../src/contracts/runbook-inputs';
import { stepFailure } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';
import { failOver } from './dr-failover';

export async function performancePromotion(input: unknown): Promise<RunbookResult> {
  return executeRunbook<PerformancePromotionInput>(
    { name: 'performancePromotion', input: performancePromotionInput, body: carryOut, failOver },
    input,
  );
}

function carryOut(run: Run, input: PerformancePromotionInput): Promise<Ending> {
  void run;
  void input;
  return Promise.resolve({ outcome: 'refused', failure: stepFailure('INTERNAL', 'not there yet') });
}
