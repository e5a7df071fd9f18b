import type { SwitchoverRoute } from '../../activities/plans/dr-switchover';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { awaitWindow } from '../engine/approvals';
import type { TokenNeed } from '../procedures/approved-plan';
import { approvePlan, collectAgainWhereShort } from '../procedures/approved-plan';
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
 * Planned DR switchover: A, the DR primary, and B, one of its DR secondaries, change roles. Both answer, nothing may be
 * lost. People are waited for before A is demoted and never between that and service being back.
 */
export const drSwitchover = runbookInParts('drSwitchover', switchOver, { failOver });

async function switchOver(run: Run, input: InputOf<'drSwitchover'>): Promise<Ending> {
  const { deployment, acceptLoss, onStuck } = input;
  const go = input.go === 'required' ? 'go' : undefined;

  // 0. Read everything; refuse unless everything needed was observed.
  // 1. People: the plan gate, the key holders in parallel, B's token, everything once more, the go.
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

  // 2. A snapshot where the inventory wants one. Hold the clients; every write up to a marker is on B. Until the demotion a stop or a failure leaves A serving.
  const marker = await run.abortable(async () => {
    const before = { deployment, cluster: route.from, event: 'demotion' } as const;
    await takeSnapshot(run, route.snapshot, before, approvals.authority);
    if (route.snapshot === true) {
      // It may have taken hours: people, and the window, are not waited for with clients held.
      await collectAgainWhereShort(run, WAY_BACK_MS.asked, tokens);
      await awaitWindow(run, input.window);
    }
    await quiesceClients(run, { deployment, kind: 'dr', route, approvals, gate: go ?? 'plan' });
    const written = await proveCaughtUp(run, 'dr', deployment, route);
    // A step may have parked for long since: shares and token must be fit for what is about to begin.
    await collectAgainWhereShort(run, WAY_BACK_MS.change, tokens);
    await tokens.of(route.to);
    // From here on nothing stops the run: after the window's end A stays primary.
    await awaitWindow(run, input.window);
    return written;
  });

  // 2.-4. The outage: demote A, compare, promote B, see that it serves. A stop waits, or is offered as a choice.
  const becamePrimary = (side: Side) => leaveProtection(run, route, side);
  const means = { route, marker, approvals, gate: go ?? 'plan', tokens, acceptLoss, onStuck, becamePrimary } as const;
  const change: PrimaryChange = { kind: 'dr', deployment, ...means };
  const primary = await run.outage(() => changePrimary(run, change));
  if (primary === 'nowhere') return { outcome: 'aborted' };

  // 5., 6. Every other secondary and the former primary follow. 7. Tokens and keys deleted, the final state read.
  return run.abortable(async () => {
    const { authority } = approvals;
    const means = { tokens, authority, credentialOf: route.from, marker };
    await restoreProtection(run, { deployment, ...followersOf(route, primary), ...means });
    await finishRun(run, deployment, tokens);
    return endingOf(change, primary);
  });
}

/** What is in hand must last for the way back too, looked at after the go and right before the change: nobody is asked for key shares in the outage. */
const WAY_BACK_MS = { asked: 5 * 60_000, change: 60_000 };

/** Both sides may have to be promoted and re-pointed; B's token is in hand before anything is begun. */
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
    lastingMs: WAY_BACK_MS.asked,
  };
}

/** The former primary, where its version lets it, and every other secondary follow the new one. */
function followersOf({ from, to, rejoin, otherDrSecondaries, performanceSecondaries }: SwitchoverRoute, side: Side) {
  const [primary, former] = side === 'new' ? [to, from] : [from, to];
  const rejoins = side === 'old' || rejoin;
  const drSecondaries = [...(rejoins ? [former] : []), ...otherDrSecondaries];
  return { primary, former, rejoins, drSecondaries, performanceSecondaries };
}

/** What is left to do from the moment at which a side is primary. */
function leaveProtection(run: Run, route: SwitchoverRoute, side: Side): void {
  const { primary, former, rejoins, drSecondaries, performanceSecondaries } = followersOf(route, side);
  leaveFollowing(run, 'dr', primary, drSecondaries);
  leaveFollowing(run, 'performance', primary, performanceSecondaries, route.quiesce);
  for (const cluster of route.silent)
    run.state.left.add(
      `${cluster} did not answer: where it followed ${route.from}, and does not follow ${primary}, re-point it with secondaryRepointing when it is back.`,
      followingOf(cluster),
    );
  if (!rejoins)
    run.state.left.add(
      `${former} stays out until it is upgraded to the version of ${primary}; then give it an activation token from ${primary}.`,
    );
}
