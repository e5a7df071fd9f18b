import type { AssessSwitchoverResult, Authority, MarkerResult, SwitchoverRoute } from '../src/contracts/activities';
import type { PlanDocument } from '../src/contracts/plan';
import type { DrSwitchoverInput } from '../src/contracts/runbook-inputs';
import { drSwitchoverInput } from '../src/contracts/runbook-inputs';
import { awaitWindow, countsUntil } from './building-blocks/approved-plan';
import { planned, refusalOf, rolesInWords, verdictsInWords } from './building-blocks/assessment';
import { ceremonyFor } from './building-blocks/ceremony-for';
import { stepFailure } from './building-blocks/failures';
import { passGate } from './building-blocks/gates';
import { holdClients, letThroughMeanwhile } from './building-blocks/held-clients';
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
  readonly go: Go;
  /**
   * For a run that waited since: key shares for the way back, the checks and the go, which counts for a short time only,
   * or where none is needed the plan's approval.
   *
   * @param old - why what was approved counts no more; absent where it may still count
   */
  readonly again: (old: string | undefined) => Promise<Prepared>;
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
  const { tokens } = prepared;

  // 2.-4. The outage, from the demotion until service is back. A stop waits, or is offered as a choice.
  const { route, served, authority } = await changeRoles(run, input, prepared);
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

/** What is in hand must last for the way back too, which is looked at before people are asked and right before the change, ms. */
const WAY_BACK_MS = { asked: 5 * 60_000, change: 60_000 };

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
      ? ceremonyFor(run, {
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

  let current = plan;
  const check = async (): Promise<void> => {
    run.state.enterPhase('preparing');
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
      if (now.digest === current.digest) return;
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
  };
  const askGo = async (again?: string): Promise<Go> => {
    if (input.go === 'auto') return { approvals: await askPlan(current.digest, again), until: planUntil };
    const approvals = await gate('go', current.digest, again);
    return { approvals, until: Date.now() + assessed.gates.go.validForMs };
  };
  const planCounts = () => input.go === 'auto' && Date.now() <= planUntil;
  const goAfterCheck = (why?: string): Promise<Go> | Go =>
    planCounts()
      ? { approvals: [], until: planUntil }
      : askGo(why ?? (input.go === 'auto' ? countedUntil(planUntil) : undefined));
  await check();
  let go = await goAfterCheck();
  const again = async (old: string | undefined): Promise<Prepared> => {
    const before = current;
    const lasting = WAY_BACK_MS.asked + (input.go === 'auto' ? 0 : assessed.gates.go.validForMs);
    if (input.go === 'auto' && old !== undefined) {
      const collected = collectForWayBack(run, tokens, route, lasting);
      const [more = []] = await inParallel<readonly unknown[]>([askPlan(current.digest, old), collected]);
      planApprovals = [...planApprovals, ...more];
      await awaitWindow(run, input.window);
    } else {
      await collectForWayBack(run, tokens, route, lasting);
    }
    await check();
    const counts = old === undefined && current === before && Date.now() <= go.until;
    if (!counts) {
      // The activity tells a clock that is ahead from approvals that are old by those that were given before.
      const earlier = current === before ? go.approvals : [];
      const fresh = await goAfterCheck(input.go === 'auto' ? undefined : (old ?? countedUntil(go.until)));
      go = { ...fresh, approvals: [...earlier, ...fresh.approvals] };
    }
    return prepared();
  };
  const prepared = (): Prepared => ({ route, tokens, plan: current, planApprovals, go, again });
  return prepared();
}

/** While the old primary serves: should it have to be promoted back, nobody is asked for key shares in the outage. */
async function collectForWayBack(
  run: Run,
  tokens: OperationTokens,
  { from }: SwitchoverRoute,
  ms: number,
): Promise<readonly unknown[]> {
  if (tokens.lastsFor(ms)) return [];
  run.state.finding({
    severity: 'warning',
    code: 'shares-asked-again',
    text: `The key shares in hand would not last for a way back to ${from}: the holders are asked again while it serves.`,
  });
  await tokens.ceremony?.collectAnew();
  return [];
}

async function collectShares(ceremony: TokenCeremony | undefined): Promise<readonly unknown[]> {
  await ceremony?.collect();
  return [];
}

const countedUntil = (until: number): string =>
  `the approvals counted until ${new Date(until).toISOString()}, and everything was ready later`;

/** Steps 2 to 4. Where something grew too old before the demotion A serves, and it is asked for again. */
async function changeRoles(
  run: Run,
  input: DrSwitchoverInput,
  first: Prepared,
): Promise<Pick<Prepared, 'route'> & { readonly served: Served; readonly authority: Authority }> {
  for (let prepared = first; ;) {
    const { route, tokens, plan, planApprovals, go } = prepared;
    const clients = { deployment: input.deployment, ...route };
    const authority = { plan, approvals: [...planApprovals, ...go.approvals] };
    // Until the demotion a stop or a failure leaves A serving.
    const { marker, old } = await run.stoppable(async () => {
      await holdClients(run, clients);
      return proveCaughtUp(run, input, prepared);
    });
    let why = old;
    if (marker) {
      try {
        const change = () => changePrimary(run, input, route, authority, tokens, marker);
        return { route, served: await run.shielded(change), authority };
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
        why = tooOldBefore(observed);
      }
    }
    prepared = await run.stoppable(async () => {
      await letThroughMeanwhile(run, clients, marker !== undefined);
      return prepared.again(why);
    });
  }
}

/**
 * Step 2 up to the demotion: proves that B has everything.
 *
 * @returns the marker; absent where something has grown old: the approvals, as `old` says, or the key shares
 */
async function proveCaughtUp(
  run: Run,
  input: DrSwitchoverInput,
  { route, tokens, go }: Prepared,
): Promise<{ readonly marker?: MarkerResult; readonly old?: string }> {
  const marker = await markAndWait(run, input.deployment, route.from, route.to);
  // From here on nothing stops the run: after the window's end A stays primary.
  await awaitWindow(run, input.window);
  if (Date.now() > go.until) {
    run.state.finding({
      severity: 'info',
      code: 'go-expired',
      text: `The ${input.go === 'auto' ? 'approval of the plan' : 'go'} was older than it counts when everything was ready; it was asked for again.`,
    });
    return { old: countedUntil(go.until) };
  }
  return tokens.lastsFor(WAY_BACK_MS.change) ? { marker } : {};
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
