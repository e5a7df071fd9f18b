import type { Authority, ChangeResult } from '../../src/contracts/activities';
import { demandSameOutage, gateOf, verifyOperation } from '../approvals/authority';
import { signsAgree } from '../checks/signs';
import { readSigns, signsText, spokeAgainst } from '../evidence/failover-evidence';
import { currentExecution } from '../execution';
import { callHook } from '../hooks/run-hook';
import { readKind } from '../joining/onboarding-read';
import { identityOfLost } from '../plans/failover-sides';
import { awaitState, beforeSending } from '../read-act-confirm';
import { awaitClusterId } from '../tokens/operation-token';
import { awaitTold, demandGone } from './other-side';

/** Beside the silence that is waited for: how long the signs may take to agree, ms. */
const SIGNS_BUDGET_MS = 30_000;

/** Waits until every sign says that the primary is gone, and for long enough. Fails where it answers. */
export async function awaitPrimaryGone(input: {
  readonly deployment: string;
  readonly from: string;
  readonly to: string;
  /** Further silent members that people name as gone. */
  readonly alsoGone?: readonly string[] | undefined;
}): Promise<{ readonly observed: string; readonly at: number }> {
  const { deployment, from, to, alsoGone } = input;
  const execution = currentExecution();
  const { clusters } = execution;
  const { primaryGoneMs } = clusters.deployment(deployment).limits;
  const signs = await awaitState(execution, {
    read: async () => {
      const judged = await readSigns(clusters, deployment, { from, to, alsoGone }, execution.signal);
      const [silence] = judged;
      if (silence?.verdict === 'fail') throw spokeAgainst([silence]);
      return judged;
    },
    until: signsAgree,
    budgetMs: primaryGoneMs + SIGNS_BUDGET_MS,
    describe: signsText,
    needed: `every sign that ${from} is gone`,
    cluster: from,
    pollMs: 500,
  });
  return { observed: signsText(signs), at: Date.now() };
}

/**
 * Runs the `fence` hook for a primary that is gone. The approved plan must allow it; right before the hook the signs are
 * read again, because hours may lie between the approval and this: a primary that serves again is not cut off.
 */
export async function fenceLostPrimary(input: {
  readonly deployment: string;
  readonly from: string;
  readonly to: string;
  readonly authority: Authority;
}): Promise<ChangeResult> {
  const { deployment, from, to, authority } = input;
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const [access, lost] = [clusters.of(deployment, to), clusters.of(deployment, from)];
  const { promoteMs } = clusters.deployment(deployment).limits;
  const clusterId = await awaitClusterId(access, execution, promoteMs);
  const { setId } = await awaitTold(access);
  const plan = await verifyOperation(input, {
    operation: 'hook.fence',
    on: identityOfLost(lost.entry, setId),
    with: { cluster: to, clusterId },
  });
  const judged = { deployment, gate: gateOf('hook.fence'), requestedBy: plan.requestedBy, authority };
  await beforeSending(async () => {
    await demandGone({ deployment, kind: 'dr', cluster: to, otherCluster: from }, plan, { kind: 'dr' });
    await demandSameOutage(judged, await readKind(access, 'dr', signal));
  });
  return callHook({ deployment, hook: 'fence', from, to });
}
