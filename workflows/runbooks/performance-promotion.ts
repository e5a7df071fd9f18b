import type { Authority, PromotionRoute } from '../../src/contracts/activities';
import type { PerformancePromotionInput } from '../../src/contracts/runbook-inputs';
import type { Approvals } from '../engine/approvals';
import type { Approved } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import { ABORT } from '../engine/parking';
import type { Run } from '../engine/run';
import { StepFailed } from '../engine/run';
import type { Ending, RunbookResult } from '../engine/runbook';
import { executeRunbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import type { PromotionProgress } from '../procedures/performance-followers';
import { followNewPrimary, tellPromotionLeft } from '../procedures/performance-followers';
import type { PrimaryChange, Side } from '../procedures/change-primary';
import { changePrimary, endingOf, proveCaughtUp } from '../procedures/change-primary';
import { holdClients } from '../procedures/held-clients';
import { readFinalState } from '../procedures/roles';
import { serviceBack } from '../procedures/service-back';

/**
 * A performance secondary becomes the performance primary. Planned: the old primary answers and is demoted first, and is
 * promoted back where that ends well for nobody else. Unplanned: it is gone, and has no DR secondary that would keep
 * every token and lease.
 */
export async function performancePromotion(input: unknown): Promise<RunbookResult> {
  return executeRunbook<PerformancePromotionInput>({ name: 'performancePromotion', body: promote, failOver }, input);
}

type Promotion = Approved<PromotionRoute>;

async function promote(run: Run, input: PerformancePromotionInput): Promise<Ending> {
  // 0.-1. Read everything; refuse unless everything needed was observed; the plan gate.
  const approved = await run.stoppable(() =>
    approvePlan<PromotionRoute>(run, {
      input,
      assess: (call) => call.assessPerformancePromotion({ input }),
      gate: () => 'promote',
      endsOutage: input.mode === 'unplanned',
    }),
  );
  if ('outcome' in approved) return approved;
  return input.mode === 'planned' ? promotePlanned(run, input, approved) : promoteUnplanned(run, input, approved);
}

async function promotePlanned(run: Run, input: PerformancePromotionInput, approved: Promotion): Promise<Ending> {
  const { deployment, acceptLoss } = input;
  const { approvals } = approved;
  const { quiesce } = approved.route.hooks;
  const route = { ...approved.route, hooks: { quiesce, release: quiesce, traffic: false, probe: false } };

  // 2. Until the demotion a stop or a failure leaves the old primary serving.
  const marker = await run.stoppable(async () => {
    await holdClients(run, { deployment, ...route });
    return proveCaughtUp(run, 'performance', deployment, route);
  });

  // 2.-4. Without a primary, from the demotion until a cluster serves. A stop is offered as a choice.
  const progress: PromotionProgress = { serves: false, following: new Set(), finished: false };
  run.onEnd(() => tellPromotionLeft(run, deployment, route, progress));
  const means = { route, marker, approvals, gate: 'promote', acceptLoss, progress } as const;
  const markerFiltered = route.heir.filter !== undefined;
  const change: PrimaryChange = { kind: 'performance', deployment, ...means, onStuck: 'promote-back', markerFiltered };
  const primary = await run.shielded(() => changePrimary(run, change));
  if (primary === 'nowhere') return { outcome: 'aborted' };

  // 5. The others follow.
  return run.stoppable(async () =>
    endingOf(change, primary, await finish(run, deployment, route, approvals.authority, primary, progress)),
  );
}

function promoteUnplanned(run: Run, input: PerformancePromotionInput, approved: Promotion): Promise<Ending> {
  const { route } = approved;
  const { deployment } = input;
  return run.stoppable(async () => {
    // 2. Promote; where that is refused for as long as its budget lasts, `force` has a gate of its own.
    run.state.outageBegan(Date.now(), `${route.from} is gone; since when is not known to this run`);
    run.state.enterPhase('outage');
    const progress: PromotionProgress = { serves: false, following: new Set(), finished: false };
    run.onEnd(() => tellPromotionLeft(run, deployment, route, progress));
    const authority = await promoteLost(run, input, route, approved.approvals);
    progress.primary = 'new';
    // 3. See that it serves. 4. The others follow.
    const { from, to: primary } = route;
    const hooks = { traffic: false, probe: false };
    const serving = {
      kind: 'performance',
      deployment,
      primary,
      from,
      credentialOf: from,
      hooks,
      release: false,
    } as const;
    await serviceBack(run, serving);
    progress.serves = run.state.serviceBackAt !== undefined;
    run.state.enterPhase('re-protecting');
    return { outcome: 'completed', leftToDo: await finish(run, deployment, route, authority, 'new', progress) };
  });
}

/** Promotes without a primary; by force only where that was refused without a doubt, and people approved it. */
async function promoteLost(
  run: Run,
  { deployment, offerForce }: PerformancePromotionInput,
  { to: cluster, from: otherCluster }: PromotionRoute,
  approvals: Approvals,
): Promise<Authority> {
  const sides = { deployment, kind: 'performance', cluster, otherCluster } as const;
  try {
    await run.step(
      `Promote ${cluster}`,
      // Too old only where the primary was heard since its gate was met: who approves looks once more.
      (call) =>
        approvals.begin('promote', (authority) => call.promoteSecondary({ ...sides, mode: 'unplanned', authority })),
      {
        note: ({ observed }) => observed,
        choices: [ABORT],
        leaveToRunbook: ({ code, outcomeKnown }) => offerForce && outcomeKnown && REFUSALS.includes(code),
      },
    );
    return approvals.authority;
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error;
    run.state.finding({
      severity: 'warning',
      code: 'promotion-refused',
      text: `${cluster} refused to be promoted for as long as its budget lasted: ${error.failure.message}`,
      next: `Approve gate "force" only where it is accepted that what ${cluster} lacks is lost.`,
    });
  }
  await approvals.further('force');
  // DANGER: what the secondary lacks is lost.
  await run.step(
    `Promote ${cluster} by force`,
    (call) => approvals.begin('force', (authority) => call.promoteSecondary({ ...sides, mode: 'forced', authority })),
    { note: ({ observed }) => observed, choices: [ABORT] },
  );
  return approvals.authority;
}

/** "Not in sync", as the service says it. */
const REFUSALS: readonly string[] = ['NOT_CAUGHT_UP', 'SERVICE_UNAVAILABLE', 'BAD_REQUEST'];

async function finish(
  run: Run,
  deployment: string,
  route: PromotionRoute,
  authority: Authority,
  served: Side,
  progress: PromotionProgress,
): Promise<string[]> {
  const left = await followNewPrimary(run, deployment, route, authority, served, progress.following);
  run.state.enterPhase('finishing');
  await readFinalState(run, deployment, 'performance');
  progress.finished = true;
  return left;
}
