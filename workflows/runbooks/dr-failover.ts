import type { FailoverRoute } from '../../activities/plans/dr-failover';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import type { TokenNeed } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import { planned } from '../engine/approvals';
import { failureFacts } from '../engine/failures';
import type { ReprotectInput } from '../procedures/re-protection';
import { restoreProtection } from '../procedures/re-protection';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbookInParts } from '../engine/runbook';
import { finishRun, lastLook, tellAtTheEnd } from '../procedures/roles';
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
  const progress: FailoverProgress = { promoted: false, finished: false };
  const approved = await run.abortable(() =>
    approvePlan<FailoverRoute>(run, {
      input,
      assess: (call, again) => call.assessDrFailover({ input, ...again }),
      beforeGate: (assessed) => gatherEvidence(run, input, planned(assessed).route, progress),
      gate: () => 'promote',
      endsOutage: true,
      tokens: tokensFor,
    }),
  );
  if ('outcome' in approved) return approved;
  const { route, approvals, tokens } = approved;

  // 2. B's token, and the fence: the last things that can be stopped at will.
  await run.abortable(async () => {
    await tokens.of(route.to);
    await fence(run, input.deployment, route, approvals, progress);
  });

  // 3.-4. From the promotion until B serves nothing stops the run. Where B refuses for certain, people decide.
  const { deployment } = input;
  await replaceLostPrimary(run, {
    ...{ kind: 'dr', deployment, route, approvals },
    token: () => tokens.of(route.to),
    otherToken: (failure) => tokens.replaceRefused(route.to, failure),
  });
  progress.promoted = true;
  run.state.enterPhase('re-protecting');

  // 5.-7. Secondaries, tokens, final state.
  // The loss as the approvers were told it: one figure everywhere.
  const told = { ...route, loss: progress.route?.loss ?? route.loss };
  const ending = await run.abortable(() => finish(run, input, told, { tokens, authority: approvals.authority }));
  progress.finished = true;
  return ending;
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
  if (!progress.route) run.onEnd(() => tellFailoverLeft(run, deployment, progress));
  progress.route = route;
  // The outage of a run that was taken over inside of its own began there.
  if (run.state.outageSince === undefined) {
    const why =
      lastHeardAt === undefined
        ? `no secondary tells when it heard ${from} last: from the start of this run`
        : `the last heartbeat of ${from} that a secondary heard`;
    run.state.outageBegan(lastHeardAt, why);
  }
  run.state.fact({ kind: 'loss', ...loss });
  for (const finding of findings) run.state.finding(finding);
  await run.step(`Make sure that ${from} is gone`, (call) => call.awaitPrimaryGone({ deployment, from, to, alsoGone }));
}

/** Step 2: nobody may reach the old primary when it comes back. Attested fencing is in the plan that was approved. */
async function fence(
  run: Run,
  deployment: string,
  { from, to, fencing }: FailoverRoute,
  approvals: Approvals,
  progress: FailoverProgress,
): Promise<void> {
  if (fencing === 'attested') return;
  await run.skippableStep(
    `Fence ${from}`,
    `nothing but the word of those who approved says that ${from} is cut off`,
    (call) =>
      approvals.begin('promote', async (authority) => {
        const before = progress.fenced;
        progress.fenced = before ?? 'unknown';
        try {
          const done = await call.fenceLostPrimary({ deployment, from, to, authority });
          progress.fenced = 'done';
          return done;
        } catch (error) {
          // Known means here that the hook was not begun; one that failed may have done a part.
          if (failureFacts(error)?.outcomeKnown === true) progress.fenced = before;
          throw error;
        }
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
  const { from, to, otherDrSecondaries, performanceSecondaries, silentDrSecondaries } = route;
  const covered = (cluster: string) => tokens.covers({ cluster, uses: ['dr.update-primary'] });
  const later = [...silentDrSecondaries, ...otherDrSecondaries.filter((cluster) => !covered(cluster))];
  const notFollowing = await restoreProtection(run, {
    deployment,
    primary: to,
    credentialOf: from,
    drSecondaries: otherDrSecondaries.filter(covered),
    performanceSecondaries,
    tokens,
    authority,
  });
  await finishRun(run, deployment, tokens);
  return {
    outcome: 'completed',
    leftToDo: [...notFollowing, ...later.map((cluster) => notRepointed(cluster, to)), rejoinLater(deployment, route)],
    result: { from, to, fencing: route.fencing, loss: route.loss },
  };
}

/** How far the run came, for what must be told however it ends. */
interface FailoverProgress {
  route?: FailoverRoute;
  /** Whether the fence hook cut the old primary off; absent where it was not run, or refused before. */
  fenced?: 'done' | 'unknown';
  promoted: boolean;
  finished: boolean;
}

/** Where the run ends early: who said last to be primary, or who does not follow yet. */
async function tellFailoverLeft(
  run: Run,
  deployment: string,
  { route, fenced, promoted, finished }: FailoverProgress,
): Promise<void> {
  if (!route || finished) return;
  if (promoted) {
    run.state.leftToDo.push(
      ...[...route.otherDrSecondaries, ...route.silentDrSecondaries].map((cluster) => notRepointed(cluster, route.to)),
      ...route.performanceSecondaries.map(
        (cluster) => `Read the performance status of ${cluster}; where it does not follow ${route.to}, re-point it.`,
      ),
      rejoinLater(deployment, route),
    );
    return;
  }
  // Also one that this run is not about: a promotion is refused because another member is primary.
  const members = [route.from, route.to, ...route.otherDrSecondaries, ...route.silentDrSecondaries];
  const { primaries, silent } = await lastLook(run, deployment, members);
  const served = primaries.join(' and ');
  const cutOff = fenced === undefined ? '' : ` ${fencedText(route.from, fenced)}`;
  const [code, text, next] =
    primaries.length > 0
      ? [
          'failover-ended-early',
          `The failover ended; ${served} said to be primary.${cutOff}`,
          `See that clients reach ${served}.${fenced !== undefined && primaries.includes(route.from) ? ` Take the fence of ${route.from} away for that.` : ''}`,
        ]
      : [
          'no-primary',
          `The failover ended with no cluster seen as primary${silent.length > 0 ? `; ${silent.join(' and ')} did not answer` : ''}.${cutOff}`,
          `Clients have no primary. Start drFailover again, or bring ${fenced === undefined ? 'the old primary back' : `${route.from} back and take its fence away`}.`,
        ];
  tellAtTheEnd(run, code, text, next);
}

/** What the hook did stays where it is when the run ends. */
function fencedText(from: string, fenced: 'done' | 'unknown'): string {
  return fenced === 'done'
    ? `The fence hook of this run cut ${from} off: its clients do not reach it.`
    : `The fence hook of this run was started for ${from} and did not say that it succeeded: ${from} may be cut off, or a part of it.`;
}

function notRepointed(cluster: string, to: string): string {
  return `${cluster} was not re-pointed: when it answers, issue an activation token on ${to} and use it with update-primary on ${cluster}.`;
}

function rejoinLater(deployment: string, { from, to }: FailoverRoute): string {
  const rejoin = { deployment, cluster: from, primary: to, reason: `${from} is back after the failover to ${to}` };
  return `Keep ${from} fenced. When it answers again: \`runbook start drRejoin --input '${JSON.stringify(rejoin)}'\``;
}
