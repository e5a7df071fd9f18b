import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';

/**
 * Records WAL indexes, lag, heartbeats and canaries of every cluster of a deployment, and the times in which one did not
 * answer. Meant for a Temporal Schedule: one activity and no report, so that a run costs eleven events. Its result is
 * read by the failover (loss bound) and by people.
 */
export const walSampler = runbook('walSampler', sample);

async function sample(run: Run, { deployment, samples, everySeconds }: InputOf<'walSampler'>): Promise<Ending> {
  const result = await run.step(
    'Sample the WAL of every cluster',
    (call) => call.sampleWal({ deployment, samples, everyMs: everySeconds * 1_000 }),
    // Nobody waits for a scheduled run: it ends, and the next one begins, instead of parking.
    { onFailure: 'throw' },
  );
  return { outcome: 'completed', result: { ...result }, withoutReport: true };
}
