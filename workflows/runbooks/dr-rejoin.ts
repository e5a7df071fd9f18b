import type { RejoinRoute } from '../../activities/plans/dr-rejoin';
import type { Authority, SplitFacts } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { DrRejoinInput } from '../../src/contracts/runbook-inputs';
import type { Approved } from '../procedures/approved-plan';
import { approvePlan } from '../procedures/approved-plan';
import { compareRoots, repointDrSecondary } from '../procedures/repoint';
import type { Run } from '../engine/run';
import type { Ending, RunbookResult } from '../engine/runbook';
import { executeRunbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import { finishRun } from '../procedures/roles';

/**
 * A former DR primary is back after a failover. It was started fenced and may still take itself for the primary: it is
 * demoted first, let out of its fence then, and joins the primary that serves. Nothing here disables anything.
 */
export async function drRejoin(input: unknown): Promise<RunbookResult> {
  return executeRunbook<DrRejoinInput>({ name: 'drRejoin', body: carryOut, failOver }, input);
}

function carryOut(run: Run, input: DrRejoinInput): Promise<Ending> {
  return run.abortable(async () => {
    // 1. Who serves, what the former primary takes itself for; whoever approves attests its fence.
    const approved = await approvePlan<RejoinRoute>(run, {
      input,
      assess: (call, { ownFingerprint }) => call.assessDrRejoin({ input, ownFingerprint }),
      gate: () => 'plan',
      tokens: ({ tokenSource, cluster }) => ({
        source: tokenSource,
        targets: [{ cluster, uses: ['dr.update-primary', 'dr.operation-token.delete'] }],
      }),
    });
    if ('outcome' in approved) return approved;
    const { route, tokens, approvals } = approved;

    // 2. What is lost is said, and saved where there is a hook, while it is still there.
    run.state.enterPhase('working');
    const split = await describeSplit(run, input, route);

    // 3. One primary: the former one stops being one before anything can reach it.
    const progress: Progress = { unfenced: 'no', streams: false };
    run.onEnd(async () => void run.state.leftToDo.push(...undone(route, progress)));
    const { deployment } = input;
    const { cluster: secondary, primary, former } = route;
    // DANGER: what the former primary is the only one to hold is out of reach from here on. Refused while nobody serves.
    if (former === 'primary')
      await run.step(`Demote ${secondary}`, (call) =>
        // A dump may have taken hours.
        approvals.begin('plan', (authority) => {
          const sides = { deployment, kind: 'dr', cluster: secondary, otherCluster: primary } as const;
          return call.demotePrimary({ ...sides, former: true, authority });
        }),
      );

    // 4. Only then it is let out.
    const authority = await unfence(run, input, approved, progress);

    // 5. It joins by token: addresses are not allowed after a demotion.
    run.state.enterPhase('re-protecting');
    progress.streams = await repointDrSecondary(run, tokens, { deployment, primary, secondary, authority });
    const roots = progress.streams
      ? await compareRoots(run, { deployment, kind: 'dr', primary, secondary, filtered: false })
      : undefined;

    // 6. Nothing of ours stays behind, and the last look is in the report.
    const left = unconnected(run, route, await finishRun(run, deployment, tokens));
    return {
      outcome: 'completed',
      leftToDo: [
        ...left,
        `${primary} stays primary. To lead service back to ${secondary}, start drSwitchover to it once it has streamed for a while and the cool-down has passed.`,
      ],
      result: {
        formerPrimary: secondary,
        primary,
        wasDemotedBefore: former === 'secondary',
        lost: split?.observed ?? 'what was written after the split was not read',
        lostWalEntriesAtMost: split?.atMostWalEntries ?? 'unknown',
        streams: progress.streams,
        merkleRoots: roots ?? 'not compared',
      },
    };
  });
}

/** Step 2. After a demotion nothing can be dumped any more: a DR secondary serves no reads. */
async function describeSplit(
  run: Run,
  { deployment }: DrRejoinInput,
  { cluster, primary, former, hooks }: RejoinRoute,
): Promise<SplitFacts | undefined> {
  const split = await run.skippableStep(
    `State what ${cluster} wrote after the split`,
    'how much is lost is then not known',
    (call) => call.describeSplit({ deployment, primary, secondary: cluster }),
  );
  if (split) {
    const { atMostWalEntries: boundWalEntries, observed: why } = split;
    run.state.fact({
      kind: 'loss',
      ...(boundWalEntries === undefined ? { loss: 'unknown' } : { loss: 'bounded', boundWalEntries }),
      why,
    });
  }
  if (hooks.dump && former === 'primary') {
    await run.skippableStep(
      `Save what ${cluster} holds`,
      `what ${cluster} wrote after the split is lost without a copy`,
      (call) => call.awaitDump({ deployment, from: cluster, to: primary }),
    );
  }
  return split;
}

/**
 * Step 4, by hook or by people. Without a hook the approval says that people did it: hours may have passed since it was
 * seen that no node is primary, so that it is looked at before people are told, and again after them.
 */
async function unfence(
  run: Run,
  input: DrRejoinInput,
  { route, approvals }: Approved<RejoinRoute>,
  progress: Progress,
): Promise<Authority> {
  const { deployment } = input;
  const { cluster: secondary, primary, hooks } = route;
  const see = (name: string) =>
    run.step(name, (call) => call.checkFormerPrimaryDemoted({ deployment, primary, secondary }));
  const seen = await see(`See that no node of ${secondary} is primary`);
  run.state.enterPhase('waiting-for-people');
  if (!hooks.unfence) {
    run.state.wait('unfence', {
      for: 'action',
      what: `${secondary} is taken out of its fence`,
      instructions: [
        `${secondary} is no primary any more: it may be reached again. Seen at ${new Date(seen.at).toISOString()}: ${seen.observed}.`,
        ...(seen.silentNodes > 0
          ? [
              `Nodes of ${secondary} that did not answer may still say primary: keep those fenced until they say secondary.`,
            ]
          : []),
        `Open its cluster port and its own way out first; ${secondary} must reach the cluster address of ${primary}.`,
        'Then approve gate "unfence": that says that it is done.',
      ],
    });
  }
  await approvals.further('unfence');
  const { authority } = approvals;
  run.state.waitOver('unfence');
  run.state.enterPhase('working');
  if (!hooks.unfence) {
    progress.unfenced = 'unseen';
    await see(`See again that no node of ${secondary} is primary`);
    progress.unfenced = 'yes';
    return authority;
  }
  const unfenced = await run.skippableStep(
    `Unfence ${secondary}`,
    `${secondary} stays fenced unless people take the fence away by hand`,
    (call) => call.unfenceFormerPrimary({ deployment, primary, secondary, authority }),
  );
  if (unfenced) progress.unfenced = 'yes';
  return authority;
}

/** Step 6: one primary, and who of the others hears nobody. */
function unconnected(
  run: Run,
  { cluster, primary, others }: RejoinRoute,
  observations: readonly ClusterObservation[],
): string[] {
  const inSet = observations.filter((each) => [cluster, ...others].includes(each.cluster));
  for (const { cluster: other } of inSet.filter(({ dr }) => dr?.mode === 'primary')) {
    run.state.finding({
      severity: 'critical',
      code: 'two-primaries',
      text: `${other} takes itself for the DR primary beside ${primary}.`,
      next: `Fence ${other}, find out which one clients write to, and start drRejoin for the other.`,
    });
  }
  return inSet
    .filter((each) => each.cluster !== cluster && each.dr?.mode === 'secondary')
    .filter(({ dr }) => dr?.peers.every((peer) => !peer.connected))
    .map((each) => `${each.cluster} is connected to no primary: point it at ${primary} with secondaryRepointing.`);
}

/** What a run that ended early left, the most urgent first. */
function undone({ cluster, primary }: RejoinRoute, { unfenced, streams }: Progress): string[] {
  if (streams) return [];
  return [
    ...(unfenced === 'no'
      ? [`${cluster} is fenced, as far as this run knows: keep it so until it is seen to be a DR secondary.`]
      : []),
    ...(unfenced === 'unseen'
      ? [
          `${cluster} was let out of its fence, and was not seen to be demoted since: fence it again until every node of it says secondary.`,
        ]
      : []),
    `${cluster} does not follow ${primary}: start drRejoin again, which goes on from what it finds.`,
  ];
}

interface Progress {
  /** `unseen`: people let it out, and nobody has looked at its nodes since. */
  unfenced: 'no' | 'unseen' | 'yes';
  streams: boolean;
}
