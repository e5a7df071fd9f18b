import type { BatchTokenRoute } from '../../activities/plans/batch-token-rotation';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';

/** A fresh batch token for DR operations, made on the primary and kept by one activity. */
export const batchTokenRotation = runbook('batchTokenRotation', carryOut, { quiet: 'unless-wrong' });

async function carryOut(run: Run, input: InputOf<'batchTokenRotation'>): Promise<Ending> {
  const { deployment } = input;
  // 1. One primary, the right to make a token; is it time?
  const approved = await approvePlan<BatchTokenRoute>(run, {
    input,
    assess: (call) => call.assessBatchTokenRotation({ input }),
    gate: () => undefined,
  });
  if ('outcome' in approved) return approved;
  const { drSet, primary, due, why } = approved.route;
  if (input.when === 'due' && !due) {
    return { outcome: 'completed', withoutReport: true, result: { rotated: false, drSet, primary, why } };
  }

  run.state.enterPhase('working');
  // 2. Made, proven and kept: it leaves this activity sealed alone.
  const made = await run.step(`Make a batch token on ${primary} and keep it`, (call) =>
    call.rotateBatchToken({ deployment, cluster: primary, drSet }),
  );
  run.state.enterPhase('finishing');
  const { findings: _told, ...facts } = made;
  return { outcome: 'completed', leftToDo: [], result: { rotated: true, why, ...facts } };
}
