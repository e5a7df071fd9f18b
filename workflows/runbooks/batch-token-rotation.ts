import type { BatchTokenRoute } from '../../activities/plans/batch-token-rotation';
import type { BatchTokenRotated } from '../../activities/tokens/batch-tokens';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';

/** A fresh batch token for DR operations, made on the primary and put where it is kept by one activity. */
export const batchTokenRotation = runbook('batchTokenRotation', carryOut, { quiet: 'unless-wrong' });

async function carryOut(run: Run, input: InputOf<'batchTokenRotation'>): Promise<Ending> {
  const { deployment } = input;
  // 1. One primary, a role and policy with fewest rights, a place that only the workers read; is it time?
  const approved = await approvePlan<BatchTokenRoute>(run, {
    input,
    assess: (call) => call.assessBatchTokenRotation({ input }),
    gate: () => undefined,
  });
  if ('outcome' in approved) return approved;
  const { drSet, primary, sink, due, why, prepare } = approved.route;
  if (input.when === 'due' && !due) {
    return { outcome: 'completed', withoutReport: true, result: { rotated: false, drSet, primary, sink, why } };
  }

  // 2. What is absent of policy and role, where the input asks for it.
  run.state.enterPhase('working');
  if (prepare.length > 0) {
    await run.skippableStep(
      `Make ${prepare.join(' and ')} on ${primary}`,
      'without them no token can be made; a person makes them by hand',
      (call) => call.prepareBatchTokenRole({ deployment, cluster: primary, drSet }),
    );
  }

  // 3. Made, proven, kept and read back: the token never leaves this activity.
  const made = await run.step(
    `Make a batch token on ${primary} and keep it`,
    (call) => call.rotateBatchToken({ deployment, cluster: primary, drSet }),
    { note: rotatedInWords },
  );
  run.state.enterPhase('finishing');
  const { findings: _told, ...facts } = made;
  return { outcome: 'completed', leftToDo: [], result: { rotated: true, why, ...facts } };
}

function rotatedInWords({ expiresAt, sink, replaced }: BatchTokenRotated): string {
  const before = replaced?.ageSeconds === undefined ? '' : `, in the place of one made ${replaced.ageSeconds} s ago`;
  return `valid until ${expiresAt}, in ${sink}${before}`;
}
