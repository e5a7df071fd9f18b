import type { Authority, FailoverRoute } from '../../src/contracts/activities';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import type { DrFailoverInput } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import { areTooOld } from '../engine/approvals';
import type { TokenNeed } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import { planned } from '../engine/assessment';
import type { FailureFacts } from '../engine/failures';
import { OutageDecision, RunStopped, failureFacts } from '../engine/failures';
import type { Choice } from '../engine/parking';
import { RETRY } from '../engine/parking';
import type { Protecting } from '../procedures/re-protection';
import { restoreProtection } from '../procedures/re-protection';
import type { Run } from '../engine/run';
import { StepFailed } from '../engine/run';
import type { Ending, RunbookResult } from '../engine/runbook';
import { executeRunbook } from '../engine/runbook';
import { CLIENTS_HELD } from '../procedures/held-clients';
import { lastLook, readFinalState } from '../procedures/roles';
import { serviceBack } from '../procedures/service-back';

/**
 * Unplanned DR failover: A, the DR primary, is gone, and B, one of its DR secondaries, takes its place. The outage has
 * begun before the run: holders are asked at once, while the evidence is still gathered, and nothing is promoted without
 * both signs that A is gone and people who attest that it is fenced.
 */
export async function drFailover(input: unknown): Promise<RunbookResult> {
  return executeRunbook<DrFailoverInput>({ name: 'drFailover', body: failOver }, input);
}

/** The body, also for a run of another runbook that a failover took over: it goes on with the shares and tokens held. */
export async function failOver(run: Run, input: DrFailoverInput): Promise<Ending> {
  // 0.-1. Evidence, plan and loss bound; the holders in parallel; gate promote; the evidence again.
  const progress: Progress = { promoted: false, finished: false };
  const approved = await run.stoppable(() =>
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
  await run.stoppable(async () => {
    await tokens.of(route.to);
    await fence(run, input.deployment, route, approvals, progress);
  });

  // 3.-4. From the promotion until B serves nothing stops the run. Where B refuses for certain, people decide.
  let force = false;
  for (;;) {
    run.state.enterPhase('outage');
    // What was made before people were waited for may not open any more.
    const token = await run.stoppable(() => tokens.of(route.to));
    const { authority } = approvals;
    const stuck = await run.shielded(() => promoteAndServe(run, input, route, { token, authority, force }));
    if (!stuck) break;
    if (areTooOld(stuck)) {
      // The primary was heard since the gate was met, and is gone again: who approves looks once more, and all is kept.
      await run.stoppable(() => approvals.renew(force ? 'force' : 'promote', stuck));
      continue;
    }
    const next = await run.stoppable(() => decide(run, input, route, stuck));
    if (next !== 'force' || force) continue;
    await run.stoppable(() => approvals.further('force'));
    force = true;
  }
  progress.promoted = true;
  run.state.enterPhase('re-protecting');

  // 5.-7. Secondaries, tokens, final state.
  const ending = await run.stoppable(() => finish(run, input, route, { tokens, authority: approvals.authority }));
  progress.finished = true;
  return ending;
}

/** How far the run came, for what must be told however it ends. */
interface Progress {
  route?: FailoverRoute;
  /** Whether the fence hook cut the old primary off; absent where it was not run, or refused before. */
  fenced?: 'done' | 'unknown';
  promoted: boolean;
  finished: boolean;
}

/**
 * Every DR secondary that answers may become the heir while people are waited for: the holders are asked once for all.
 * Without B's token the rest is pointless.
 */
function tokensFor({ tokenSource, to, otherDrSecondaries }: FailoverRoute): TokenNeed {
  return {
    source: tokenSource,
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
  { deployment, alsoGone }: DrFailoverInput,
  route: FailoverRoute,
  progress: Progress,
): Promise<void> {
  const { from, to, lastHeardAt, loss, findings } = route;
  if (!progress.route) run.onEnd(() => tellWhatIsLeft(run, deployment, progress));
  progress.route = route;
  // The outage of a run that was taken over inside of its own began there.
  if (run.state.outageSince === undefined) {
    const [since, why] =
      lastHeardAt === undefined
        ? [Date.now(), `no secondary tells when it heard ${from} last: counted from this run`]
        : [lastHeardAt, `the last heartbeat of ${from} that a secondary heard`];
    run.state.outageBegan(since, why);
  }
  run.state.fact({ kind: 'loss', ...loss });
  for (const finding of findings) run.state.finding(finding);
  await run.step(
    `Make sure that ${from} is gone`,
    (call) => call.awaitPrimaryGone({ deployment, from, to, alsoGone }),
    {
      note: ({ observed }) => observed,
    },
  );
}

/** Step 2: nobody may reach the old primary when it comes back. Attested fencing is in the plan that was approved. */
async function fence(
  run: Run,
  deployment: string,
  { from, to, fencing }: FailoverRoute,
  approvals: Approvals,
  progress: Progress,
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
    { note: ({ observed }) => observed, skipNeedsTwo: true },
  );
}

interface Promotion {
  readonly token: OperationTokenReference;
  readonly authority: Authority;
  readonly force: boolean;
}

/**
 * Steps 3 and 4, in one piece: the promotion until B serves. A promotion whose outcome is not known parks right here; one
 * that was refused for certain gives why, and people are asked outside, where the run can be stopped.
 *
 * @returns undefined where B was promoted
 */
async function promoteAndServe(
  run: Run,
  { deployment }: DrFailoverInput,
  route: FailoverRoute,
  { token, authority, force }: Promotion,
): Promise<FailureFacts | undefined> {
  const { from, to, hooks } = route;
  const sides = { deployment, kind: 'dr', cluster: to, otherCluster: from, authority } as const;
  try {
    // DANGER: should the old primary still serve somebody, there are two primaries from here on.
    const promoted = await run.step(
      force ? `Promote ${to} by force` : `Promote ${to}`,
      (call) => call.promoteSecondary({ ...sides, token, mode: force ? 'forced' : 'unplanned' }),
      { note: ({ observed }) => observed, leaveToRunbook: ({ outcomeKnown }) => outcomeKnown },
    );
    run.state.noteFindings(promoted.findings);
  } catch (error) {
    if (error instanceof StepFailed) return error.failure;
    // The only decision beside another try, where it is not known what became of the promotion.
    if (error instanceof OutageDecision)
      throw run.stop(new RunStopped('an operator', `left the promotion of ${to} as it is`));
    throw error;
  }
  await serviceBack(run, {
    kind: 'dr',
    deployment,
    primary: to,
    from,
    credentialOf: from,
    hooks,
    release: run.clientsHeld && hooks.release,
  });
  return undefined;
}

const FORCE: Choice = {
  action: 'force',
  effect: 'ask for a forced promotion at gate force: what the cluster knows to lack is given up',
};

/** Step 3, where B was refused for certain and nothing is under way: more time, the force gate, or the end. */
async function decide(
  run: Run,
  { offerForce }: DrFailoverInput,
  { to }: FailoverRoute,
  failure: FailureFacts,
): Promise<'retry' | 'force'> {
  const abort: Choice = { action: 'abort', effect: 'end the run here: this run leaves no cluster as primary' };
  // Force leaves out one check of the service: it helps against that refusal alone.
  const offered = offerForce && failure.code === 'NOT_CAUGHT_UP' ? [FORCE] : [];
  const { action, by, reason } = await run.park(`Promote ${to}`, failure, [RETRY, ...offered, abort]);
  if (action === 'abort') throw run.stop(new RunStopped(by.name, reason));
  return action === 'force' ? 'force' : 'retry';
}

/** Steps 5 to 7: everybody who answers follows B; nothing of ours stays behind; what is left has a command. */
async function finish(
  run: Run,
  input: DrFailoverInput,
  route: FailoverRoute,
  { tokens, authority }: Pick<Protecting, 'tokens' | 'authority'>,
): Promise<Ending> {
  const { deployment } = input;
  const { from, to, otherDrSecondaries, performanceSecondaries, silentDrSecondaries } = route;
  const covered = (cluster: string) => tokens.covers({ cluster, uses: ['dr.update-primary'] });
  const later = [...silentDrSecondaries, ...otherDrSecondaries.filter((cluster) => !covered(cluster))];
  const notFollowing = await restoreProtection(run, {
    deployment,
    primary: to,
    drSecondaries: otherDrSecondaries.filter(covered),
    performanceSecondaries,
    tokens,
    authority,
  });
  run.state.enterPhase('finishing');
  await tokens.dispose();
  await readFinalState(run, deployment);
  return {
    outcome: 'completed',
    leftToDo: [...notFollowing, ...later.map((cluster) => notRepointed(cluster, to)), rejoinLater(deployment, route)],
    result: { from, to, fencing: route.fencing, loss: route.loss },
  };
}

/** Where the run ends early: who said last to be primary, or who does not follow yet. */
async function tellWhatIsLeft(
  run: Run,
  deployment: string,
  { route, fenced, promoted, finished }: Progress,
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
  run.state.finding({ severity: 'critical', code, text, next });
  run.state.leftToDo.push(`${text} ${next}`);
  if (run.clientsHeld) run.state.leftToDo.push(CLIENTS_HELD);
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
