import type { DrSecondaryOnboardingInput } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import type { Run } from '../engine/run';
import type { Ending, RunbookResult } from '../engine/runbook';
import { executeRunbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import {
  enablePrimary,
  enableSecondary,
  followUntilStreaming,
  lastLookAt,
  proveReplication,
  registerLeftovers,
} from './onboarding';

/**
 * A cluster without replication becomes DR secondary. **Everything on it is wiped**, so that it must stand on the wipe
 * allow-list of the inventory and gate `wipe` must approve.
 */
export async function drSecondaryOnboarding(input: unknown): Promise<RunbookResult> {
  return executeRunbook<DrSecondaryOnboardingInput>({ name: 'drSecondaryOnboarding', body: carryOut, failOver }, input);
}

function carryOut(run: Run, input: DrSecondaryOnboardingInput): Promise<Ending> {
  const { deployment } = input;
  return run.stoppable(async () => {
    // 1. Read and judge; people approve that this cluster is wiped.
    const approved = await approvePlan(run, {
      input,
      assess: (call) => call.assessDrSecondaryOnboarding({ input }),
      gate: () => 'wipe',
    });
    if ('outcome' in approved) return approved;
    const { route, approvals } = approved;
    const { primary, secondary, kind, form } = route;
    const both = { deployment, primary, secondary };

    // 2. A primary to follow.
    run.state.enterPhase('working');
    if (route.enablesPrimary) {
      await enablePrimary(run, kind, primary, (call) =>
        approvals.begin('wipe', (authority) =>
          call.enablePrimary({ deployment, kind: 'dr', cluster: primary, authority }),
        ),
      );
    }

    // 3. The wipe: activation token and enable.
    const joining = registerLeftovers(run, route);
    await enableSecondary(run, route, approvals, (call, authority, calledBefore) => ({
      issue: () => call.issueEnableToken({ ...both, kind: 'dr', form, calledBefore: calledBefore() }),
      use: (activation) =>
        call.enableSecondary({ ...both, kind: 'dr', activation, authority, calledBefore: calledBefore() }),
    }));

    // 4. People unseal its standbys, and the first copy comes to its end.
    joining.streams = await followUntilStreaming(run, deployment, route);

    // 5. A write arrives.
    await proveReplication(run, deployment, route);

    // 6. What is left.
    await lastLookAt(run, deployment, route);
    run.state.finding({
      severity: 'info',
      code: 'secondary-credentials-gone',
      text: `Credentials, root token and audit devices of ${secondary} are gone with its data: those of ${primary} count for it, and work there once it is promoted.`,
      next: `Give the credential of ${secondary} in the inventory a token of ${primary}; it is first used after a promotion.`,
    });
    return { outcome: 'completed', leftToDo: leftToDo(primary, secondary) };
  });
}

function leftToDo(primary: string, secondary: string): string[] {
  return [
    `The credential of ${secondary} in the inventory is void: let it be read from where a token of ${primary} is kept.`,
    `Where batch tokens are used for DR operations, make one on ${primary} for ${secondary} and name it as batchToken of ${secondary} in the inventory.`,
  ];
}
