import type { RunbookActivities } from '../../src/contracts/activities';
import type { Clusters } from '../clusters';
import type { ActivityDependencies } from '../dependencies';
import type { Execution } from '../execution';
import { execute, executeChange } from '../execution';
import { describeReplication, heartbeatAge, isAlive } from '../observe';
import { awaitState } from '../read-act-confirm';
import { issueActivationToken } from './activation-token';
import { enableSecondary } from './enable-secondary';
import { readKind } from './onboarding-read';
import { updatePrimary } from './update-primary';

/** Attaching a secondary to a primary (interface 4.1, 4.2: `secondary-token`, `update-primary`, `enable`; facts 2.11, 4). */
export function createSecondaryJoiningActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<RunbookActivities, 'issueActivationToken' | 'updatePrimary' | 'enableSecondary' | 'awaitDrStreaming'> {
  const means = (execution: Execution) => ({ dependencies, clusters, execution });
  return {
    issueActivationToken: executeChange((input, execution) => issueActivationToken(means(execution), input)),
    updatePrimary: executeChange((input, execution) => updatePrimary(means(execution), input)),
    enableSecondary: executeChange((input, execution) => enableSecondary(means(execution), input)),

    awaitDrStreaming: execute(async ({ deployment, primary, secondary }, execution) => {
      const { signal } = execution;
      const source = clusters.of(deployment, primary);
      const target = clusters.of(deployment, secondary);
      const { limits } = clusters.deployment(deployment);
      let needed: bigint | undefined;
      const state = await awaitState(execution, {
        read: async () => {
          const dr = await readKind(target, 'dr', signal);
          const from = await readKind(source, 'dr', signal);
          needed ??= from.lastWal === undefined ? undefined : BigInt(from.lastWal);
          return { dr, from };
        },
        until: ({ dr, from }) => {
          const streams = dr.mode === 'secondary' && dr.state === 'stream-wals' && isAlive(dr, limits.heartbeatAgeMs);
          // 0 means that nothing was streamed yet, which equal roots can prove to be enough.
          const caughtUp =
            (needed !== undefined && BigInt(dr.lastRemoteWal ?? '0') >= needed) ||
            (dr.merkleRoot !== undefined && dr.merkleRoot === from.merkleRoot);
          return streams && caughtUp;
        },
        budgetMs: limits.streamingMs,
        describe: ({ dr }) => describeReplication(dr),
        needed: `${secondary} streams from ${primary}, connected and caught up`,
        cluster: secondary,
      });
      const age = heartbeatAge(state.dr);
      return {
        state: state.dr.state ?? '',
        connectedTo: state.dr.peers.find((peer) => peer.connected)?.clusterAddress,
        at: Date.now(),
        observed: `${describeReplication(state.dr)}, heartbeat ${age === undefined ? 'age not told' : `${Math.round(age / 1000)} s old`}`,
      };
    }),
  };
}
