import type { RunbookActivities } from '../src/contracts/activities';
import { isRunbookError } from '../src/errors';
import type { Secret } from '../src/secret';
import type { ActivityDependencies } from './dependencies';
import { readDr } from './dr-roles';
import type { ClusterAccess, Clusters } from './support/clusters';
import type { Execution } from './support/execution';
import { execute, executeChange } from './support/execution';
import type { Joining } from './support/onboarding/join-secondary';
import { issueFor, readPrimary, updatePrimaryWith } from './support/onboarding/join-secondary';
import { describeReplication, heartbeatAge, isAlive } from './support/observe';
import { awaitClusterId, openOperationToken } from './support/operation-token';
import { CHANGE_TIMEOUT_MS, awaitState } from './support/read-act-confirm';
import { verifyRepointing } from './support/following/repoint-authority';

/** How long a secondary that does not answer is waited for before its step parks, ms. */
const ANSWER_BUDGET_MS = 30_000;

/** Re-attaching a DR secondary to its primary by token (interface 4.1: `secondary-token`, `update-primary`; facts 2.11, 4). */
export function createDrSecondaryActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<RunbookActivities, 'issueDrActivationToken' | 'updateDrPrimary' | 'awaitDrStreaming'> {
  const joiningOf = async (
    { deployment, primary, secondary }: { deployment: string; primary: string; secondary: string },
    execution: Execution,
  ): Promise<Joining> => {
    const target = clusters.of(deployment, secondary);
    const { heartbeatAgeMs, streamingMs } = clusters.deployment(deployment).limits;
    return {
      kind: 'dr',
      source: clusters.of(deployment, primary),
      target,
      clusterId: await awaitClusterId(target, execution, Math.min(ANSWER_BUDGET_MS, streamingMs)),
      heartbeatAgeMs,
      read: (access) => readDr(access, execution.signal),
    };
  };
  return {
    issueDrActivationToken: executeChange(async (input, execution) => {
      const joining = await joiningOf(input, execution);
      await verifyRepointing(dependencies, execution, input.deployment, joining, input.authority, { begun: false });
      const { source, target, clusterId } = joining;
      const publicKey = async () => {
        const use = 'dr.update-primary';
        const token = await openOperationToken(dependencies, execution.run, target, clusterId, input.token, use);
        return generatePublicKey(target, token, execution.signal);
      };
      return issueFor(dependencies, execution, joining, {
        publicKey,
        secondaryToken: (...call) => source.client.dr.primary.secondaryToken(...call),
        revokeSecondary: (...call) => source.client.dr.primary.revokeSecondary(...call),
      });
    }),

    updateDrPrimary: executeChange(async (input, execution) => {
      const joining = await joiningOf(input, execution);
      const { target, clusterId } = joining;
      await verifyRepointing(dependencies, execution, input.deployment, joining, input.authority, { begun: true });
      await readPrimary(joining);
      return updatePrimaryWith(dependencies, execution, joining, input.activation, async () => {
        const use = 'dr.update-primary';
        const token = await openOperationToken(dependencies, execution.run, target, clusterId, input.token, use);
        return (parameters) =>
          target.client.dr.secondary.updatePrimary(
            { drOperationToken: token, ...parameters },
            { signal: execution.signal, timeoutMs: CHANGE_TIMEOUT_MS },
          );
      });
    }),

    awaitDrStreaming: execute(async ({ deployment, primary, secondary }, execution) => {
      const { signal } = execution;
      const source = clusters.of(deployment, primary);
      const target = clusters.of(deployment, secondary);
      const { limits } = clusters.deployment(deployment);
      let needed: bigint | undefined;
      const state = await awaitState(execution, {
        read: async () => {
          const dr = await readDr(target, signal);
          const from = await readDr(source, signal);
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

/**
 * The public-key flow needs no call from the secondary to the primary's API. Which token the call takes on a demoted
 * cluster differs by version (facts, points that only a real service settles): the operation token first, then the
 * cluster's own credential, else the wrapped form is used.
 */
async function generatePublicKey(target: ClusterAccess, operationToken: Secret, signal: AbortSignal) {
  const tokens = [() => Promise.resolve(operationToken), () => target.credential()];
  for (const token of tokens) {
    try {
      return await target.client.dr.secondary.generatePublicKey({
        token: await token(),
        signal,
        timeoutMs: CHANGE_TIMEOUT_MS,
      });
    } catch (error) {
      if (
        !isRunbookError(error) ||
        !['PERMISSION_DENIED', 'BAD_REQUEST', 'NOT_FOUND', 'CREDENTIAL_UNAVAILABLE', 'SERVICE_ERROR'].includes(
          error.code,
        )
      )
        throw error;
    }
  }
  return undefined;
}
