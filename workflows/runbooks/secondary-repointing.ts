import type { RepointingRoute } from '../../activities/plans/repointing';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import { compareRoots, repointAsPlanned } from '../procedures/repoint';
import type { BeginApproved } from '../procedures/repoint';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import { failOver } from './dr-failover';
import { finishRun, followingOf } from '../procedures/roles';

/**
 * Points a secondary at another primary of its set. By activation token, a performance secondary may receive what its filter
 * keeps away. By the cluster addresses of the primary, it keeps its id, certificate and filter.
 */
export const secondaryRepointing = runbook('secondaryRepointing', repoint, { failOver });

async function repoint(run: Run, input: InputOf<'secondaryRepointing'>): Promise<Ending> {
  const { deployment } = input;
  // 0.-1. Read everything and refuse if needed. People approve the plan while the key holders are asked.
  const approved = await approvePlan<RepointingRoute>(run, {
    input,
    assess: (call, again) => call.assessSecondaryRepointing({ input, ...again }),
    gate: 'repoint',
    tokens: ({ tokenSource, secondary }) =>
      tokenSource && {
        source: tokenSource,
        targets: [{ cluster: secondary, uses: ['dr.update-primary', 'dr.operation-token.delete'] }],
      },
  });
  if ('outcome' in approved) return approved;
  const { route, tokens, approvals } = approved;

  // 2. Point it at the primary, and verify that it follows.
  run.state.enterPhase('working');
  run.state.left.add(leftUndone(route), followingOf(route.secondary));
  const { kind, primary, secondary, filter, ...way } = route;
  const begin: BeginApproved = (carryOut) => approvals.begin('repoint', carryOut);
  const target = { deployment, primary, secondary, authority: approvals.authority, begin };
  const follows = await repointAsPlanned(run, target, tokens, filter, way);

  // 3. Compare the data, as far as that is possible.
  if (follows) await compareRoots(run, { deployment, kind, primary, secondary }, filter?.filter);

  // 4. Delete what this run made, and read the final state for the report.
  await finishRun(run, deployment, tokens);
  return { outcome: 'completed' };
}

function leftUndone({ kind, primary, secondary }: RepointingRoute): string {
  return kind === 'dr'
    ? `${secondary} has not been confirmed to stream from ${primary}. Read its DR status; if it does not follow, start secondaryRepointing again.`
    : `${secondary} has not been confirmed to follow ${primary} with its filter. Read its performance status and its dynamic filter on both clusters; start secondaryRepointing again, or filterReconciliation if only the filter is wrong.`;
}
