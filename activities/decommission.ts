import type { Authority, DecommissionActivities } from '../src/contracts/activities';
import type { OperationTokenReference } from '../src/contracts/ceremony';
import type { ReplicationKind, TokenUse } from '../src/contracts/runbook-inputs';
import { isRunbookError } from '../src/errors';
import type { ActivityDependencies } from './dependencies';
import type { ClusterAccess, Clusters } from './support/clusters';
import { assessDecommission } from './support/ending/decommission-assessment';
import type { Execution } from './support/execution';
import { execute, executeChange } from './support/execution';
import { describeReplication } from './support/observe';
import { openOperationToken } from './support/operation-token';
import { CHANGE_TIMEOUT_MS, awaitState } from './support/read-act-confirm';
import type { Acting } from './support/ending/replication-end';
import {
  disablePrimary,
  disableSecondary,
  forgetPrimary,
  inWords,
  readKind,
  revoke,
} from './support/ending/replication-end';
import { assessTeardown } from './support/ending/teardown-assessment';

/** Secondaries are revoked, and replication ends (interface 4.1, 4.2; facts 2.4, 2.6, 2.10, 8.7). */
export function createDecommissionActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): DecommissionActivities {
  const acting = (
    kind: ReplicationKind,
    input: { readonly deployment: string; readonly cluster: string; readonly authority: Authority },
    execution: Execution,
  ): Acting => ({ dependencies, clusters, execution, kind, input });
  /** For calls with the credential of the cluster, read anew for each. */
  const own = async (access: ClusterAccess, { signal }: Execution) => ({
    token: await access.credential(),
    signal,
    timeoutMs: CHANGE_TIMEOUT_MS,
  });
  const operationToken = (
    access: ClusterAccess,
    clusterId: string,
    token: OperationTokenReference,
    use: TokenUse,
    { run }: Execution,
  ) => openOperationToken(dependencies, run, access, clusterId, token, use);

  return {
    assessSecondaryDecommission: execute(({ input, ownFingerprint }, { signal }) =>
      assessDecommission(dependencies, clusters, input, ownFingerprint, signal),
    ),

    assessReplicationTeardown: execute(({ input, ownFingerprint }, { signal }) =>
      assessTeardown(dependencies, clusters, input, ownFingerprint, signal),
    ),

    revokeDrSecondary: executeChange((input, execution) =>
      revoke(acting('dr', input, execution), input, async (access) =>
        access.client.dr.primary.revokeSecondary({ id: input.id }, await own(access, execution)),
      ),
    ),

    revokePerformanceSecondary: executeChange((input, execution) =>
      revoke(acting('performance', input, execution), input, async (access) =>
        access.client.performance.primary.revokeSecondary({ id: input.id }, await own(access, execution)),
      ),
    ),

    awaitSecondaryGone: execute(async ({ deployment, cluster, kind, id, secondary }, execution) => {
      const { signal } = execution;
      const access = clusters.of(deployment, cluster);
      const target = secondary === undefined ? undefined : clusters.of(deployment, secondary);
      const read = async () => {
        const [onPrimary, onSecondary] = await Promise.all([
          readKind(access, kind, signal),
          target && readKind(target, kind, signal),
        ]);
        const known = (onPrimary.knownSecondaries ?? []).includes(id);
        const peer = onPrimary.peers.some((each) => each.id === id && each.connected);
        const connected = onSecondary?.peers.some((each) => each.connected) ?? false;
        return { known, peer, connected, onSecondary };
      };
      type Seen = Awaited<ReturnType<typeof read>>;
      const describe = ({ known, peer, onSecondary, connected }: Seen) =>
        [
          `${cluster} ${known ? 'knows' : 'does not know'} ${id} and ${peer ? 'is connected to it' : 'sees no such peer'}`,
          ...(onSecondary
            ? [`${secondary}: ${describeReplication(onSecondary)}, ${connected ? 'connected' : 'not connected'}`]
            : []),
        ].join('; ');
      const seen = await awaitState(execution, {
        read,
        until: ({ known, peer, connected }) => !known && !peer && !connected,
        budgetMs: clusters.deployment(deployment).limits.streamingMs,
        describe,
        needed: `${id} is gone on ${cluster}${secondary === undefined ? '' : `, and ${secondary} is not connected`}`,
        cluster,
      });
      return { observed: describe(seen) };
    }),

    forgetDrPrimary: executeChange((input, execution) =>
      forgetPrimary(acting('dr', input, execution), async (access, clusterId) => {
        const use = 'dr.update-primary';
        const drOperationToken = await operationToken(access, clusterId, input.token, use, execution);
        const { signal } = execution;
        const options = { signal, timeoutMs: CHANGE_TIMEOUT_MS };
        return access.client.dr.secondary.updatePrimary({ drOperationToken, token: '' }, options);
      }),
    ),

    forgetPerformancePrimary: executeChange((input, execution) =>
      forgetPrimary(acting('performance', input, execution), async (access) =>
        access.client.performance.secondary.updatePrimary({ token: '' }, await own(access, execution)),
      ),
    ),

    disableDrPrimary: executeChange((input, execution) =>
      disablePrimary(acting('dr', input, execution), async (access) =>
        access.client.dr.primary.disable(await own(access, execution)),
      ),
    ),

    disablePerformancePrimary: executeChange((input, execution) =>
      disablePrimary(acting('performance', input, execution), async (access) =>
        access.client.performance.primary.disable(await own(access, execution)),
      ),
    ),

    disableDrSecondary: executeChange((input, execution) =>
      disableSecondary(acting('dr', input, execution), async (access, clusterId) => {
        const drOperationToken = await operationToken(access, clusterId, input.token, 'dr.disable', execution);
        const { signal } = execution;
        return access.client.dr.secondary.disable({ drOperationToken }, { signal, timeoutMs: CHANGE_TIMEOUT_MS });
      }),
    ),

    disablePerformanceSecondary: executeChange((input, execution) =>
      disableSecondary(acting('performance', input, execution), async (access) =>
        access.client.performance.secondary.disable(await own(access, execution)),
      ),
    ),

    awaitReplicationDisabled: execute(async ({ deployment, cluster, kind }, execution) => {
      const { signal } = execution;
      const { client, entry } = clusters.of(deployment, cluster);
      const modeOf = async (node: string): Promise<string> => {
        try {
          return (
            await (kind === 'dr' ? client.dr.status({ node, signal }) : client.performance.status({ node, signal }))
          ).mode;
        } catch (error) {
          if (signal.aborted || !isRunbookError(error)) throw error;
          return `not readable (${error.code})`;
        }
      };
      const describe = (modes: readonly string[]) =>
        entry.addresses.map((address, index) => `${address} ${modes[index] ?? 'not read'}`).join('; ');
      const seen = await awaitState(execution, {
        read: () => Promise.all(entry.addresses.map(modeOf)),
        until: (modes) => modes.every((mode) => mode === 'disabled'),
        budgetMs: clusters.deployment(deployment).limits.demoteMs,
        describe,
        needed: `every node of ${cluster} says that ${inWords(kind)} replication is disabled`,
        cluster,
      });
      return { observed: describe(seen) };
    }),
  };
}
