import type { ChangeResult } from '../../src/contracts/activities';
import type { InputOf, ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import { approvePlan } from '../procedures/approved-plan';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import { finishRun, kindName, statusOf, teardownCommand } from '../procedures/roles';

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
    gateIfNeeded: 'plan',
  });
  if ('outcome' in approved) return approved;
  const { approvals } = approved;

  // 2. Enable.
  run.state.enterPhase('working');
  await enablePrimary(run, { deployment, kind, cluster }, approvals, 'plan');
  // Nobody was asked where it was primary before: that is not this run's to undo.
  if (approvals.authority.approvals.length === 0) run.state.left.settle(PREPARED.primary);

  // 3. Service is back after the restart that this brings.
  await run.skippableStep(
    `Verify that ${cluster} accepts a write`,
    `whether ${cluster} serves again after its restart was not seen`,
    (call) => call.writeMarker({ deployment, cluster, kind }),
  );

  // 4. The last look is in the report.
  await finishRun(run, deployment);
  run.state.left.settle(PREPARED.primary);
  return { outcome: 'completed', leftToDo: [] };
}

/** Makes a cluster primary of a kind of replication; a step that finds it there already says so. */
export async function enablePrimary(
  run: Run,
  asked: { readonly deployment: string; readonly kind: ReplicationKind; readonly cluster: string },
  approvals: Approvals,
  gate: 'plan' | 'wipe',
): Promise<ChangeResult> {
  const { deployment, kind, cluster } = asked;
  const inDoubt = `${cluster} may have been made ${kindName(kind)} primary: read ${statusOf(kind)} of it. If it is primary and is to be none: ${teardownCommand(deployment, kind, cluster)}.`;
  // Also where it was found enabled: an answer of an earlier attempt may have been lost.
  const inVain = `${cluster} became ${kindName(kind)} primary and nothing was connected to it: where it is to be none, ${teardownCommand(deployment, kind, cluster)}.`;
  return run.step(`Enable ${cluster} as ${kindName(kind)} primary`, (call) =>
    approvals.begin(gate, (authority) =>
      run.state.left.during(PREPARED.primary, inDoubt, () => call.enablePrimary({ ...asked, authority }), inVain),
    ),
  );
}

/** Under what is left to do what was prepared and is not used yet. */
export const PREPARED = { primary: 'primary that was enabled', filter: 'filter that was written' };
