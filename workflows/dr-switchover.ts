import type { AssessSwitchoverResult, Authority, MarkerResult, SwitchoverRoute } from '../src/contracts/activities';
import type { PlanDocument } from '../src/contracts/plan';
import type { DrSwitchoverInput } from '../src/contracts/runbook-inputs';
import { drSwitchoverInput } from '../src/contracts/runbook-inputs';
import { awaitWindow, countsUntil } from './building-blocks/approved-plan';
import { planned, refusalOf, rolesInWords, verdictsInWords } from './building-blocks/assessment';
import { ceremonyFor } from './building-blocks/ceremony-for';
import { stepFailure } from './building-blocks/failures';
import { passGate } from './building-blocks/gates';
import { OperationTokens } from './building-blocks/operation-tokens';
import type { TokenCeremony } from './building-blocks/token-ceremony';
import { inParallel } from './building-blocks/parallel';
import type { Protecting } from './building-blocks/re-protection';
import { restoreProtection } from './building-blocks/re-protection';
import { NotBegun, tooOldBefore } from './building-blocks/renewed-approvals';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';
import { failOver } from './dr-failover';
import { changePrimary } from './dr-switchover-outage';
import type { Served } from './dr-switchover-outage';

/**
 * Planned DR switchover: A, the DR primary, and B, one of its DR secondaries, change roles. Both answer, nothing may be
 * lost. People are waited for before A is demoted and never between that and service being back.
 */
export async function drSwitchover(input: unknown): Promise<RunbookResult> {
  return executeRunbook<DrSwitchoverInput>(
    {
      name: 'drSwitchover',
      input: drSwitchoverInput,
      body: switchOver,
      failOver,
    },
    input,
  );
}

interface Prepared {
  readonly route: SwitchoverRoute;
  readonly plan: PlanDocument;
  readonly tokens: OperationTokens;
  readonly planApprovals: readonly unknown[];
  /** Asks for the go, which counts for a short time only; where none is needed, for the plan. */
  readonly askGo: (again: string) => Promise<Go>;
  readonly go: Go;
}

interface Go {
  readonly approvals: readonly unknown[];
  /** Epoch milliseconds. */
  readonly until: number;
}

async function switchOver(run: Run, input: DrSwitchoverInput): Promise<Ending> {
  const { deployment } = input;

  // 0. Read everything; refuse unless everything needed was observed.
  const assessed = await run.stoppable(() =>
    run.step('Read and check the deployment', (call) => call.assessDrSwitchover({ input }), {
      note: verdictsInWords,
      // Nothing was touched: refused at once, so that the lock is free for the next try.
      leaveToRunbook: () => true,
    }),
  );
  run.state.learnSite(assessed.site);
  run.state.plan = assessed.plan;
  if (input.dryRun) return { outcome: 'planned' };
  const refusal = refusalOf(assessed);
  if (refusal) return { outcome: 'refused', failure: refusal };

  // 1. People: the plan gate, the key holders in parallel, B's token, a last check, the go.
  const prepared = await run.stoppable(() => prepare(run, input, assessed));
  const { route, tokens } = prepared;

  // 2. Until the demotion a stop or a failure leaves A serving.
  await run.stoppable(() => quiesce(run, deployment, route));

  // 2.-4. The outage, from the demotion until service is back. A stop waits, or is offered as a choice.
  const { served, authority } = await changeRoles(run, input, prepared);
  if (served === 'nowhere') return { outcome: 'aborted' };
  run.state.enterPhase('re-protecting');

  // 5.-7. Protection, followers, tokens, final state.
  return run.stoppable(async () => {
    const leftToDo = await protect(run, deployment, route, { tokens, authority }, served);
    await finish(run, deployment, tokens);
    if (served === 'new') return { outcome: 'completed', leftToDo };
    const why = `${route.from} is primary again; it had every write before its demotion. Find out why ${route.to} did not become primary before the next try.`;
    return { outcome: 'rolled-back', leftToDo: [why, ...leftToDo] };
  });
}

/** Step 1: from here on the plan's digest binds what is done. Returns when nothing but the outage is left. */
async function prepare(run: Run, input: DrSwitchoverInput, first: AssessSwitchoverResult): Promise<Prepared> {
  const { deployment } = input;
  const requestedBy = input.requestedBy ?? 'unknown';
  let assessed = first;
  let { route } = planned(assessed);
  const { plan } = planned(assessed);

  run.state.enterPhase('waiting-for-people');
  const targets = [
    { cluster: route.to, uses: ['dr.promote', 'dr.update-primary', 'dr.operation-token.delete'] as const },
    { cluster: route.from, uses: ['dr.promote', 'dr.update-primary', 'dr.operation-token.delete'] as const },
    ...route.otherDrSecondaries.map((cluster) => ({
      cluster,
      uses: ['dr.update-primary', 'dr.operation-token.delete'] as const,
    })),
  ];
  const ceremony =
    route.tokenSource === 'ceremony'
      ? ceremonyFor(run, input, {
          deployment,
          runbook: 'drSwitchover',
          reason: input.reason,
          requestedBy,
          targets,
          inputDigest: plan.digest,
        })
      : undefined;
  const tokens = new OperationTokens(run, deployment, targets, ceremony);
  await ceremony?.ready();
  const gate = (name: 'plan' | 'go', digest: string, again?: string) =>
    passGate(run, { gate: name, planDigest: digest, policy: assessed.gates[name], requestedBy, again });
  let planUntil = 0;
  const askPlan = async (digest: string, again?: string) => {
    const approvals = await gate('plan', digest, again);
    planUntil = countsUntil(input.window, assessed.gates.plan.validForMs);
    return approvals;
  };
  let [planApprovals = []] = await inParallel<readonly unknown[]>([askPlan(plan.digest), collectShares(ceremony)]);

  await awaitWindow(run, input.window);

  run.state.enterPhase('preparing');
  let current = plan;
  for (;;) {
    await tokens.of(route.to);
    assessed = await run.step(
      'Read and check again',
      async (call) => {
        const again = await call.assessDrSwitchover({
          input,
          approvedDigest: current.digest,
          ownFingerprint: ceremony?.fingerprint,
        });
        const refusal = refusalOf(again);
        if (refusal) throw refusal;
        return again;
      },
      { note: verdictsInWords },
    );
    const now = planned(assessed).plan;
    if (now.digest === current.digest) break;
    // A gate approves one plan: a changed one asks again.
    run.state.finding({
      severity: 'warning',
      code: 'plan-changed',
      text: 'The deployment changed after the plan was approved; the new plan needs an approval of its own.',
    });
    const next = planned(assessed).route;
    if (next.tokenSource !== route.tokenSource) {
      throw stepFailure(
        'PRECONDITION_FAILED',
        'The source of the operation tokens changed while people were waited for.',
        {
          observed: next.tokenSource,
          needed: route.tokenSource,
          next: 'Nothing was changed. Start again; the new plan says where the tokens come from.',
        },
      );
    }
    route = next;
    current = now;
    run.state.plan = now;
    planApprovals = await askPlan(now.digest);
    await awaitWindow(run, input.window);
  }
  const askGo = async (again?: string): Promise<Go> => {
    if (input.go === 'auto') return { approvals: await askPlan(current.digest, again), until: planUntil };
    const approvals = await gate('go', current.digest, again);
    return { approvals, until: Date.now() + assessed.gates.go.validForMs };
  };
  const fresh = input.go === 'auto' && Date.now() <= planUntil;
  const old = input.go === 'auto' ? countedUntil(planUntil) : undefined;
  const go = fresh ? { approvals: [], until: planUntil } : await askGo(old);
  return { route, tokens, plan: current, planApprovals, askGo, go };
}

async function collectShares(ceremony: TokenCeremony | undefined): Promise<readonly unknown[]> {
  await ceremony?.collect();
  return [];
}

const countedUntil = (until: number): string =>
  `the approvals counted until ${new Date(until).toISOString()}, and everything was ready later`;

/** Step 2: clients write nothing any more, where there is a hook for that. */
async function quiesce(
  run: Run,
  deployment: string,
  { from: oldPrimary, to: newPrimary, hooks }: SwitchoverRoute,
): Promise<void> {
  if (!hooks.quiesce) return;
  run.clientsHeld = true;
  run.onEnd(async () => {
    if (run.state.outageSince !== undefined || !hooks.release) return;
    await run.cleanUp('Release the clients', async (call) => {
      await call.runHook({ deployment, hook: 'release', from: newPrimary, to: oldPrimary });
    });
  });
  await run.step('Quiesce the clients', (call) =>
    call.runHook({ deployment, hook: 'quiesce', from: oldPrimary, to: newPrimary }),
  );
}

/** Steps 2 to 4. A demotion that was not begun because its approvals are too old leaves A serving: they are asked for again. */
async function changeRoles(
  run: Run,
  input: DrSwitchoverInput,
  prepared: Prepared,
): Promise<{ readonly served: Served; readonly authority: Authority }> {
  const { route, tokens, askGo } = prepared;
  for (let { go } = prepared; ;) {
    const { marker, authority } = await run.stoppable(() => proveCaughtUp(run, input, prepared, go));
    try {
      const change = () => changePrimary(run, input, route, authority, tokens, marker);
      return { served: await run.shielded(change), authority };
    } catch (error) {
      if (!(error instanceof NotBegun)) throw error;
      const { observed = 'nothing more', next } = error.failure;
      run.state.outageNotBegun();
      run.state.finding({
        severity: 'warning',
        code: 'go-expired',
        text: `What approved the demotion of ${route.from} was older than it counts right before it, and nothing was sent; it is asked for again. Observed: ${observed}.`,
        next,
      });
      go = await run.stoppable(() => askGo(tooOldBefore(observed)));
    }
  }
}

/** Step 2 up to the demotion: proves that B has everything. What has grown old is asked for again. */
async function proveCaughtUp(
  run: Run,
  input: DrSwitchoverInput,
  { route, plan, planApprovals, askGo }: Prepared,
  firstGo: Go,
): Promise<{ readonly marker: MarkerResult; readonly authority: Authority }> {
  const { deployment } = input;
  let go = firstGo;
  const { from: oldPrimary, to: newPrimary } = route;
  for (;;) {
    const marker = await markAndWait(run, deployment, oldPrimary, newPrimary);
    // From here on nothing stops the run: after the window's end A stays primary.
    await awaitWindow(run, input.window);
    if (Date.now() <= go.until) return { marker, authority: { plan, approvals: [...planApprovals, ...go.approvals] } };
    run.state.finding({
      severity: 'info',
      code: 'go-expired',
      text: `The ${input.go === 'auto' ? 'approval of the plan' : 'go'} was older than it counts when everything was ready; it was asked for again.`,
    });
    go = await askGo(countedUntil(go.until));
  }
}

/** Every write up to the marker is on the secondary. */
async function markAndWait(
  run: Run,
  deployment: string,
  oldPrimary: string,
  newPrimary: string,
): Promise<MarkerResult> {
  const marker = await run.step(
    `Write a marker on ${oldPrimary}`,
    (call) => call.writeMarker({ deployment, cluster: oldPrimary }),
    {
      note: ({ wal }) => `last_dr_wal ${wal}`,
    },
  );
  await run.step(
    `Wait until ${newPrimary} has it`,
    (call) => call.awaitCatchUp({ deployment, primary: oldPrimary, secondary: newPrimary, wal: marker.wal }),
    {
      note: ({ reached, target }) => `last_remote_wal ${reached}, needed ${target}`,
    },
  );
  return marker;
}

/** Steps 5 and 6: the former primary, where its version lets it, and every other secondary follow the new one. */
async function protect(
  run: Run,
  deployment: string,
  { from, to, rejoin, otherDrSecondaries, performanceSecondaries }: SwitchoverRoute,
  means: Pick<Protecting, 'tokens' | 'authority'>,
  served: 'new' | 'old',
): Promise<string[]> {
  const [primary, former] = served === 'new' ? [to, from] : [from, to];
  const rejoins = served === 'old' || rejoin;
  const drSecondaries = [...(rejoins ? [former] : []), ...otherDrSecondaries];
  const left = await restoreProtection(run, { deployment, primary, drSecondaries, performanceSecondaries, ...means });
  if (rejoins) return left;
  return [
    ...left,
    `${former} stays out until it is upgraded to the version of ${primary}; then give it an activation token from ${primary}.`,
  ];
}

/** Step 7: nothing of ours stays behind, and the last look is in the report. */
async function finish(run: Run, deployment: string, tokens: OperationTokens): Promise<void> {
  run.state.enterPhase('finishing');
  await tokens.dispose();
  await run.skippableStep(
    'Read the final state',
    'the report has no final state',
    (call) => call.readDeployment({ deployment }),
    { note: rolesInWords },
  );
}
