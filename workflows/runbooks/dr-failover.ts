import { confirmGone, fencing as fencingBy } from '../../src/moves/primary';
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
import { fenceOf, finishRun, reportPrimaries } from '../procedures/roles';
import { watchingLostPrimary } from '../procedures/lost-primary';
import { replaceLostPrimary } from '../procedures/replace-lost-primary';

/**
 * Unplanned DR failover: A, the DR primary, is gone, and B, one of its DR secondaries, takes its place. The outage began
 * before the run, so the holders are asked at once, while the evidence is still being gathered. Nothing is promoted without
 * both signs that A is gone, and without people who attest that it is fenced.
 */
export const drFailover = runbookInParts('drFailover', failOver);

/** The body of the runbook. A run that a failover took over runs it too, with the shares and tokens it already holds. */
export async function failOver(run: Run, input: InputOf<'drFailover'>): Promise<Ending> {
  // 0.-1. Evidence, plan and loss bound, with the holders asked in parallel; gate `promote`; the evidence again.
  const progress: FailoverProgress = { promoted: false };
  const approved = await run.abortable(() =>
    approvePlan<FailoverRoute>(run, {
      input,
      assess: (call, again) => call.assessDrFailover({ input, ...again }),
      meanwhile: ({ from }, body) => watchingLostPrimary(run, { deployment: input.deployment, from }, body),
      beforeGate: (route) => gatherEvidence(run, input, route, progress),
      gate: 'promote',
      endsOutage: true,
      tokens: tokensFor,
    }),
  );
  if ('outcome' in approved) return approved;
  const { route, approvals, tokens } = approved;

  // 2. B's token, then the fence. Up to here the run can be stopped at any time.
  await run.abortable(async () => {
    await tokens.of(route.to);
    await fence(run, input.deployment, route, approvals);
  });

  // 3.-4. Nothing stops the run from the promotion until B serves. If B refuses with certainty, people decide.
  const { deployment } = input;
  await replaceLostPrimary(run, {
    ...{ kind: 'dr', deployment, route, approvals, tokens },
    becamePrimary: () => {
      progress.promoted = true;
      leaveProtection(run, deployment, route);
    },
  });
  run.state.enterPhase('re-protecting');

  // 5.-7. Secondaries, tokens, final state. The loss is the one that the approvers saw: one figure everywhere.
  const approvedRoute = { ...route, loss: progress.route?.loss ?? route.loss };
  return run.abortable(() => finish(run, input, approvedRoute, { tokens, authority: approvals.authority }));
}

/**
 * Any DR secondary that answers may become the candidate while the run waits for people, so the holders are asked once for
 * all of them. Without B's token the others are useless.
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

/** Step 1, while the holders are asked: shows what approvers must know, and waits until the signs agree. */
async function gatherEvidence(
  run: Run,
  { deployment, alsoGone }: InputOf<'drFailover'>,
  route: FailoverRoute,
  progress: FailoverProgress,
): Promise<void> {
  const { from, to, lastHeardAt, loss, findings } = route;
  if (!progress.route) run.onEnd(() => reportNotPromoted(run, deployment, progress));
  progress.route = route;
  // A run that was taken over inside its outage keeps the start of that outage. An outage that had ended is another one.
  const back = run.state.serviceBackAt;
  if (run.state.outageSince === undefined || back !== undefined) {
    run.state.serviceBackAt = undefined;
    const since = back === undefined ? lastHeardAt : Math.max(lastHeardAt ?? 0, back);
    const why =
      since === undefined
        ? `no secondary reports its last heartbeat from ${from}; counted from the start of this run`
        : since === lastHeardAt
          ? `the last heartbeat of ${from} that a secondary received`
          : `no secondary reports a later heartbeat of ${from}; counted from the return of service in this run`;
    run.state.outageBegan(since, why);
  }
  run.state.fact({ kind: 'loss', ...loss });
  run.state.noteFindings(findings);
  await run.step(confirmGone(from), (call) => call.awaitPrimaryGone({ deployment, from, to, alsoGone }));
}

/** Step 2: nobody may reach the old primary when it comes back. An attested fence is part of the approved plan. */
async function fence(
  run: Run,
  deployment: string,
  { from, to, fencing }: FailoverRoute,
  approvals: Approvals,
): Promise<void> {
  if (fencing === 'attested') return;
  const { step, ifUnknown, done } = fencingBy(from);
  await run.skippableStep(
    step,
    `only the approvers attest that ${from} is cut off`,
    (call) =>
      approvals.begin('promote', (authority) => {
        const order = () => call.fenceLostPrimary({ deployment, from, to, authority });
        return run.state.left.during(fenceOf(from), ifUnknown, order, done);
      }),
    { skipNeedsTwo: true },
  );
}

/** Steps 5 to 7: every cluster that answers follows B, nothing of this run stays behind, and the rest is left with a command. */
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

/** How far the run came. Its end must report that, however it ends. */
interface FailoverProgress {
  route?: FailoverRoute;
  promoted: boolean;
}

/** The run ends before the promotion: reports which cluster said last that it is primary. */
async function reportNotPromoted(run: Run, deployment: string, { route, promoted }: FailoverProgress): Promise<void> {
  if (!route || promoted) return;
  // Includes members that this run does not act on: a promotion is also refused because another member is primary.
  const members = [route.from, route.to, ...route.otherDrSecondaries, ...route.silentDrSecondaries];
  await reportPrimaries(run, {
    ...{ deployment, kind: 'dr', clusters: members, ended: 'The failover ended' },
    ifReported: (primaries) => `Make sure that clients reach ${primaries}.`,
    otherwise: `Clients have no primary. Start drFailover again, or bring ${route.from} back and remove its fence.`,
  });
}

/** Adds what is left to do from the promotion on: every other cluster follows the new primary, and the old one stays fenced. */
function leaveProtection(run: Run, deployment: string, route: FailoverRoute): void {
  const { from, to: primary, otherDrSecondaries, silentDrSecondaries, performanceSecondaries, silent } = route;
  leaveFollowing(run, 'dr', primary, [...otherDrSecondaries, ...silentDrSecondaries]);
  leaveFollowing(run, 'performance', primary, performanceSecondaries);
  leaveSilent(run, primary, silent);
  const rejoin = { deployment, cluster: from, primary, reason: `${from} is back after the failover to ${primary}` };
  const later = `Keep ${from} fenced. When it answers again: \`${nextCommandOf.start('drRejoin', rejoin)}\``;
  run.state.left.add(later, fenceOf(from));
}
