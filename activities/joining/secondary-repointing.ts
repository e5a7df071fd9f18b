import type { Assessment, PerformancePromotionActivities, RepointingRoute } from '../../src/contracts/activities';
import type { ClusterObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { SecondaryRepointingInput } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../../src/errors';
import { findCluster, findDeployment } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import type { ClusterAccess, Clusters } from '../clusters';
import { execute, executeChange } from '../execution';
import { clusterAddressesOf, follows } from './join-secondary';
import { describeReplication, isAlive } from '../observe';
import { mayCall } from './onboarding-primary';
import { readKind } from './onboarding-read';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import { CHANGE_TIMEOUT_MS, awaitState, beforeSending, readActConfirm } from '../read-act-confirm';
import { pairOf, verifyFollowing } from './repoint-authority';
import { repointingPlan } from '../plans/repointing-plan';
import { judgeRepointing } from '../checks/repointing-rules';
import { UPDATE_PRIMARY } from '../checks/switchover-facts';
import { assessTokenSource } from '../tokens/token-source';
import { findFilter, requireFilter } from '../filters/wanted-filter';

const POINTED_BUDGET_MS = 30_000;
/** Roots are read for this long at most: the activity must end within its time. */
const ROOTS_BUDGET_MS = 30_000;

type RepointingActivities = Pick<
  PerformancePromotionActivities,
  'assessSecondaryRepointing' | 'updatePerformancePrimaryByAddresses' | 'compareMerkleRoots'
>;

/** A secondary follows another primary (interface 4.1, 4.2: `update-primary`; facts 2.11, 8.11, 9.9). */
export function createSecondaryRepointingActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): RepointingActivities {
  const { inventory } = dependencies;
  return {
    assessSecondaryRepointing: execute(async ({ input, ownFingerprint }, { signal }) => {
      const deployment = findDeployment(inventory, input.deployment);
      for (const name of [input.primary, input.secondary]) findCluster(deployment, name);
      const observations = await observeDeployment(clusters, input.deployment, signal);
      const of = (name: string): ClusterObservation => {
        const found = observations.find(({ cluster }) => cluster === name);
        if (!found) throw new TypeError(`no observation of ${name}`);
        return found;
      };
      const [primary, secondary] = [of(input.primary), of(input.secondary)];
      const base = {
        observations,
        site: siteFacts(dependencies, input.deployment),
        gates: { repoint: gateFacts(inventory, deployment, 'repoint') },
      };
      const source = clusters.of(input.deployment, input.primary);
      const target = clusters.of(input.deployment, input.secondary);
      const addresses = await clusterAddressesOf(source, signal).catch((error: unknown): ReadonlySet<string> => {
        if (!isRunbookError(error) || signal.aborted) throw error;
        return new Set();
      });
      const judged = judgeRepointing({ input, deployment, primary, secondary, observations, addresses });
      // Without the roles there is nothing to ask filters, tokens and rights of.
      if (judged.some(({ verdict }) => verdict === 'fail')) return { ...base, preconditions: judged };
      const more: Precondition[] = [];
      let ofTokens: readonly string[] = [];
      let route: RepointingRoute = {
        kind: input.kind,
        primary: input.primary,
        secondary: input.secondary,
        form: input.form,
      };
      if (input.kind === 'dr') {
        const {
          source: tokenSource,
          preconditions,
          warnings,
        } = await assessTokenSource({
          deployment,
          secondary: target,
          observation: secondary,
          primary: source,
          wanted: input.tokenSource,
          paths: [UPDATE_PRIMARY],
          ownFingerprint,
          signal,
        });
        more.push(...preconditions);
        ofTokens = warnings;
        route = { ...route, tokenSource };
      } else {
        const { known, precondition } = await findFilter(
          source,
          target,
          deployment.pathsFilters[input.secondary],
          signal,
        );
        more.push(precondition);
        const id = secondary.performance?.secondaryId;
        route = { ...route, filter: known, ...(input.form === 'addresses' && id ? { addressesId: id } : {}) };
        const path = 'sys/replication/performance/secondary/update-primary';
        more.push(...(await mayCall(target, { [path]: ['update'] }, signal)));
      }
      if (input.form === 'token') more.push(...(await mayCall(source, neededOn(input, route), signal)));
      const preconditions = [...judged, ...more];
      const assessed: Assessment<RepointingRoute> = { ...base, preconditions, route };
      return { ...assessed, plan: repointingPlan(input, primary, secondary, route, preconditions, ofTokens) };
    }),

    updatePerformancePrimaryByAddresses: executeChange(async (input, execution) => {
      const { deployment, primary, secondary, expected, authority } = input;
      const { signal } = execution;
      const source = clusters.of(deployment, primary);
      const target = clusters.of(deployment, secondary);
      const pair = await pairOf(target, source, signal);
      const verify = (begun: boolean) =>
        verifyFollowing(dependencies, execution, deployment, authority, {
          ...{ ...pair, form: 'addresses', filter: expected.filter, begun },
        });
      await verify(true);
      const { heartbeatAgeMs } = clusters.deployment(deployment).limits;
      const addresses = await clusterAddressesOf(source, signal);
      const before = await readKind(target, 'performance', signal);
      const observed = `${secondary} knows ${primary} as its performance primary`;
      const attached = (state: typeof before) => follows(state, addresses) && isAlive(state, heartbeatAgeMs);
      let seen = before;
      const changed = await readActConfirm(execution, {
        read: () => readKind(target, 'performance', signal),
        // One that knew the address before and was cut off proves nothing by knowing it still.
        until: (state) => (follows(before, addresses) ? attached(state) : follows(state, addresses)),
        budgetMs: POINTED_BUDGET_MS,
        describe: describeReplication,
        needed: observed,
        cluster: secondary,
        allow: (state) => {
          seen = state;
          if (state.mode === 'secondary' && state.secondaryId) return;
          throw new RunbookError('PRECONDITION_FAILED', `${secondary} cannot be re-pointed by addresses.`, {
            cluster: secondary,
            observed: `${describeReplication(state)}, id ${state.secondaryId ?? 'none'}`,
            needed: 'a performance secondary that was attached and not demoted since',
            next: 'Start secondaryRepointing with {"form": "token"}.',
            retryable: state.mode === 'unknown',
          });
        },
        act: async () => {
          // The step may have been parked for hours since the plan was judged.
          await beforeSending(async () => {
            requireKnowing(source, await readKind(source, 'performance', signal), secondary, seen);
            await requireFilter(source, secondary, seen.secondaryId ?? '', expected, signal);
            await verify(false);
          });
          execution.throwIfCancelled();
          return target.client.performance.secondary.updatePrimary(
            { updatePrimaryAddrs: [...addresses] },
            { token: await target.credential(), signal, timeoutMs: CHANGE_TIMEOUT_MS },
          );
        },
      });
      const { outcome, calledAt, calls } = changed;
      return { outcome, observed, calledAt, confirmedAt: Date.now(), calls };
    }),

    compareMerkleRoots: execute(async ({ deployment, primary, secondary, kind, filtered }, execution) => {
      if (filtered) {
        return {
          verdict: 'not-comparable' as const,
          observed: `${secondary} has a paths filter: its root differs from that of ${primary} by design`,
        };
      }
      const { signal } = execution;
      const root = async (cluster: string) =>
        (await readKind(clusters.of(deployment, cluster), kind, signal)).merkleRoot;
      let last: readonly (string | undefined)[] = [];
      try {
        await awaitState(execution, {
          read: async () => {
            last = await Promise.all([root(primary), root(secondary)]);
            return last;
          },
          until: ([above, below]) => above !== undefined && above === below,
          budgetMs: Math.min(ROOTS_BUDGET_MS, clusters.deployment(deployment).limits.merkleEvidenceMs),
          describe: ([above, below]) => `roots ${above ?? 'not told'} and ${below ?? 'not told'}`,
          needed: `equal Merkle roots of ${primary} and ${secondary}`,
        });
        return { verdict: 'equal' as const, observed: `the Merkle roots of ${primary} and ${secondary} are equal` };
      } catch (error) {
        if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
        return {
          verdict:
            last.length === 2 && !last.includes(undefined) ? ('not-seen-equal' as const) : ('not-readable' as const),
          observed: error.observed ?? 'not readable',
        };
      }
    }),
  };
}

/** Addresses bring no certificate: only a primary of the same set that knows the secondary takes it. */
function requireKnowing(
  { entry }: ClusterAccess,
  primary: ReplicationObservation,
  secondary: string,
  { secondaryId, setId }: ReplicationObservation,
): void {
  const known = primary.knownSecondaries ?? [];
  const sameSet = setId !== undefined && primary.setId === setId;
  if (primary.mode === 'primary' && sameSet && secondaryId && known.includes(secondaryId)) return;
  throw new RunbookError('PRECONDITION_FAILED', `${entry.name} would not take ${secondary} by addresses.`, {
    cluster: entry.name,
    observed: `${describeReplication(primary)}; set ${primary.setId ?? 'not told'}; known: ${known.join(', ') || 'nobody'}`,
    needed: `the performance primary of set ${setId ?? 'not told'} that knows ${secondaryId || 'an id of the secondary'}`,
    next: `Nothing was sent. Start secondaryRepointing of ${secondary} to the performance primary with {"form": "token"}.`,
  });
}

/** What the worker's credential must be able to do on the primary, for the token form. */
function neededOn({ kind }: SecondaryRepointingInput, { filter }: RepointingRoute): Record<string, readonly string[]> {
  const base = `sys/replication/${kind}/primary`;
  return {
    [`${base}/secondary-token`]: ['update', 'sudo'],
    [`${base}/revoke-secondary`]: ['update'],
    ...(filter?.filter === undefined ? {} : { [`${base}/paths-filter/${filter.id}`]: ['read', 'create|update'] }),
  };
}
