import type { Authority, SecondaryOnboardingRoute } from '../../src/contracts/activities';
import type { PerformanceSecondaryOnboardingInput } from '../../src/contracts/runbook-inputs';
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
 * A cluster without replication becomes performance secondary. **Everything on it is wiped**, so that it must stand on
 * the wipe allow-list of the inventory and gate `wipe` must approve. What it must not see is kept away by its paths
 * filter from before the first byte.
 */
export async function performanceSecondaryOnboarding(input: unknown): Promise<RunbookResult> {
  return executeRunbook<PerformanceSecondaryOnboardingInput>(
    { name: 'performanceSecondaryOnboarding', body: carryOut, failOver },
    input,
  );
}

function carryOut(run: Run, input: PerformanceSecondaryOnboardingInput): Promise<Ending> {
  const { deployment } = input;
  return run.stoppable(async () => {
    // 1. Read and judge; people approve that this cluster is wiped, and what it will see.
    const approved = await approvePlan(run, {
      input,
      assess: (call) => call.assessPerformanceSecondaryOnboarding({ input }),
      gate: () => 'wipe',
    });
    if ('outcome' in approved) return approved;
    const { route, approvals } = approved;
    const { primary, secondary, kind, form, filter } = route;
    const both = { deployment, primary, secondary };

    // 2. A primary to follow.
    run.state.enterPhase('working');
    if (route.enablesPrimary) {
      await enablePrimary(run, kind, primary, (call) =>
        approvals.begin('wipe', (authority) =>
          call.enablePrimary({ deployment, kind: 'performance', cluster: primary, authority }),
        ),
      );
    }

    // 3. The paths filter stands before there is an activation token: what it keeps away never leaves.
    await writeFilter(run, deployment, route, approvals.authority);

    // 4. The wipe: activation token and enable. It is refused unless exactly that filter stands.
    const joining = registerLeftovers(run, route);
    await enableSecondary(run, route, approvals, (call, authority, calledBefore) => ({
      issue: () => call.issueEnableToken({ ...both, kind: 'performance', form, calledBefore: calledBefore() }),
      use: (activation) =>
        call.enableSecondary({
          ...{ ...both, kind: 'performance', activation, authority, filter },
          calledBefore: calledBefore(),
        }),
    }));

    // 5. People unseal its standbys, and the first copy comes to its end.
    joining.streams = await followUntilStreaming(run, deployment, route);

    // 6. A write arrives.
    await proveReplication(run, deployment, route);

    // 7. Both sides filter the same. The secondary needs a new credential before it says so.
    const credential = await compareFilters(run, deployment, route);

    // 8. What is left.
    await lastLookAt(run, deployment, route);
    noteWhatIsGone(run, route);
    return { outcome: 'completed', leftToDo: leftToDo(deployment, route, credential) };
  });
}

async function writeFilter(
  run: Run,
  deployment: string,
  route: SecondaryOnboardingRoute,
  authority: Authority,
): Promise<void> {
  const { primary, secondary, id, filter } = route;
  if (!filter) return;
  await run.step(
    `Write the paths filter of ${secondary} on ${primary}`,
    (call) => call.writePathsFilter({ deployment, cluster: primary, id, filter, secondary, authority }),
    { note: ({ observed }) => observed },
  );
}

/** @returns whether the secondary took the workers' credential */
async function compareFilters(run: Run, deployment: string, route: SecondaryOnboardingRoute): Promise<boolean> {
  const { primary, secondary, id, filter } = route;
  if (!filter) return false;
  const skipped = `the dynamic filter of ${secondary} was not compared on both sides: the token of the workers for ${secondary} went with its data`;
  const taken = await run.skippableStep(
    `Look whether ${secondary} takes a credential again`,
    skipped,
    (call) => call.checkCredential({ deployment, cluster: secondary }),
    { note: ({ observed }) => observed },
  );
  if (!taken) return false;
  const compared = await run.skippableStep(
    `Compare the dynamic filter of ${secondary} on both sides`,
    'whether both sides filter the same is not known',
    (call) => call.compareDynamicFilters({ deployment, primary, secondary, id, expected: filter }),
    { note: ({ observed }) => observed, skipNeedsTwo: true },
  );
  if (compared && !compared.equal) {
    run.state.finding({
      severity: 'critical',
      code: 'dynamic-filter-differs',
      text: `The dynamic filter of ${secondary} is not as it must be on ${primary} and ${secondary}: ${compared.observed}`,
      next: `Compare the paths filter of ${secondary} with what it must not see, before clients use it.`,
    });
  }
  return true;
}

function noteWhatIsGone(run: Run, { primary, secondary }: SecondaryOnboardingRoute): void {
  run.state.finding({
    severity: 'warning',
    code: 'secondary-credentials-gone',
    text: `Every token of ${secondary}, its root token among them, its local mounts and its audit devices are gone with its data. Policies and login methods are those of ${primary}; tokens and leases are its own from now on.`,
    next: `Log in on ${secondary} by a login method of ${primary}, or make a root token with the key shares of ${primary}.`,
  });
}

/** What people need on the new secondary, each with the exact input or body. */
function leftToDo(deployment: string, route: SecondaryOnboardingRoute, credential: boolean): string[] {
  const { secondary } = route;
  const ceremony = {
    deployment,
    cluster: secondary,
    reason: `first token of ${secondary} after its onboarding`,
    recipientPgpKey: '<base64 of the PGP public key of who gets it>',
  };
  const audit = { type: 'file', local: true, options: { file_path: '/var/log/vault/audit.log' } };
  const mount = { type: 'kv', local: true };
  return [
    ...(credential
      ? []
      : [
          `Make a root token of ${secondary}: \`runbook start rootTokenCeremony --input '${JSON.stringify(ceremony)}'\`. Make a token for the workers with it, put it where the inventory's credential of ${secondary} is read from, and revoke the root token.`,
        ]),
    `Enable an audit device on ${secondary}, if none of its primary writes there: POST v1/sys/audit/local-file ${JSON.stringify(audit)}.`,
    `Make the local mounts of ${secondary} again, where it had some: POST v1/sys/mounts/<path> ${JSON.stringify(mount)}.`,
  ];
}
