import type { InputOf } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import { enablePrimary } from './secondary-onboarding';
import { finishRun } from '../procedures/roles';

/**
 * A cluster without replication of a kind becomes primary of it. Nothing is wiped and nobody is cut off;
 * `replicationTeardown` undoes it.
 */
export const primaryEnablement = runbook('primaryEnablement', carryOut, { failOver });

async function carryOut(run: Run, input: InputOf<'primaryEnablement'>): Promise<Ending> {
  const { deployment, kind, cluster } = input;
  // 1. Read and judge: disabled for this kind, no DR secondary, no other primary.
  const approved = await approvePlan(run, {
    input,
    assess: (call) => call.assessPrimaryEnablement({ input }),
    gate: ({ gates }) => (gates.plan?.needed === true ? 'plan' : undefined),
  });
  if ('outcome' in approved) return approved;
  const { approvals } = approved;

  // 2. Enable.
  run.state.enterPhase('working');
  await enablePrimary(run, { deployment, kind, cluster }, approvals, 'plan');

  // 3. Service is back after the restart that this brings.
  await run.skippableStep(
    `See that ${cluster} takes a write`,
    `whether ${cluster} serves again after its restart was not seen`,
    (call) => call.writeMarker({ deployment, cluster, kind }),
  );

  // 4. The last look is in the report.
  await finishRun(run, deployment);
  return { outcome: 'completed', leftToDo: [] };
}
