import type { ActivationToken } from '../src/client';
import type { ActivationTokenResult, RunbookActivities } from '../src/contracts/activities';
import type { ReplicationObservation } from '../src/contracts/observations';
import { RunbookError, isRunbookError } from '../src/errors';
import type { Secret } from '../src/secret';
import { openValue, sealValue } from '../src/secrets';
import type { ActivityDependencies } from './dependencies';
import { readDr } from './dr-roles';
import { issueActivationToken } from './support/activation-tokens';
import type { ClusterAccess, Clusters } from './support/clusters';
import { execute, executeChange } from './support/execution';
import { describeReplication, heartbeatAge, isAlive } from './support/observe';
import { awaitClusterId, openOperationToken } from './support/operation-token';
import { CHANGE_TIMEOUT_MS, awaitState, readActConfirm } from './support/read-act-confirm';

/** Life of an activation token: it is used at once. */
export const ACTIVATION_TOKEN_SECONDS = 600;
/** How long the new primary is given to become able to issue tokens, ms. */
const ISSUE_BUDGET_MS = 60_000;
const POINTED_BUDGET_MS = 30_000;
/** How long a secondary that does not answer is waited for before its step parks, ms. */
const ANSWER_BUDGET_MS = 30_000;

/** Re-attaching a DR secondary to its primary by token (interface 4.1: `secondary-token`, `update-primary`; facts 2.11, 4). */
export function createDrSecondaryActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): Pick<RunbookActivities, 'issueDrActivationToken' | 'updateDrPrimary' | 'awaitDrStreaming'> {
  return {
    issueDrActivationToken: executeChange(
      async ({ deployment, primary, secondary, token: reference }, execution): Promise<ActivationTokenResult> => {
        const { signal, run } = execution;
        const source = clusters.of(deployment, primary);
        const target = clusters.of(deployment, secondary);
        const { heartbeatAgeMs, streamingMs } = clusters.deployment(deployment).limits;
        const clusterId = await awaitClusterId(target, execution, Math.min(ANSWER_BUDGET_MS, streamingMs));
        const clusterAddresses = await clusterAddressesOf(source, signal);
        const id = clusterId;
        if (isAttached(await readDr(target, signal), clusterAddresses, heartbeatAgeMs))
          return { id, form: 'none', revokedBefore: false };

        const operationToken = await openOperationToken(
          dependencies,
          run,
          target,
          clusterId,
          reference,
          'dr.update-primary',
        );
        const publicKey = await generatePublicKey(target, operationToken, signal);
        const issued = await issueActivationToken(execution, {
          id,
          budgetMs: ISSUE_BUDGET_MS,
          cluster: primary,
          knownIds: async () => (await primaryStatus(source, signal)).knownSecondaries ?? [],
          issue: async () =>
            source.client.dr.primary.secondaryToken(
              { id, ttl: `${ACTIVATION_TOKEN_SECONDS}s`, secondaryPublicKey: publicKey?.publicKey },
              { token: await source.credential(), signal, timeoutMs: CHANGE_TIMEOUT_MS },
            ),
          revoke: async () =>
            source.client.dr.primary.revokeSecondary(
              { id },
              { token: await source.credential(), signal, timeoutMs: CHANGE_TIMEOUT_MS },
            ),
        });
        return {
          id,
          form: issued.token.form,
          keyNode: issued.token.form === 'encrypted' ? publicKey?.node : undefined,
          revokedBefore: issued.revokedBefore,
          token: await sealActivationToken(
            dependencies,
            execution.run,
            { source: primary, target: secondary, clusterId, use: 'dr.update-primary' },
            issued.token,
          ),
        };
      },
    ),

    updateDrPrimary: executeChange(
      async ({ deployment, primary, secondary, token: reference, activation }, execution) => {
        const { signal, run } = execution;
        const source = clusters.of(deployment, primary);
        const target = clusters.of(deployment, secondary);
        const { heartbeatAgeMs, streamingMs } = clusters.deployment(deployment).limits;
        const clusterId = await awaitClusterId(target, execution, Math.min(ANSWER_BUDGET_MS, streamingMs));
        await primaryStatus(source, signal);
        const clusterAddresses = await clusterAddressesOf(source, signal);
        const lost = (observed: string) => ({
          outcome: 'done' as const,
          observed,
          confirmedAt: Date.now(),
          calls: 0,
          keyLost: true,
        });

        const before = await readDr(target, signal);
        if (isAttached(before, clusterAddresses, heartbeatAgeMs)) {
          return {
            outcome: 'already',
            observed: `${secondary} knows ${primary} as its primary`,
            confirmedAt: Date.now(),
            calls: 0,
          };
        }
        if (before.mode !== 'secondary') {
          throw new RunbookError('PRECONDITION_FAILED', `${secondary} is no DR secondary.`, {
            cluster: secondary,
            observed: describeReplication(before),
            needed: 'secondary',
          });
        }
        if (activation.token === undefined) return lost('there is no activation token yet');
        const activationToken = await openValue(dependencies.sealKeyring, run, activation.token, {
          kind: 'activation-token',
          cluster: secondary,
          clusterId,
          use: 'dr.update-primary',
          expectedSource: primary,
        });
        if (activation.keyNode !== undefined && (await target.client.activeNode({ signal })) !== activation.keyNode) {
          return lost(`the active node of ${secondary} changed: the private key of the activation is gone`);
        }
        const drOperationToken = await openOperationToken(
          dependencies,
          run,
          target,
          clusterId,
          reference,
          'dr.update-primary',
        );
        const wrapped = activation.form === 'wrapped';
        try {
          const changed = await readActConfirm(execution, {
            read: () => readDr(target, signal),
            // A cluster that was promoted back is known to its secondary already, which it does not accept any more:
            // only a live connection proves anything then.
            until: (dr) =>
              follows(before, clusterAddresses)
                ? isAttached(dr, clusterAddresses, heartbeatAgeMs)
                : follows(dr, clusterAddresses),
            budgetMs: POINTED_BUDGET_MS,
            describe: describeReplication,
            needed: `${secondary} knows ${primary} as its primary`,
            cluster: secondary,
            act: () =>
              target.client.dr.secondary.updatePrimary(
                {
                  drOperationToken,
                  token: activationToken,
                  primaryApiAddr: wrapped ? source.entry.apiAddressForPeers : undefined,
                  caFile: wrapped ? source.entry.caFileOnPeers : undefined,
                },
                { signal, timeoutMs: CHANGE_TIMEOUT_MS },
              ),
          });
          return {
            outcome: changed.outcome,
            observed: `${secondary} knows ${primary} as its primary`,
            calledAt: changed.calledAt,
            confirmedAt: Date.now(),
            calls: changed.calls,
          };
        } catch (error) {
          // An activation token serves once: what did not take it needs another one.
          if (
            isRunbookError(error) &&
            ['OUTCOME_UNKNOWN', 'CONFIRMATION_TIMEOUT', 'BAD_REQUEST'].includes(error.code)
          ) {
            return lost(`${secondary} did not take the activation token (${error.code})`);
          }
          throw error;
        }
      },
    ),

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

/** Seals an activation token for the one activity that uses it. */
export async function sealActivationToken(
  dependencies: ActivityDependencies,
  run: Parameters<typeof sealValue>[1],
  binding: { readonly source: string; readonly target: string; readonly clusterId: string; readonly use: string },
  token: ActivationToken,
) {
  const { source, target, clusterId, use } = binding;
  return sealValue(
    dependencies.sealKeyring,
    run,
    {
      kind: 'activation-token',
      cluster: target,
      clusterId,
      uses: [use],
      src: source,
      expSeconds: ACTIVATION_TOKEN_SECONDS,
    },
    token.token,
  );
}

async function primaryStatus(source: ClusterAccess, signal: AbortSignal): Promise<ReplicationObservation> {
  const dr = await readDr(source, signal);
  if (dr.mode === 'primary') return dr;
  throw new RunbookError('PRECONDITION_FAILED', `${source.entry.name} is no DR primary.`, {
    cluster: source.entry.name,
    observed: describeReplication(dr),
    needed: 'primary',
    retryable: dr.mode === 'unknown',
  });
}

/** Addresses by which a secondary may know this primary: what the inventory advertises, and the active node's own. */
export async function clusterAddressesOf(source: ClusterAccess, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const { leaderClusterAddress } = await source.client.sys.leader({
    signal,
    node: await source.client.activeNode({ signal }),
  });
  const { advertisedClusterAddress } = source.entry;
  return new Set(
    [leaderClusterAddress, advertisedClusterAddress === 'node-address' ? undefined : advertisedClusterAddress].filter(
      (address) => address !== undefined,
    ),
  );
}

/** Done-criterion of update-primary (facts 2.11): the new primary is among the known ones. */
export function follows(replication: ReplicationObservation, clusterAddresses: ReadonlySet<string>): boolean {
  const known = [
    ...(replication.knownPrimaryClusterAddresses ?? []),
    ...(replication.primaryClusterAddress ? [replication.primaryClusterAddress] : []),
  ];
  return replication.mode === 'secondary' && known.some((address) => clusterAddresses.has(address));
}

/** Knows the primary and is connected to it: a primary that was demoted in between has forgotten its secondaries. */
function isAttached(
  replication: ReplicationObservation,
  clusterAddresses: ReadonlySet<string>,
  heartbeatAgeMs: number,
): boolean {
  return follows(replication, clusterAddresses) && isAlive(replication, heartbeatAgeMs);
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
