import type { ChangeResult, FailoverActivities } from '../../src/contracts/activities';
import { demandSameOutage } from '../approvals/approval-age';
import { gateOf, verifyOperation } from '../approvals/authority';
import { callHook } from '../hooks/run-hook';
import { readKind } from '../joining/onboarding-read';
import { identityOfLost } from '../plans/failover-sides';
import { beforeSending } from '../read-act-confirm';
import { awaitClusterId } from '../tokens/operation-token';
import type { Means } from './other-side';
import { awaitTold, demandGone } from './other-side';

type Fencing = Parameters<FailoverActivities['fenceLostPrimary']>[0];

/**
 * Runs the `fence` hook for a primary that is gone. The approved plan must allow it; right before the hook the signs are
 * read again, because hours may lie between the approval and this: a primary that serves again is not cut off.
 */
export async function fenceLostPrimary(
  means: Means,
  { deployment, from, to, authority }: Fencing,
): Promise<ChangeResult> {
  const { dependencies, clusters, execution } = means;
  const { inventory } = dependencies;
  const [access, lost] = [clusters.of(deployment, to), clusters.of(deployment, from)];
  const { promoteMs } = clusters.deployment(deployment).limits;
  const clusterId = await awaitClusterId(access, execution, promoteMs);
  const { setId } = await awaitTold(means, access);
  const plan = await verifyOperation(inventory, execution.run, deployment, authority, {
    operation: 'hook.fence',
    on: identityOfLost(lost.entry, setId),
    with: { cluster: to, clusterId },
  });
  const judged = { deployment, gate: gateOf('hook.fence'), requestedBy: plan.requestedBy, authority };
  await beforeSending(async () => {
    const sides = { deployment, kind: 'dr', cluster: to, otherCluster: from } as const;
    await demandGone(means, sides, plan, { kind: 'dr' });
    const state = await readKind(access, 'dr', execution.signal);
    await demandSameOutage(inventory, execution.run, judged, state);
  });
  return callHook(clusters, { deployment, hook: 'fence', from, to }, execution);
}
