import { createBatchToken } from '../../src/moves/records';
import type { BatchTokenRoute } from '../../activities/plans/batch-token-rotation';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { approvePlan } from '../procedures/approved-plan';

/* Runbooks for Schedules: nobody waits for them. And the one that `runbook status` starts. */

/** Would a switchover and a failover start now? Changes nothing, opens no gate, and runs beside any other run. */
export const readiness = runbook('readiness', check, { quiet: true });

async function check(run: Run, { deployment }: InputOf<'readiness'>): Promise<Ending> {
  const { site, readiness: found } = await run.step('Check readiness', (call) => call.assessReadiness({ deployment }), {
    // Nothing was changed. A check that cannot be made ends at once, so that the next one of the schedule can begin.
    onFailure: 'throw',
  });
  run.state.learnSite(site);
  return { outcome: 'completed', result: { ...found } };
}

/** Each cluster as it is now, and what the record says of earlier runs. Only reads, and costs few events. */
export const deploymentStatus = runbook('deploymentStatus', look, { quiet: true });

async function look(run: Run, { deployment }: InputOf<'deploymentStatus'>): Promise<Ending> {
  const seen = await run.step('Read the deployment', (call) => call.readDeploymentStatus({ deployment }), {
    // A person waits for it: it ends instead of parking.
    onFailure: 'throw',
  });
  return { outcome: 'completed', result: { ...seen }, withoutReport: true };
}

/**
 * Records WAL indexes, lag, heartbeats and canaries of every cluster of a deployment, and the times when one did not answer.
 * Meant for a Temporal Schedule: one activity and no report, so that a run costs eleven events. A failover reads its result
 * for the loss bound, and so do people.
 */
export const walSampler = runbook('walSampler', sample);

async function sample(run: Run, { deployment, samples, everySeconds }: InputOf<'walSampler'>): Promise<Ending> {
  const result = await run.step(
    'Sample the WAL of every cluster',
    (call) => call.sampleWal({ deployment, samples, everyMs: everySeconds * 1_000 }),
    // Nobody waits for a scheduled run: it ends instead of parking, so that the next one can begin.
    { onFailure: 'throw' },
  );
  return { outcome: 'completed', result: { ...result }, withoutReport: true };
}

/** A fresh batch token for DR operations, created on the primary and stored by one activity. */
export const batchTokenRotation = runbook('batchTokenRotation', rotate, { quiet: 'unless-wrong' });

async function rotate(run: Run, input: InputOf<'batchTokenRotation'>): Promise<Ending> {
  const { deployment } = input;
  // 1. One primary, and the right to create a token. Is it time?
  const approved = await approvePlan<BatchTokenRoute>(run, {
    input,
    assess: (call) => call.assessBatchTokenRotation({ input }),
  });
  if ('outcome' in approved) return approved;
  const { drSet, primary, due, why } = approved.route;
  if (input.when === 'due' && !due) {
    return { outcome: 'completed', withoutReport: true, result: { rotated: false, drSet, primary, why } };
  }

  run.state.enterPhase('working');
  // 2. Create, verify and store it. It leaves this activity only sealed.
  const made = await run.step(createBatchToken(primary), (call) =>
    call.rotateBatchToken({ deployment, cluster: primary, drSet }),
  );
  run.state.enterPhase('finishing');
  const { findings: _reported, ...facts } = made;
  return { outcome: 'completed', leftToDo: [], result: { rotated: true, why, ...facts } };
}
