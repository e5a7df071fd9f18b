import type { InputOf } from '../../src/contracts/runbook-inputs';
import { readinessLines, verdictWords } from '../../src/contracts/readiness-words';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';

/** Would a switchover and a failover start now? Changes nothing, opens no gate, and runs beside every other run. */
export const readiness = runbook('readiness', carryOut, { quiet: true });

async function carryOut(run: Run, { deployment }: InputOf<'readiness'>): Promise<Ending> {
  const { site, readiness: found } = await run.step('Check readiness', (call) => call.assessReadiness({ deployment }), {
    note: ({ readiness: { switchover, failover } }) =>
      `switchover ${verdictWords(switchover)}, failover ${verdictWords(failover)}`,
    // Nothing was touched: a check that cannot be made ends at once, so that the next one of the schedule can begin.
    onFailure: 'throw',
  });
  run.state.learnSite(site);
  run.state.summarise(readinessLines(found));
  return { outcome: 'completed', result: { ...found } };
}
