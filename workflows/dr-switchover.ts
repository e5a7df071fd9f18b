import type { MarkerResult, SwitchoverRoute } from '../src/contracts/activities';
import type { DrSwitchoverInput } from '../src/contracts/runbook-inputs';
import { drSwitchoverInput } from '../src/contracts/runbook-inputs';
import type { Approvals } from './building-blocks/approvals';
import { awaitWindow } from './building-blocks/approvals';
import type { TokenNeed } from './building-blocks/approved-plan';
import { approvePlan } from './building-blocks/approved-plan';
import { rolesInWords } from './building-blocks/assessment';
import { holdClients } from './building-blocks/held-clients';
import type { OperationTokens } from './building-blocks/operation-tokens';
import { restoreProtection } from './building-blocks/re-protection';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';
import { failOver } from './dr-failover';
import { changePrimary } from './dr-switchover-outage';

/**
 * Planned DR switchover: A, the DR primary, and B, one of its DR secondaries, change roles. Both answer, nothing may be
 * lost. People are waited for before A is demoted and never between that and service being back.
 */
export async function drSwitchover(input: unknown): Promise<RunbookResult> {
  return executeRunbook<DrSwitchoverInput>(
    { name: 'drSwitchover', input: drSwitchoverInput, body: switchOver, failOver },
    input,
  );
}

async function switchOver(run: Run, input: DrSwitchoverInput): Promise<Ending> {
  const { deployment } = input;

  // 0. Read everything; refuse unless everything needed was observed.
  // 1. People: the plan gate, the key holders in parallel, B's token, everything once more, the go.
  const approved = await run.stoppable(() =>
    approvePlan<SwitchoverRoute>(run, {
      input,
      assess: (call, again) => call.assessDrSwitchover({ input, ...again }),
      gate: () => 'plan',
      go: input.go === 'required' ? 'go' : undefined,
      tokens: operationTokensOf,
    }),
  );
  if ('outcome' in approved) return approved;
  const { route, approvals } = approved;
  const { tokens } = approved;
  if (!tokens) throw new TypeError('a switchover needs operation tokens');

  // 2. Until the demotion a stop or a failure leaves A serving.
  const marker = await run.stoppable(async () => {
    await holdClients(run, { deployment, ...route });
    const written = await proveCaughtUp(run, deployment, route);
    // From here on nothing stops the run: after the window's end A stays primary.
    await awaitWindow(run, input.window);
    return written;
  });

  // 2.-4. The outage, from the demotion until service is back. A stop waits, or is offered as a choice.
  const served = await run.shielded(() => changePrimary(run, { input, route, approvals, tokens, marker }));
  if (served === 'nowhere') return { outcome: 'aborted' };
  run.state.enterPhase('re-protecting');

  // 5.-7. Protection, followers, tokens, final state.
  return run.stoppable(async () => {
    const leftToDo = await protect(run, deployment, route, { approvals, tokens }, served);
    await finish(run, deployment, tokens);
    if (served === 'new') return { outcome: 'completed', leftToDo };
    const why = `${route.from} is primary again; it had every write before its demotion. Find out why ${route.to} did not become primary before the next try.`;
    return { outcome: 'rolled-back', leftToDo: [why, ...leftToDo] };
  });
}

/** What is in hand must last for the way back too: nobody is asked for key shares in the outage. */
const WAY_BACK_MS = 5 * 60_000;

/** Both sides may have to be promoted and re-pointed; B's token is in hand before anything is begun. */
function operationTokensOf({ from, to, otherDrSecondaries, tokenSource }: SwitchoverRoute): TokenNeed {
  const follow = ['dr.update-primary', 'dr.operation-token.delete'] as const;
  return {
    source: tokenSource,
    targets: [
      ...[to, from].map((cluster) => ({ cluster, uses: ['dr.promote', ...follow] as const })),
      ...otherDrSecondaries.map((cluster) => ({ cluster, uses: follow })),
    ],
    first: to,
    lastingMs: WAY_BACK_MS,
  };
}

/** Every write up to the marker is on the secondary. */
async function proveCaughtUp(run: Run, deployment: string, { from, to }: SwitchoverRoute): Promise<MarkerResult> {
  const marker = await run.step(
    `Write a marker on ${from}`,
    (call) => call.writeMarker({ deployment, cluster: from }),
    { note: ({ wal }) => `last_dr_wal ${wal}` },
  );
  await run.step(
    `Wait until ${to} has it`,
    (call) => call.awaitCatchUp({ deployment, primary: from, secondary: to, wal: marker.wal }),
    { note: ({ reached, target }) => `last_remote_wal ${reached}, needed ${target}` },
  );
  return marker;
}

/** Steps 5 and 6: the former primary, where its version lets it, and every other secondary follow the new one. */
async function protect(
  run: Run,
  deployment: string,
  { from, to, rejoin, otherDrSecondaries, performanceSecondaries }: SwitchoverRoute,
  { approvals, tokens }: { readonly approvals: Approvals; readonly tokens: OperationTokens },
  served: 'new' | 'old',
): Promise<string[]> {
  const { authority } = approvals;
  const [primary, former] = served === 'new' ? [to, from] : [from, to];
  const rejoins = served === 'old' || rejoin;
  const drSecondaries = [...(rejoins ? [former] : []), ...otherDrSecondaries];
  const means = { tokens, authority };
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
