import type { ChangeResult, FailoverActivities } from '../../src/contracts/activities';
import type { ActivityDependencies } from '../dependencies';
import { demandGone } from './dr-failover-promotion';
import { readDr } from './dr-roles';
import { demandSameOutage } from '../approvals/approval-age';
import { gateOf, verifyOperation } from '../approvals/authority';
import type { Clusters } from '../clusters';
import type { Execution } from '../execution';
import { alsoGoneIn } from '../evidence/failover-evidence';
import { identityOfLost } from '../plans/failover-plan';
import { describeReplication } from '../observe';
import { awaitClusterId } from '../tokens/operation-token';
import { awaitState, beforeSending } from '../read-act-confirm';
import { runHook } from '../hooks/run-hook';

type Fencing = Parameters<FailoverActivities['fenceLostPrimary']>[0];

/**
 * Runs the `fence` hook for a primary that is gone. The approved plan must allow it; right before the hook the signs are
 * read again, because hours may lie between the approval and this: a primary that serves again is not cut off.
 */
export function fenceLostPrimary(dependencies: ActivityDependencies, clusters: Clusters) {
  return async ({ deployment, from, to, authority, step }: Fencing, execution: Execution): Promise<ChangeResult> => {
    const { signal, run } = execution;
    const [access, lost] = [clusters.of(deployment, to), clusters.of(deployment, from)];
    const { promoteMs: budgetMs } = clusters.deployment(deployment).limits;
    const clusterId = await awaitClusterId(access, execution, budgetMs);
    const { setId } = await awaitState(execution, {
      read: () => readDr(access, signal),
      until: () => true,
      budgetMs,
      describe: describeReplication,
      needed: `${to} tells its DR set`,
      cluster: to,
    });
    const plan = await verifyOperation(dependencies.inventory, run, deployment, authority, {
      operation: 'hook.fence',
      on: identityOfLost(lost.entry, setId),
      with: { cluster: to, clusterId },
    });
    const sides = { deployment, lost, cluster: to, alsoGone: alsoGoneIn(plan) };
    const { requestedBy } = plan;
    const judged = { deployment, gate: gateOf('hook.fence'), requestedBy, authority };
    await beforeSending(async () => {
      await demandGone(dependencies, clusters, execution, sides, {});
      await demandSameOutage(dependencies.inventory, run, judged, await readDr(access, signal));
    });
    return runHook(clusters, { deployment, hook: 'fence', from, to, step }, execution);
  };
}
