import type { FailoverRoute } from '../../activities/plans/dr-failover';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import type { TokenNeed } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import type { ReprotectInput } from '../procedures/followers';
import { leaveFollowing, leaveSilent, restoreProtection } from '../procedures/followers';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbookInParts } from '../engine/runbook';
import { fenceOf, finishRun, tellWhoIsPrimary } from '../procedures/roles';
import { replaceLostPrimary } from '../procedures/replace-lost-primary';

/**
 * Unplanned DR failover: A, the DR primary, is gone, and B, one of its DR secondaries, takes its place. The outage has
 * begun before the run: holders are asked at once, while the evidence is still gathered, and nothing is promoted without
 * both signs that A is gone and people who attest that it is fenced.
 */
export const drFailover = runbookInParts('drFailover', failOver);

/** The body, also for a run of another runbook that a failover took over: it goes on with the shares and tokens held. */
export async function failOver(run: Run, input: InputOf<'drFailover'>): Promise<Ending> {
  // 0.-1. Evidence, plan and loss bound; the holders in parallel; gate promote; the evidence again.
  const progress: FailoverProgress = { promoted: false };
  const approved = await run.abortable(() =>
    approvePlan<FailoverRoute>(run, {
      input,
      assess: (call, again) => call.assessDrFailover({ input, ...again }),
      beforeGate: (route) => gatherEvidence(run, input, route, progress),
      gate: 'promote',
      endsOutage: true,
      tokens: tokensFor,
    }),
  );
  if ('outcome' in approved) return approved;
  const { route, approvals, tokens } = approved;

  // 2. B's token, and the fence: the last things that can be stopped at will.
  await run.abortable(async () => {
    await tokens.of(route.to);
    await fence(run, input.deployment, route, approvals);
  });

  // 3.-4. From the promotion until B serves nothing stops the run. Where B refuses for certain, people decide.
  const { deployment } = input;
  await replaceLostPrimary(run, {
    ...{ kind: 'dr', deployment, route, approvals, tokens },
    becamePrimary: () => {
      progress.promoted = true;
      leaveProtection(run, deployment, route);
    },
  });
  run.state.enterPhase('re-protecting');

  // 5.-7. Secondaries, tokens, final state.
  // The loss as the approvers were told it: one figure everywhere.
  const told = { ...route, loss: progress.route?.loss ?? route.loss };
  return run.abortable(() => finish(run, input, told, { tokens, authority: approvals.authority }));
}

/**
 * Every DR secondary that answers may become the candidate while people are waited for: the holders are asked once for all.
 * Without B's token the rest is pointless.
 */
function tokensFor({ tokenSource, to, otherDrSecondaries, kept }: FailoverRoute): TokenNeed {
  return {
    source: tokenSource,
    kept,
    targets: [to, ...otherDrSecondaries].map((cluster) => ({
      cluster,
      uses: ['dr.promote', 'dr.update-primary', 'dr.operation-token.delete'] as const,
    })),
    essential: { cluster: to, uses: ['dr.promote', 'dr.operation-token.delete'] as const },
  };
}

/** Step 1, beside the holders: what approvers must know is told, and the signs are given time to agree. */
async function gatherEvidence(
  run: Run,
  { deployment, alsoGone }: InputOf<'drFailover'>,
  route: FailoverRoute,
  progress: FailoverProgress,
): Promise<void> {
  const { from, to, lastHeardAt, loss, findings } = route;
  if (!progress.route) run.onEnd(() => tellNotPromoted(run, deployment, progress));
  progress.route = route;
  // The outage of a run that was taken over inside of its own began there; one that had ended is not this one.
  const back = run.state.serviceBackAt;
  if (run.state.outageSince === undefined || back !== undefined) {
    run.state.serviceBackAt = undefined;
    const since = back === undefined ? lastHeardAt : Math.max(lastHeardAt ?? 0, back);
    const why =
      since === undefined
        ? `no secondary tells when it heard ${from} last: from the start of this run`
        : since === lastHeardAt
          ? `the last heartbeat of ${from} that a secondary heard`
          : `no secondary tells that it heard ${from} since: from when service was back in this run`;
    run.state.outageBegan(since, why);
  }
  run.state.fact({ kind: 'loss', ...loss });
  run.state.noteFindings(findings);
  await run.step(`Confirm that ${from} is gone`, (call) => call.awaitPrimaryGone({ deployment, from, to, alsoGone }));
}

/** Step 2: nobody may reach the old primary when it comes back. Attested fencing is in the plan that was approved. */
async function fence(
  run: Run,
  deployment: string,
  { from, to, fencing }: FailoverRoute,
  approvals: Approvals,
): Promise<void> {
  if (fencing === 'attested') return;
  await run.skippableStep(
    `Fence ${from}`,
    `nothing but the word of those who approved says that ${from} is cut off`,
    (call) =>
      approvals.begin('promote', (authority) => {
        // What the hook did stays where it is when the run ends; one that failed may have done a part.
        const inDoubt = `The fence hook of this run was started for ${from} and did not say that it succeeded: ${from} may be cut off, or a part of it.`;
        const done = `The fence hook of this run cut ${from} off: its clients do not reach it. Take its fence away where ${from} is to serve again.`;
        const order = () => call.fenceLostPrimary({ deployment, from, to, authority });
        return run.state.left.during(fenceOf(from), inDoubt, order, done);
      }),
    { skipNeedsTwo: true },
  );
}

/** Steps 5 to 7: everybody who answers follows B; nothing of ours stays behind; what is left has a command. */
async function finish(
  run: Run,
  input: InputOf<'drFailover'>,
  route: FailoverRoute,
  { tokens, authority }: Pick<ReprotectInput, 'tokens' | 'authority'>,
): Promise<Ending> {
  const { deployment } = input;
  const { from, to, otherDrSecondaries, performanceSecondaries } = route;
  await restoreProtection(run, {
    deployment,
    primary: to,
    credentialOf: from,
    drSecondaries: otherDrSecondaries.filter((cluster) => tokens.covers({ cluster, uses: ['dr.update-primary'] })),
    performanceSecondaries,
    tokens,
    authority,
  });
  await finishRun(run, deployment, tokens);
  return {
    outcome: 'completed',
    result: { from, to, fencing: route.fencing, loss: route.loss },
  };
}

/** How far the run came, for what must be told however it ends. */
interface FailoverProgress {
  route?: FailoverRoute;
  promoted: boolean;
}

/** Where the run ends before the promotion: who said last to be primary. */
async function tellNotPromoted(run: Run, deployment: string, { route, promoted }: FailoverProgress): Promise<void> {
  if (!route || promoted) return;
  // Also one that this run is not about: a promotion is refused because another member is primary.
  const members = [route.from, route.to, ...route.otherDrSecondaries, ...route.silentDrSecondaries];
  await tellWhoIsPrimary(run, {
    ...{ deployment, kind: 'dr', clusters: members, ended: 'The failover ended' },
    seeTo: (primaries) => `See that clients reach ${primaries}.`,
    otherwise: `Clients have no primary. Start drFailover again, or bring ${route.from} back, without its fence.`,
  });
}

/** What is left to do from the promotion on: everybody follows the new primary, and the old one stays fenced. */
function leaveProtection(run: Run, deployment: string, route: FailoverRoute): void {
  const { from, to: primary, otherDrSecondaries, silentDrSecondaries, performanceSecondaries, silent } = route;
  leaveFollowing(run, 'dr', primary, [...otherDrSecondaries, ...silentDrSecondaries]);
  leaveFollowing(run, 'performance', primary, performanceSecondaries);
  leaveSilent(run, primary, silent);
  const rejoin = { deployment, cluster: from, primary, reason: `${from} is back after the failover to ${primary}` };
  const later = `Keep ${from} fenced. When it answers again: \`${nextCommandOf.start('drRejoin', rejoin)}\``;
  run.state.left.add(later, fenceOf(from));
}
