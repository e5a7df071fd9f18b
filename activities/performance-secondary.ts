import type { RunbookActivities } from '../src/contracts/activities';
import { isRunbookError } from '../src/errors';
import { openValue } from '../src/secrets';
import type { ActivityDependencies } from './dependencies';
import { ACTIVATION_TOKEN_SECONDS, clusterAddressesOf, follows, sealActivationToken } from './dr-secondary';
import { issueActivationToken } from './support/activation-tokens';
import type { ClusterAccess, Clusters } from './support/clusters';
import { execute, executeChange } from './support/execution';
import { describeReplication, isAlive, observeReplication } from './support/observe';
import { readClusterId } from './support/operation-token';
import { CHANGE_TIMEOUT_MS, awaitState, readActConfirm } from './support/read-act-confirm';

const ISSUE_BUDGET_MS = 60_000;
const POINTED_BUDGET_MS = 30_000;
/** A performance secondary finds the new primary through addresses that it learned before; minutes are not needed. */
const FOLLOW_BUDGET_MS = 60_000;

type PerformanceActivities = Pick<
  RunbookActivities,
  | 'awaitPerformanceSecondaries'
  | 'copyPathsFilter'
  | 'issuePerformanceActivationToken'
  | 'updatePerformancePrimary'
  | 'compareDynamicFilters'
>;

/** Performance secondaries after a DR promotion: do they follow, else re-point them with their filters (interface 4.2, facts 6). */
export function createPerformanceSecondaryActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): PerformanceActivities {
  return {
    awaitPerformanceSecondaries: execute(async ({ deployment, primary, secondaries }, execution) => {
      const { signal } = execution;
      const { limits } = clusters.deployment(deployment);
      const addresses = await clusterAddressesOf(clusters.of(deployment, primary), signal);
      const following = await Promise.all(
        secondaries.map(async (cluster) => {
          const access = clusters.of(deployment, cluster);
          let id: string | undefined;
          try {
            const seen = await awaitState(execution, {
              read: async () => {
                const state = await readPerformance(access, signal);
                id = state.secondaryId ?? id;
                return state;
              },
              until: (state) =>
                follows(state, addresses) && state.state === 'stream-wals' && isAlive(state, limits.heartbeatAgeMs),
              budgetMs: Math.min(FOLLOW_BUDGET_MS, limits.streamingMs),
              describe: describeReplication,
              needed: `${cluster} follows ${primary}`,
              cluster,
              pollMs: 1_000,
            });
            return { cluster, follows: true, observed: describeReplication(seen), id };
          } catch (error) {
            if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
            return { cluster, follows: false, observed: error.observed ?? 'not readable', id };
          }
        }),
      );
      return { following };
    }),

    copyPathsFilter: executeChange(async ({ deployment, cluster, fromId, toId, filter }, execution) => {
      const { signal } = execution;
      const access = clusters.of(deployment, cluster);
      const token = await access.credential();
      const filters = access.client.performance.primary.pathsFilter;
      const wanted = filter ?? (await filters.read(fromId, { token, signal }));
      if (!wanted) {
        return {
          outcome: 'already',
          observed: `${cluster} has no paths filter for ${fromId}`,
          confirmedAt: Date.now(),
          calls: 0,
        };
      }
      const same = (mode: string, paths: readonly string[]) =>
        mode === wanted.mode && JSON.stringify([...paths].sort()) === JSON.stringify([...wanted.paths].sort());
      const changed = await readActConfirm(execution, {
        read: () => filters.read(toId, { token, signal }),
        until: (found) => found !== undefined && same(found.mode, found.paths),
        budgetMs: 30_000,
        describe: (found) => (found ? `${found.mode} ${found.paths.join(', ')}` : 'no filter'),
        needed: `the filter of ${fromId} under ${toId}`,
        cluster,
        act: () => filters.write(toId, wanted, { token, signal, timeoutMs: CHANGE_TIMEOUT_MS }),
      });
      return {
        outcome: changed.outcome,
        observed: `${wanted.mode} ${wanted.paths.join(', ')}`,
        calledAt: changed.calledAt,
        confirmedAt: Date.now(),
        calls: changed.calls,
        filter: wanted,
      };
    }),

    issuePerformanceActivationToken: executeChange(async ({ deployment, primary, secondary, id }, execution) => {
      const { signal, run } = execution;
      const source = clusters.of(deployment, primary);
      const target = clusters.of(deployment, secondary);
      const clusterId = await readClusterId(target, signal);
      if (follows(await readPerformance(target, signal), await clusterAddressesOf(source, signal)))
        return { id, form: 'none', revokedBefore: false };
      const publicKey = await target.client.performance.secondary
        .generatePublicKey({ token: await target.credential(), signal, timeoutMs: CHANGE_TIMEOUT_MS })
        .catch((error: unknown) => {
          if (isRunbookError(error) && error.outcomeKnown) return undefined;
          throw error;
        });
      const issued = await issueActivationToken(execution, {
        id,
        cluster: primary,
        budgetMs: ISSUE_BUDGET_MS,
        knownIds: async () => (await readPerformance(source, signal)).knownSecondaries ?? [],
        issue: async () =>
          source.client.performance.primary.secondaryToken(
            { id, ttl: `${ACTIVATION_TOKEN_SECONDS}s`, secondaryPublicKey: publicKey?.publicKey },
            { token: await source.credential(), signal, timeoutMs: CHANGE_TIMEOUT_MS },
          ),
        revoke: async () =>
          source.client.performance.primary.revokeSecondary(
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
          run,
          { source: primary, target: secondary, clusterId, use: 'performance.update-primary' },
          issued.token,
        ),
      };
    }),

    updatePerformancePrimary: executeChange(async ({ deployment, primary, secondary, activation }, execution) => {
      const { signal, run } = execution;
      const source = clusters.of(deployment, primary);
      const target = clusters.of(deployment, secondary);
      const clusterId = await readClusterId(target, signal);
      const addresses = await clusterAddressesOf(source, signal);
      const lost = (observed: string) => ({
        outcome: 'done' as const,
        observed,
        confirmedAt: Date.now(),
        calls: 0,
        keyLost: true,
      });
      const observed = `${secondary} knows ${primary} as its performance primary`;
      if (follows(await readPerformance(target, signal), addresses))
        return { outcome: 'already', observed, confirmedAt: Date.now(), calls: 0 };
      if (activation.token === undefined) return lost('there is no activation token yet');
      const token = await openValue(dependencies.sealKeyring, run, activation.token, {
        kind: 'activation-token',
        cluster: secondary,
        clusterId,
        use: 'performance.update-primary',
        expectedSource: primary,
      });
      if (activation.keyNode !== undefined && (await target.client.activeNode({ signal })) !== activation.keyNode)
        return lost(`the active node of ${secondary} changed`);
      const wrapped = activation.form === 'wrapped';
      const credential = await target.credential();
      try {
        const changed = await readActConfirm(execution, {
          read: () => readPerformance(target, signal),
          until: (state) => follows(state, addresses),
          budgetMs: POINTED_BUDGET_MS,
          describe: describeReplication,
          needed: observed,
          cluster: secondary,
          act: () =>
            target.client.performance.secondary.updatePrimary(
              {
                token,
                primaryApiAddr: wrapped ? source.entry.apiAddressForPeers : undefined,
                caFile: wrapped ? source.entry.caFileOnPeers : undefined,
              },
              { token: credential, signal, timeoutMs: CHANGE_TIMEOUT_MS },
            ),
        });
        return {
          outcome: changed.outcome,
          observed,
          calledAt: changed.calledAt,
          confirmedAt: Date.now(),
          calls: changed.calls,
        };
      } catch (error) {
        if (isRunbookError(error) && ['OUTCOME_UNKNOWN', 'CONFIRMATION_TIMEOUT', 'BAD_REQUEST'].includes(error.code)) {
          return lost(`${secondary} did not take the activation token (${error.code})`);
        }
        throw error;
      }
    }),

    compareDynamicFilters: execute(async ({ deployment, primary, secondary, id }, execution) => {
      const { signal } = execution;
      const source = clusters.of(deployment, primary);
      const target = clusters.of(deployment, secondary);
      const read = async () => {
        const [onPrimary, onSecondary] = await Promise.all([
          source.client.performance.primary.dynamicFilter(id, { token: await source.credential(), signal }),
          target.client.performance.secondary.dynamicFilter(id, { token: await target.credential(), signal }),
        ]);
        return { onPrimary: filterText(onPrimary), onSecondary: filterText(onSecondary) };
      };
      try {
        const { onPrimary } = await awaitState(execution, {
          read,
          until: (both) => both.onPrimary === both.onSecondary,
          budgetMs: 20_000,
          describe: (both) => `${primary}: ${both.onPrimary}; ${secondary}: ${both.onSecondary}`,
          needed: 'the same dynamic filter on both sides',
        });
        return { equal: true, observed: `the same on both sides: ${onPrimary}` };
      } catch (error) {
        if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
        return { equal: false, observed: error.observed ?? 'not readable' };
      }
    }),
  };
}

function filterText(
  filter: { readonly mounts: readonly string[]; readonly namespaces: readonly string[] } | undefined,
): string {
  if (!filter) return 'none';
  return `mounts ${[...filter.mounts].sort().join(', ') || 'none'}, namespaces ${[...filter.namespaces].sort().join(', ') || 'none'}`;
}

async function readPerformance(access: ClusterAccess, signal: AbortSignal) {
  access.client.forgetActiveNode();
  return observeReplication(await access.client.performance.status({ signal }));
}
