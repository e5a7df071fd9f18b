import type { MarkerResult, PromotionRoute } from '../src/contracts/activities';
import { COMPARE_STEP } from '../src/contracts/names';
import type { ClusterObservation } from '../src/contracts/observations';
import type { PerformancePromotionInput } from '../src/contracts/runbook-inputs';
import { OutageDecision, RunStopped, TakenOver, isStop } from './building-blocks/failures';
import type { Choice } from './building-blocks/parking';
import { LEAVE, PROMOTE_BACK } from './building-blocks/parking';
import type { Approvals } from './building-blocks/approvals';
import type { Run } from './building-blocks/run';
import { StepFailed } from './building-blocks/run';
import type { PromotionProgress } from './performance-promotion-end';
import { performanceRolesInWords } from './performance-promotion-followers';

const GO_ON: Choice = {
  action: 'promote-secondary',
  effect: 'go on: promote the new performance primary and finish the run',
};

/** What a planned change of the performance primary is carried out with. */
interface Means {
  readonly input: PerformancePromotionInput;
  readonly route: PromotionRoute;
  readonly approvals: Approvals;
  /** Its WAL index is what the new primary was seen to have. */
  readonly marker: MarkerResult;
  readonly progress: PromotionProgress;
}

interface Outage extends Means {
  readonly run: Run;
}

type Next = 'promote-secondary' | 'promote-back' | 'leave' | 'new' | 'old';

/**
 * From the demotion until a cluster serves no cluster takes writes of shared data. Ends with one performance primary, or
 * with what a person decided.
 */
export async function changePerformancePrimary(run: Run, means: Means): Promise<'new' | 'old' | 'nowhere'> {
  const outage: Outage = { run, ...means };
  const { progress } = means;
  run.state.outageSince = Date.now();
  run.state.enterPhase('outage');
  let next = await nextOf(outage, () => demote(outage));
  for (;;) {
    switch (next) {
      case 'promote-secondary':
        next = await nextOf(outage, () => promoteNew(outage));
        break;
      case 'promote-back':
        next = await nextOf(outage, () => promoteOld(outage));
        break;
      case 'leave':
        await leave(outage);
        return 'nowhere';
      case 'new':
      case 'old':
        progress.primary = next;
        await serve(outage, next);
        progress.serves = run.state.serviceBackAt !== undefined;
        return next;
    }
  }
}

/** Where a part fails without a doubt about its outcome, the old primary, which holds every write, serves again. */
async function nextOf({ run, route }: Outage, part: () => Promise<Next>): Promise<Next> {
  try {
    return await part();
  } catch (error) {
    if (error instanceof TakenOver) {
      const text = `A failover took this run over while the performance primary changed from ${route.from} to ${route.to}: read the performance status of both. Where neither is primary, promote ${route.from} (it holds every write) or ${route.to}, never both.`;
      run.state.finding({ severity: 'critical', code: 'no-performance-primary', text });
      run.state.leftToDo.push(text);
      throw error;
    }
    if (error instanceof OutageDecision) return error.choice;
    // Stopped here, somebody rejected the gate that was asked again before the demotion.
    if (error instanceof StepFailed || error instanceof RunStopped) return 'promote-back';
    if (isStop(error)) return 'leave';
    throw error;
  }
}

/** The demotion, and what it cost. */
async function demote({ run, input, route, approvals, marker }: Outage): Promise<Next> {
  const { deployment } = input;
  const { from: oldPrimary, to: newPrimary } = route;
  // DANGER: from here on no cluster is performance primary.
  const demoted = await run.step(
    `Demote ${oldPrimary}`,
    (call) =>
      approvals.begin('promote', (authority) =>
        call.demotePerformancePrimary({
          ...{ deployment, cluster: oldPrimary, successor: newPrimary, authority },
          reached: marker.wal,
        }),
      ),
    { note: ({ observed }) => observed, choices: [PROMOTE_BACK, LEAVE] },
  );
  run.state.noteFindings(demoted.findings);
  const { walBefore } = demoted;
  const evidence = await run.skippableStep(
    COMPARE_STEP,
    'go on and promote the new primary; whether something was lost is then not known',
    (call) => call.compareAfterDemotion({ deployment, oldPrimary, newPrimary, walBefore, kind: 'performance' }),
    { note: ({ loss, why }) => `loss ${loss}: ${why}`, choices: [PROMOTE_BACK, LEAVE] },
  );
  if (evidence?.loss !== 'bounded' || input.acceptLoss === 'bounded') return 'promote-secondary';
  run.state.finding({
    severity: 'warning',
    code: 'loss-not-excluded',
    text: `The plan accepts no loss, and none could not be proven: ${evidence.why}`,
  });
  return 'promote-back';
}

/** Refused without a doubt: the old primary is promoted back. With a doubt a person decides. */
async function promoteNew({ run, input, route, approvals: { authority } }: Outage): Promise<Next> {
  const { from: otherCluster, to: cluster } = route;
  await run.step(
    `Promote ${cluster}`,
    (call) => call.promotePerformanceSecondary({ deployment: input.deployment, cluster, otherCluster, authority }),
    {
      note: ({ observed }) => observed,
      choices: [PROMOTE_BACK, LEAVE],
      leaveToRunbook: (failure) => failure.outcomeKnown,
    },
  );
  return 'new';
}

/** That the new one is not primary is proven in the activity. */
async function promoteOld({ run, input, route, approvals: { authority } }: Outage): Promise<Next> {
  const { from: cluster, to: otherCluster } = route;
  const { deployment } = input;
  const choices = [GO_ON, LEAVE];
  const { observations } = await run.step('Read the roles', (call) => call.readDeployment({ deployment }), {
    note: performanceRolesInWords,
    choices,
  });
  // It was never demoted, or is primary again.
  if (observations.find((each) => each.cluster === cluster)?.performance?.mode === 'primary') return 'old';
  await run.step(
    `Promote ${cluster} back`,
    (call) => call.promotePerformanceSecondary({ deployment, cluster, otherCluster, authority }),
    { note: ({ observed }) => observed, choices },
  );
  return 'old';
}

/** Service is back when the cluster was seen to serve; clients that were held are let through. */
async function serve({ run, input, route, marker }: Outage, served: 'new' | 'old'): Promise<void> {
  const { deployment } = input;
  const { from, to, heir, hooks } = route;
  const [primary, other] = served === 'new' ? [to, from] : [from, to];
  // A filter may keep the marker's path away from the new primary.
  const arrived = served === 'old' || heir.filter === undefined;
  await performanceServiceBack(run, { deployment, primary, ...(arrived ? { marker } : {}) });
  if (!hooks.quiesce) return;
  const released = await run.skippableStep(
    'Release the clients',
    'clients stay quiesced until somebody lets them through by hand',
    (call) => call.runHook({ deployment, hook: 'release', from: other, to: primary }),
    { choices: [] },
  );
  if (released) run.clientsHeld = false;
}

/** Waits until the performance primary serves reads and writes. */
export async function performanceServiceBack(
  run: Run,
  {
    deployment,
    primary,
    marker,
  }: { readonly deployment: string; readonly primary: string; readonly marker?: MarkerResult },
): Promise<void> {
  const ready = await run.skippableStep(
    `Wait until ${primary} serves`,
    `go on; that ${primary} serves is then not proven`,
    (call) => call.awaitPerformanceServiceReady({ deployment, cluster: primary, ...(marker ? { marker } : {}) }),
    {
      note: ({ stableActiveNode }) => `active node ${stableActiveNode},${marker ? ' marker read,' : ''} write done`,
      choices: [],
    },
  );
  run.state.noteFindings(ready?.findings);
  if (ready) run.state.serviceBackAt = Date.now();
}

/** A person ended the run without a performance primary: the report says what was read last, never what is hoped. */
async function leave({ run, input, route }: Outage): Promise<void> {
  const { from, to } = route;
  let seen: readonly ClusterObservation[] = [];
  await run.cleanUp('Read the roles', async (call) => {
    seen = (await call.readDeployment({ deployment: input.deployment })).observations;
  });
  const primaries = seen.filter(({ performance }) => performance?.mode === 'primary').map(({ cluster }) => cluster);
  const some = primaries.length > 0;
  const text = some
    ? `The run was ended inside the change of roles. ${primaries.join(' and ')} said to be performance primary.`
    : 'The run was ended inside the change of roles with no cluster seen as performance primary.';
  const next = some
    ? `Promote nothing. Re-point the other secondaries to ${primaries.join(', ')} with secondaryRepointing, and let quiesced clients through.`
    : `Read both clusters first. Then promote ${from} (it holds every write) or ${to} by hand, never both.`;
  const code = some ? 'ended-in-outage' : 'no-performance-primary';
  run.state.finding({ severity: 'critical', code, text, next });
  run.state.leftToDo.push(`${text} ${next}`);
  if (run.clientsHeld) run.state.leftToDo.push('Clients were told to hold off and still do: let them through by hand.');
}
