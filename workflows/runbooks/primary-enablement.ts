import { primaryEnabling } from '../../src/moves/joining';
import { verifyWrite } from '../../src/moves/primary';
import type { ChangeResult } from '../../src/contracts/activities';
import type { InputOf, ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import { approvePlan } from '../procedures/approved-plan';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import { finishRun } from '../procedures/roles';

/**
 * A cluster without replication of a kind becomes primary of that kind. Nothing is wiped and no cluster is cut off;
 * `replicationTeardown` undoes it.
 */
export const primaryEnablement = runbook('primaryEnablement', carryOut, { failOver });

async function carryOut(run: Run, input: InputOf<'primaryEnablement'>): Promise<Ending> {
  const { deployment, kind, cluster } = input;
  // 1. Read and check: disabled for this kind, no DR secondary, no other primary.
  const approved = await approvePlan(run, {
    input,
    assess: (call) => call.assessPrimaryEnablement({ input }),
    gateIfNeeded: 'plan',
  });
  if ('outcome' in approved) return approved;
  const { approvals } = approved;

  // 2. Enable.
  run.state.enterPhase('working');
  await enablePrimary(run, { deployment, kind, cluster }, approvals, 'plan');
  // If no gate was needed, it was primary before this run, so it is not this run's to undo.
  if (approvals.authority.approvals.plan === undefined) run.state.left.settle(PREPARED.primary);

  // 3. Verify that the cluster serves again after the restart that this causes.
  await run.skippableStep(verifyWrite(cluster), `unknown whether ${cluster} serves again after its restart`, (call) =>
    call.writeMarker({ deployment, cluster, kind }),
  );

  // 4. Read the final state for the report.
  await finishRun(run, deployment);
  run.state.left.settle(PREPARED.primary);
  return { outcome: 'completed', leftToDo: [] };
}

/** Makes a cluster primary of a kind of replication. The step reports `already` if the cluster is primary already. */
export async function enablePrimary(
  run: Run,
  asked: { readonly deployment: string; readonly kind: ReplicationKind; readonly cluster: string },
  approvals: Approvals,
  gate: 'plan' | 'wipe',
): Promise<ChangeResult> {
  const { deployment, kind, cluster } = asked;
  const { step, ifUnknown, done } = primaryEnabling(kind, cluster, deployment);
  return run.step(step, (call) =>
    approvals.begin(gate, (authority) =>
      run.state.left.during(PREPARED.primary, ifUnknown, () => call.enablePrimary({ ...asked, authority }), done),
    ),
  );
}

/** Keys of the left-to-do lines about what was prepared and is not used yet. */
export const PREPARED = { primary: 'primary that was enabled', filter: 'filter that was written' };
