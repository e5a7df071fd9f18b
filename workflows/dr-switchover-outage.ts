import type { MarkerResult, SwitchoverRoute } from '../src/contracts/activities';
import { COMPARE_STEP } from '../src/contracts/names';
import type { DrSwitchoverInput } from '../src/contracts/runbook-inputs';
import type { Approvals } from './building-blocks/approvals';
import { rolesInWords } from './building-blocks/assessment';
import { OutageDecision, RunStopped, TakenOver, isStop } from './building-blocks/failures';
import { lastLook } from './building-blocks/last-look';
import type { OperationTokens } from './building-blocks/operation-tokens';
import { LEAVE, PROMOTE_BACK, PROMOTE_SECONDARY } from './building-blocks/parking';
import type { Run } from './building-blocks/run';
import { StepFailed } from './building-blocks/run';
import { serviceBack } from './building-blocks/service-back';

/** Where service is after the outage. */
export type Served = 'new' | 'old' | 'nowhere';

/**
 * Steps 2 (the demotion) to 4. Ends with service on exactly one cluster, or with what a person decided.
 */
export async function changePrimary(run: Run, means: Means): Promise<Served> {
  const { input, route, marker } = means;
  const outage: Outage = { run, ...means };
  run.state.outageSince = Date.now();
  run.state.enterPhase('outage');
  let next = await nextOf(() => demote(outage));
  for (;;) {
    switch (next) {
      case 'promote-secondary':
        next = await nextOf(() => promoteNew(outage));
        break;
      case 'promote-back':
        next = await nextOf(() => promoteOld(outage));
        break;
      case 'leave':
        return leave(run, input.deployment, route);
      // 4. Service is back when the cluster was seen to serve.
      case 'new':
      case 'old':
        await serviceBack(run, {
          deployment: input.deployment,
          primary: next === 'new' ? route.to : route.from,
          from: next === 'new' ? route.from : route.to,
          credentialOf: route.from,
          marker,
          hooks: route.hooks,
          release: route.hooks.quiesce && route.hooks.release,
        });
        return next;
    }
  }
}

/** What a planned change of the primary is carried out with. */
interface Means {
  readonly input: DrSwitchoverInput;
  readonly route: SwitchoverRoute;
  readonly approvals: Approvals;
  readonly tokens: OperationTokens;
  /** The last write of the old primary that the new one was seen to have. */
  readonly marker: MarkerResult;
}

interface Outage extends Means {
  readonly run: Run;
}

/** What comes next in the outage: planned, decided by a person, or the place where service is. */
type Next = OutageDecision['choice'] | 'new' | 'old';

/** Where a part of the outage fails without a doubt about its outcome the old primary, which holds every write, serves again. */
async function nextOf(part: () => Promise<Next>): Promise<Next> {
  try {
    return await part();
  } catch (error) {
    if (error instanceof TakenOver) throw error;
    if (error instanceof OutageDecision) return error.choice;
    // Stopped here, somebody rejected the gate that was asked again before the demotion.
    if (error instanceof StepFailed || error instanceof RunStopped) return 'promote-back';
    if (isStop(error)) return 'leave';
    throw error;
  }
}

/** Step 2, the demotion, and what it cost. */
async function demote({ run, input, route, approvals, marker }: Outage): Promise<Next> {
  const { deployment } = input;
  const { from: oldPrimary, to: newPrimary } = route;
  // DANGER: from here on no cluster is primary.
  const demoted = await run.step(
    `Demote ${oldPrimary}`,
    (call) =>
      approvals.begin(input.go === 'required' ? 'go' : 'plan', (authority) =>
        call.demoteDrPrimary({ deployment, cluster: oldPrimary, authority, reached: marker.wal }),
      ),
    { note: ({ observed }) => observed, choices: [PROMOTE_BACK, LEAVE] },
  );
  run.state.noteFindings(demoted.findings);
  const evidence = await run.skippableStep(
    COMPARE_STEP,
    'go on and promote the new primary; whether something was lost is then not known',
    (call) => call.compareAfterDemotion({ deployment, oldPrimary, newPrimary, walBefore: demoted.walBefore }),
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

/** Step 3. Stuck without a doubt about the outcome: the plan says what happens then. With a doubt a person decides. */
async function promoteNew({ run, input, route, approvals: { authority }, tokens }: Outage): Promise<Next> {
  const { from: otherCluster, to: cluster } = route;
  const { deployment } = input;
  const choices = [PROMOTE_BACK, LEAVE];
  await tokens.of(cluster, choices);
  await run.step(
    `Promote ${cluster}`,
    async (call) => {
      const token = await tokens.of(cluster, choices);
      return call.promoteDrSecondary({ deployment, cluster, otherCluster, token, authority });
    },
    {
      note: ({ observed }) => observed,
      choices,
      leaveToRunbook: (failure) => failure.outcomeKnown && input.onStuck === 'promote-back',
    },
  );
  return 'new';
}

/** B did not get there: A, which holds every write, becomes primary again. Whether B is not primary is proven there. */
async function promoteOld({ run, input, route, approvals: { authority }, tokens }: Outage): Promise<Next> {
  const { from: cluster, to: otherCluster } = route;
  const { deployment } = input;
  const choices = [PROMOTE_SECONDARY, LEAVE];
  const { observations } = await run.step('Read the roles', (call) => call.readDeployment({ deployment }), {
    note: rolesInWords,
    choices,
  });
  // It was never demoted, or is primary again: nothing has to be promoted, and a primary generates no operation token.
  if (observations.find((each) => each.cluster === cluster)?.dr?.mode === 'primary') return 'old';
  await tokens.of(cluster, choices);
  await run.step(
    `Promote ${cluster} back`,
    async (call) => {
      const token = await tokens.of(cluster, choices);
      return call.promoteDrSecondary({ deployment, cluster, otherCluster, token, authority });
    },
    { note: ({ observed }) => observed, choices },
  );
  return 'old';
}

/** A person ended the run inside the outage: the report says what was read last, never what is hoped. */
async function leave(run: Run, deployment: string, { from, to }: SwitchoverRoute): Promise<'nowhere'> {
  const { primaries, silent } = await lastLook(run, deployment, [from, to]);
  const text =
    primaries.length > 0
      ? `The run was ended inside the outage. ${primaries.join(' and ')} said to be primary.`
      : `The run was ended inside the outage with no cluster seen as primary${silent.length > 0 ? `; ${silent.join(' and ')} did not answer` : ''}.`;
  const next =
    primaries.length > 0
      ? `Promote nothing. See that clients reach ${primaries.join(', ')}, and let quiesced clients through.`
      : `Read both clusters first. Then promote ${from} (it holds every write) or ${to} by hand, never both.`;
  run.state.finding({
    severity: 'critical',
    code: primaries.length > 0 ? 'ended-in-outage' : 'no-primary',
    text,
    next,
  });
  run.state.leftToDo.push(`${text} ${next}`);
  return 'nowhere';
}
