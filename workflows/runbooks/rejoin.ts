import { kindName } from '../../src/moves/kinds';
import { demote, unfence as unfenceStep, verifyDemoted, verifyStillDemoted } from '../../src/moves/primary';
import type { RejoinRoute } from '../../activities/plans/rejoin';
import type { Authority } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { InputOf, ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Approved, PlanRequest } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import { repointing } from '../procedures/followers';
import { compareRoots, repointAsPlanned } from '../procedures/repoint';
import type { StepCalls } from '../engine/activity-calls';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import { fenceOf, finishRun, followingOf } from '../procedures/roles';
import { takeSnapshot } from '../procedures/service-back';

/**
 * A former DR primary is back after a failover. It was started fenced and may still consider itself the primary. So it is
 * demoted first, then unfenced, and then joins the primary that serves. Nothing here disables replication.
 */
export const drRejoin = runbook(
  'drRejoin',
  (run, input) =>
    rejoin(run, 'dr', input, (call, { ownFingerprint }) => call.assessDrRejoin({ input, ownFingerprint })),
  { failOver },
);

/** The same for a former performance primary after an unplanned promotion. Its paths filter is written before it joins. */
export const performanceRejoin = runbook(
  'performanceRejoin',
  (run, input) => rejoin(run, 'performance', input, (call) => call.assessPerformanceRejoin({ input })),
  { failOver },
);

type RejoinInput = InputOf<'drRejoin'> | InputOf<'performanceRejoin'>;

async function rejoin(
  run: Run,
  kind: ReplicationKind,
  input: RejoinInput,
  assess: PlanRequest<RejoinRoute>['assess'],
): Promise<Ending> {
  const gate = kind === 'dr' ? 'plan' : 'promote';
  // 1. Which cluster serves, and which role the former primary claims. The approvers attest its fence.
  const approved = await approvePlan<RejoinRoute>(run, {
    input,
    assess,
    gate,
    tokens: ({ tokenSource, cluster }) =>
      tokenSource && {
        source: tokenSource,
        targets: [{ cluster, uses: ['dr.update-primary', 'dr.operation-token.delete'] }],
      },
  });
  if ('outcome' in approved) return approved;
  const { route, tokens, approvals } = approved;

  // 2. Report what is lost. Save it in a snapshot, if the inventory wants one, while it is still there.
  run.state.enterPhase('working');
  run.state.noteFindings(route.findings);
  run.state.fact({ kind: 'loss', loss: 'unknown', why: route.lost });
  const before = { deployment: input.deployment, cluster: route.cluster, event: 'demotion' } as const;
  await takeSnapshot(run, route.snapshot, before, approvals.authority);

  // 3. One primary: the former primary is demoted before anything can reach it.
  const { deployment } = input;
  const { cluster: secondary, primary, former } = route;
  const { left } = run.state;
  left.add(
    `${secondary} is fenced, according to this run. Keep it fenced until it is confirmed to be a ${kindName(kind)} secondary.`,
    fenceOf(secondary),
  );
  const again = { deployment, cluster: secondary, primary, reason: `${secondary} should follow ${primary}` };
  left.add(
    `${secondary} does not follow ${primary}. Start again; the new run continues from what it finds: \`${nextCommandOf.start(`${kind}Rejoin`, again)}\``,
    followingOf(secondary),
  );
  // DANGER: data that only the former primary holds is out of reach from here on. Refused while no cluster serves.
  if (former === 'primary')
    await run.step(
      demote(secondary),
      (call) =>
        // The snapshot may have taken hours.
        approvals.begin(gate, (authority) => {
          const sides = { deployment, kind, cluster: secondary, otherCluster: primary };
          return call.demotePrimary({ ...sides, former: true, authority });
        }),
      { arrives: (call) => call.awaitRole({ deployment, kind, cluster: secondary, role: 'secondary' }) },
    );

  // 4. Only then is it unfenced.
  const authority = await unfence(run, input, approved);

  // 5. It joins by token, after its paths filter is written. Addresses are not allowed after a demotion.
  run.state.enterPhase('re-protecting');
  const target = { deployment, primary, secondary, authority };
  const streams = await repointAsPlanned(run, target, tokens, route.filter);
  if (streams) left.settle(fenceOf(secondary));
  const roots = streams
    ? await compareRoots(run, { deployment, kind, primary, secondary }, route.filter?.filter)
    : undefined;

  // 6. Delete what this run made, and read the final state for the report.
  const notConnected = unconnected(run, route, await finishRun(run, deployment, tokens));
  return {
    outcome: 'completed',
    leftToDo: [
      ...notConnected,
      `${primary} stays primary. To move service back to ${secondary}, start ${kind === 'dr' ? 'drSwitchover' : 'performancePromotion'} to it once it has streamed for a while and the cool-down has passed.`,
    ],
    result: {
      formerPrimary: secondary,
      primary,
      wasDemotedBefore: former === 'secondary',
      lost: route.lost,
      streams,
      merkleRoots: roots ?? 'not compared',
    },
  };
}

/**
 * Step 4, by hook or by people. Without a hook, the approval of gate `unfence` says that people did it. Hours may have passed
 * since no node was primary, so the nodes are checked before people are asked, and again afterwards.
 */
async function unfence(run: Run, input: RejoinInput, { route, approvals }: Approved<RejoinRoute>): Promise<Authority> {
  const { deployment } = input;
  const { kind, cluster: secondary, primary, hooks } = route;
  const verify = (name: string) =>
    run.step(name, (call) => call.checkFormerPrimaryDemoted({ deployment, kind, primary, secondary }));
  const seen = await verify(verifyDemoted(secondary));
  run.state.enterPhase('waiting-for-people');
  const approve = () => approvals.further('unfence');
  if (hooks.unfence) await approve();
  else await run.state.whileWaiting('unfence', { for: 'action', ...unfencing(route, seen) }, approve);
  const { authority } = approvals;
  run.state.enterPhase('working');
  if (!hooks.unfence) {
    run.state.left.add(
      `${secondary} was unfenced, and has not been confirmed as demoted since. Fence it again until every node of it reports secondary.`,
      fenceOf(secondary),
    );
    await verify(verifyStillDemoted(secondary));
    run.state.left.settle(fenceOf(secondary));
    return authority;
  }
  const unfenced = await run.skippableStep(
    unfenceStep(secondary),
    `${secondary} stays fenced unless people remove the fence manually`,
    (call) => call.unfenceFormerPrimary({ deployment, kind, primary, secondary, authority }),
  );
  if (unfenced) run.state.left.settle(fenceOf(secondary));
  return authority;
}

type SeenDemoted = Awaited<ReturnType<StepCalls['checkFormerPrimaryDemoted']>>;

/** What people do instead of the hook, while gate `unfence` is open. */
function unfencing({ cluster, primary }: RejoinRoute, { at, observed, silentNodes }: SeenDemoted) {
  const keep = `Nodes of ${cluster} that did not answer may still report primary. Keep those fenced until they report secondary.`;
  return {
    what: `${cluster} is unfenced`,
    instructions: [
      `${cluster} is no longer primary, so it may be reached again. Observed at ${new Date(at).toISOString()}: ${observed}.`,
      ...(silentNodes > 0 ? [keep] : []),
      `Open its cluster port and its outgoing connections first: ${cluster} must reach the cluster address of ${primary}.`,
      'Then approve gate "unfence". The approval says that this is done.',
    ],
  };
}

/** Step 6: verifies that there is one primary, and lists the other secondaries that are connected to none. */
function unconnected(
  run: Run,
  { kind, cluster, primary, others }: RejoinRoute,
  observations: readonly ClusterObservation[],
): string[] {
  const inSet = observations.filter((each) => [cluster, ...others].includes(each.cluster));
  for (const { cluster: other } of inSet.filter((each) => each[kind]?.mode === 'primary')) {
    run.state.finding({
      severity: 'critical',
      code: 'two-primaries',
      text: `${other} claims to be the ${kindName(kind)} primary in addition to ${primary}.`,
      next: `Fence ${other}, find out which one clients write to, and start ${kind}Rejoin for the other.`,
    });
  }
  return inSet
    .filter((each) => each.cluster !== cluster && each[kind]?.mode === 'secondary')
    .filter((each) => each[kind]?.peers.every((peer) => !peer.connected))
    .map((each) => {
      const command = repointing(run.state.deployment, kind, primary, each.cluster);
      return `${each.cluster} is not connected to a primary. Point it at ${primary}: \`${command}\`.`;
    });
}
