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
import { fenceOf, finishRun, followingOf, kindName } from '../procedures/roles';
import { takeSnapshot } from '../procedures/service-back';

/**
 * A former DR primary is back after a failover. It was started fenced and may still take itself for the primary: it is
 * demoted first, let out of its fence then, and joins the primary that serves. Nothing here disables anything.
 */
export const drRejoin = runbook(
  'drRejoin',
  (run, input) =>
    rejoin(run, 'dr', input, (call, { ownFingerprint }) => call.assessDrRejoin({ input, ownFingerprint })),
  { failOver },
);

/** The same for a former performance primary, after an unplanned promotion: its paths filter stands before it joins. */
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
  // 1. Who serves, what the former primary takes itself for; whoever approves attests its fence.
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

  // 2. What is lost is said, and saved where the inventory wants a snapshot, while it is still there.
  run.state.enterPhase('working');
  run.state.noteFindings(route.findings);
  run.state.fact({ kind: 'loss', loss: 'unknown', why: route.lost });
  const before = { deployment: input.deployment, cluster: route.cluster, event: 'demotion' } as const;
  await takeSnapshot(run, route.snapshot, before, approvals.authority);

  // 3. One primary: the former one stops being one before anything can reach it.
  const { deployment } = input;
  const { cluster: secondary, primary, former } = route;
  const { left } = run.state;
  left.add(
    `${secondary} is fenced, as far as this run knows: keep it so until it is seen to be a ${kindName(kind)} secondary.`,
    fenceOf(secondary),
  );
  const again = { deployment, cluster: secondary, primary, reason: `${secondary} is to follow ${primary}` };
  left.add(
    `${secondary} does not follow ${primary}. Start again, which goes on from what it finds: \`${nextCommandOf.start(`${kind}Rejoin`, again)}\``,
    followingOf(secondary),
  );
  // DANGER: what the former primary is the only one to hold is out of reach from here on. Refused while nobody serves.
  if (former === 'primary')
    await run.step(`Demote ${secondary}`, (call) =>
      // A snapshot may have taken hours.
      approvals.begin(gate, (authority) => {
        const sides = { deployment, kind, cluster: secondary, otherCluster: primary };
        return call.demotePrimary({ ...sides, former: true, authority });
      }),
    );

  // 4. Only then it is let out.
  const authority = await unfence(run, input, approved);

  // 5. It joins by token, its paths filter first: addresses are not allowed after a demotion.
  run.state.enterPhase('re-protecting');
  const target = { deployment, primary, secondary, authority };
  const streams = await repointAsPlanned(run, target, tokens, route.filter);
  if (streams) left.settle(fenceOf(secondary));
  const roots = streams
    ? await compareRoots(run, { deployment, kind, primary, secondary }, route.filter?.filter)
    : undefined;

  // 6. Nothing of ours stays behind, and the last look is in the report.
  const notConnected = unconnected(run, route, await finishRun(run, deployment, tokens));
  return {
    outcome: 'completed',
    leftToDo: [
      ...notConnected,
      `${primary} stays primary. To lead service back to ${secondary}, start ${kind === 'dr' ? 'drSwitchover' : 'performancePromotion'} to it once it has streamed for a while and the cool-down has passed.`,
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
 * Step 4, by hook or by people. Without a hook the approval says that people did it: hours may have passed since it was
 * seen that no node is primary, so that it is looked at before people are told, and again after them.
 */
async function unfence(run: Run, input: RejoinInput, { route, approvals }: Approved<RejoinRoute>): Promise<Authority> {
  const { deployment } = input;
  const { kind, cluster: secondary, primary, hooks } = route;
  const see = (name: string) =>
    run.step(name, (call) => call.checkFormerPrimaryDemoted({ deployment, kind, primary, secondary }));
  const seen = await see(`See that no node of ${secondary} is primary`);
  run.state.enterPhase('waiting-for-people');
  const approve = () => approvals.further('unfence');
  if (hooks.unfence) await approve();
  else await run.state.whileWaiting('unfence', { for: 'action', ...unfencing(route, seen) }, approve);
  const { authority } = approvals;
  run.state.enterPhase('working');
  if (!hooks.unfence) {
    run.state.left.add(
      `${secondary} was let out of its fence, and was not seen to be demoted since: fence it again until every node of it says secondary.`,
      fenceOf(secondary),
    );
    await see(`See again that no node of ${secondary} is primary`);
    run.state.left.settle(fenceOf(secondary));
    return authority;
  }
  const unfenced = await run.skippableStep(
    `Unfence ${secondary}`,
    `${secondary} stays fenced unless people take the fence away by hand`,
    (call) => call.unfenceFormerPrimary({ deployment, kind, primary, secondary, authority }),
  );
  if (unfenced) run.state.left.settle(fenceOf(secondary));
  return authority;
}

type SeenDemoted = Awaited<ReturnType<StepCalls['checkFormerPrimaryDemoted']>>;

/** What people do in place of the hook, while gate `unfence` is open. */
function unfencing({ cluster, primary }: RejoinRoute, { at, observed, silentNodes }: SeenDemoted) {
  const keep = `Nodes of ${cluster} that did not answer may still say primary: keep those fenced until they say secondary.`;
  return {
    what: `${cluster} is taken out of its fence`,
    instructions: [
      `${cluster} is no primary any more: it may be reached again. Seen at ${new Date(at).toISOString()}: ${observed}.`,
      ...(silentNodes > 0 ? [keep] : []),
      `Open its cluster port and its own way out first; ${cluster} must reach the cluster address of ${primary}.`,
      'Then approve gate "unfence": that says that it is done.',
    ],
  };
}

/** Step 6: one primary, and who of the others hears nobody. */
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
      text: `${other} takes itself for the ${kindName(kind)} primary beside ${primary}.`,
      next: `Fence ${other}, find out which one clients write to, and start ${kind}Rejoin for the other.`,
    });
  }
  return inSet
    .filter((each) => each.cluster !== cluster && each[kind]?.mode === 'secondary')
    .filter((each) => each[kind]?.peers.every((peer) => !peer.connected))
    .map((each) => {
      const command = repointing(run.state.deployment, kind, primary, each.cluster);
      return `${each.cluster} is connected to no primary. Point it at ${primary}: \`${command}\`.`;
    });
}
