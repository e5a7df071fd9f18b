import type { PromotionRoute } from '../../activities/plans/performance-promotion';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { awaitWindow } from '../engine/approvals';
import type { Approved } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbookInParts } from '../engine/runbook';
import { failOver } from './dr-failover';
import { followNewPrimary, leaveAfterPromotion, reportNotPromoted } from '../procedures/followers';
import type { PrimaryChange, Side } from '../procedures/change-primary';
import { changePrimary, endingOf, proveCaughtUp } from '../procedures/change-primary';
import { quiesceClients } from '../procedures/held-clients';
import { replaceLostPrimary } from '../procedures/replace-lost-primary';
import { finishRun } from '../procedures/roles';
import { takeSnapshot } from '../procedures/service-back';

/**
 * A performance secondary becomes the performance primary. Planned: the old primary answers and is demoted first, and is
 * promoted back if the promotion cannot be completed. Unplanned: it is gone, and has no DR secondary that would keep every
 * token and lease.
 */
export const performancePromotion = runbookInParts('performancePromotion', promote, { failOver });

type Promotion = Approved<PromotionRoute>;

async function promote(run: Run, input: InputOf<'performancePromotion'>): Promise<Ending> {
  // 0.-1. Read everything. Refuse unless everything needed was observed. Gate `promote`.
  const approved = await run.abortable(() =>
    approvePlan<PromotionRoute>(run, {
      input,
      assess: (call) => call.assessPerformancePromotion({ input }),
      gate: 'promote',
      endsOutage: input.mode === 'unplanned',
    }),
  );
  if ('outcome' in approved) return approved;
  return input.mode === 'planned' ? promotePlanned(run, input, approved) : promoteUnplanned(run, input, approved);
}

async function promotePlanned(run: Run, input: InputOf<'performancePromotion'>, approved: Promotion): Promise<Ending> {
  const { deployment, acceptLoss } = input;
  const { approvals, route } = approved;

  // 2. Snapshot, quiesce, marker. Until the demotion, a stop or a failure leaves the old primary serving.
  const marker = await run.abortable(async () => {
    const before = { deployment, cluster: route.from, event: 'demotion' } as const;
    await takeSnapshot(run, route.snapshot, before, approvals.authority);
    if (route.snapshot === true) await awaitWindow(run, input.window);
    await quiesceClients(run, { deployment, kind: 'performance', route, approvals, gate: 'promote' });
    const written = await proveCaughtUp(run, 'performance', deployment, route);
    // If the window has ended, the old primary stays primary.
    await awaitWindow(run, input.window);
    return written;
  });

  // 2.-4. There is no primary from the demotion until a cluster serves. Only a step that parks offers a choice to stop.
  const becamePrimary = (side: Side) => leaveAfterPromotion(run, deployment, route, side);
  const shared = { route, marker, approvals, gate: 'promote', acceptLoss, becamePrimary } as const;
  const markerFiltered = route.candidate.filter !== undefined;
  const change: PrimaryChange = { kind: 'performance', deployment, ...shared, onStuck: 'promote-back', markerFiltered };
  const primary = await run.outage(() => changePrimary(run, change));
  if (primary === 'nowhere') return { outcome: 'aborted' };

  // 5. The other secondaries follow.
  return run.abortable(async () => {
    await followNewPrimary(run, deployment, route, approvals.authority, primary);
    await finishRun(run, deployment);
    return endingOf(change, primary);
  });
}

async function promoteUnplanned(
  run: Run,
  input: InputOf<'performancePromotion'>,
  approved: Promotion,
): Promise<Ending> {
  const { route, approvals } = approved;
  const { deployment } = input;
  run.state.outageBegan(
    undefined,
    `how long ${route.from} has been gone is unknown; counted from the start of this run`,
  );
  let isPromoted = false;
  run.onEnd(async () => {
    if (!isPromoted) await reportNotPromoted(run, deployment, route);
  });

  // 2.-3. Promote, and wait until it serves. If the promotion is refused with certainty, people decide; `force` has its own gate.
  await replaceLostPrimary(run, {
    ...{ kind: 'performance', deployment, route, approvals },
    becamePrimary: () => {
      isPromoted = true;
      leaveAfterPromotion(run, deployment, route, 'new');
    },
  });
  run.state.enterPhase('re-protecting');

  // 4. The other secondaries follow.
  return run.abortable(async () => {
    await followNewPrimary(run, deployment, route, approvals.authority, 'new');
    await finishRun(run, deployment);
    return { outcome: 'completed' };
  });
}
