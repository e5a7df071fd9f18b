import type { SwitchoverRoute } from '../../activities/plans/dr-switchover';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { awaitWindow } from '../engine/approvals';
import type { TokenNeed } from '../procedures/approved-plan';
import { approvePlan, collectAgainIfShort } from '../procedures/approved-plan';
import { leaveFollowing, restoreProtection } from '../procedures/followers';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbookInParts } from '../engine/runbook';
import { failOver } from './dr-failover';
import type { PrimaryChange, Side } from '../procedures/change-primary';
import { changePrimary, endingOf, proveCaughtUp } from '../procedures/change-primary';
import { quiesceClients } from '../procedures/held-clients';
import { finishRun, followingOf } from '../procedures/roles';
import { takeSnapshot } from '../procedures/service-back';

/**
 * Planned DR switchover: A, the DR primary, and B, one of its DR secondaries, change roles. Both answer, and no data may
 * be lost. The run waits for people before it demotes A, and never between that and the return of service.
 */
export const drSwitchover = runbookInParts('drSwitchover', switchOver, { failOver });

async function switchOver(run: Run, input: InputOf<'drSwitchover'>): Promise<Ending> {
  const { deployment, acceptLoss, onStuck } = input;
  const go = input.go === 'required' ? 'go' : undefined;

  // 1. Read and check the deployment. Refuse unless everything needed was observed.
  // 2.-4. People: gate `plan` while the key holders are invited, B's operation token, read and check again, gate `go`.
  const approved = await run.abortable(() =>
    approvePlan<SwitchoverRoute>(run, {
      input,
      assess: (call, again) => call.assessDrSwitchover({ input, ...again }),
      beforeGate: ({ findings }) => run.state.noteFindings(findings),
      gate: 'plan',
      go,
      tokens: operationTokensOf,
    }),
  );
  if ('outcome' in approved) return approved;
  const { route, approvals, tokens } = approved;

  // 5. Take a snapshot if the inventory wants one, then quiesce clients.
  // 6. Write a marker on A and wait until B has it. Until the demotion, a stop or a failure leaves A serving.
  const marker = await run.abortable(async () => {
    const before = { deployment, cluster: route.from, event: 'demotion' } as const;
    await takeSnapshot(run, route.snapshot, before, approvals.authority);
    if (route.snapshot === true) {
      // The snapshot may have taken hours. The run does not wait for people or for the window while clients are quiesced.
      await collectAgainIfShort(run, FALLBACK_MS.asked, tokens);
      await awaitWindow(run, input.window);
    }
    await quiesceClients(run, { deployment, kind: 'dr', route, approvals, gate: go ?? 'plan' });
    const written = await proveCaughtUp(run, 'dr', deployment, route);
    // A step may have been parked for long. Key shares and token must last for the change that is about to begin.
    await collectAgainIfShort(run, FALLBACK_MS.change, tokens);
    await tokens.of(route.to);
    // Nothing stops the run after this point. If the window has ended, A stays primary.
    await awaitWindow(run, input.window);
    return written;
  });

  // 7.-12. The outage: demote A, compare the data, promote B, wait until B serves, direct and release the clients, probe
  // their address. A stop takes effect afterwards; only a step that parks offers choices.
  const becamePrimary = (side: Side) => leaveProtection(run, route, side);
  const shared = { route, marker, approvals, gate: go ?? 'plan', tokens, acceptLoss, onStuck, becamePrimary } as const;
  const followers = [...route.otherDrSecondaries, ...route.performanceSecondaries];
  const change: PrimaryChange = { kind: 'dr', deployment, ...shared, followers };
  const primary = await run.outage(() => changePrimary(run, change));
  if (primary === 'nowhere') return { outcome: 'aborted' };

  // 13.-15. The former primary and every other secondary follow. 16. Delete tokens and keys, read the final state.
  return run.abortable(async () => {
    const { authority } = approvals;
    const shared = { tokens, authority, credentialOf: route.from, marker };
    await restoreProtection(run, { deployment, ...followersOf(route, primary), ...shared });
    await finishRun(run, deployment, tokens);
    return endingOf(change, primary);
  });
}

/**
 * The shares collected so far must last for a fallback too, because nobody is asked for key shares in the outage. Checked
 * after gate `go` and right before the change.
 */
const FALLBACK_MS = { asked: 5 * 60_000, change: 60_000 };

/** Either cluster may have to be promoted and re-pointed. B's token is generated before anything begins. */
function operationTokensOf({ from, to, otherDrSecondaries, tokenSource, kept }: SwitchoverRoute): TokenNeed {
  const follow = ['dr.update-primary', 'dr.operation-token.delete'] as const;
  return {
    source: tokenSource,
    kept,
    targets: [
      ...[to, from].map((cluster) => ({ cluster, uses: ['dr.promote', ...follow] as const })),
      ...otherDrSecondaries.map((cluster) => ({ cluster, uses: follow })),
    ],
    first: to,
    lastingMs: FALLBACK_MS.asked,
  };
}

/** The cluster that is primary now, and the secondaries that follow it: the former primary only if its version allows that. */
function followersOf({ from, to, rejoin, otherDrSecondaries, performanceSecondaries }: SwitchoverRoute, side: Side) {
  const [primary, former] = side === 'new' ? [to, from] : [from, to];
  const rejoins = side === 'old' || rejoin;
  const drSecondaries = [...(rejoins ? [former] : []), ...otherDrSecondaries];
  return { primary, former, rejoins, drSecondaries, performanceSecondaries };
}

/** Adds what is left to do from the moment one of the two clusters is primary. */
function leaveProtection(run: Run, route: SwitchoverRoute, side: Side): void {
  const { primary, former, rejoins, drSecondaries, performanceSecondaries } = followersOf(route, side);
  leaveFollowing(run, 'dr', primary, drSecondaries);
  leaveFollowing(run, 'performance', primary, performanceSecondaries, route.quiesce);
  for (const cluster of route.silent)
    run.state.left.add(
      `${cluster} did not answer. If it followed ${route.from} and does not follow ${primary}, re-point it with secondaryRepointing when it is back.`,
      followingOf(cluster),
    );
  if (!rejoins)
    run.state.left.add(
      `${former} does not rejoin until it is upgraded to the version of ${primary}. Then give it an activation token from ${primary}.`,
    );
}
