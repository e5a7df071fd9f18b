import type { Assessment, PerformancePromotionActivities, RepointingRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { SecondaryRepointingInput } from '../../src/contracts/runbook-inputs';
import { isRunbookError } from '../../src/errors';
import { findCluster, findDeployment } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { execute } from '../execution';
import { primaryAddresses } from './following';
import { mayCall } from './onboarding-primary';
import { readKind } from './onboarding-read';
import { gateFacts, observeDeployment, siteFacts } from '../approvals/planning';
import { awaitState } from '../read-act-confirm';
import { repointingPlan } from '../plans/repointing-plan';
import { judgeRepointing } from '../checks/repointing-rules';
import { UPDATE_PRIMARY } from '../checks/switchover-facts';
import { assessTokenSource } from '../tokens/token-source';
import { findFilter } from '../filters/wanted-filter';

/** Roots are read for this long at most: the activity must end within its time. */
const ROOTS_BUDGET_MS = 30_000;

type RepointingActivities = Pick<PerformancePromotionActivities, 'assessSecondaryRepointing' | 'compareMerkleRoots'>;

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
        site: await siteFacts(dependencies, input.deployment),
        gates: { repoint: gateFacts(inventory, deployment, 'repoint') },
      };
      const source = clusters.of(input.deployment, input.primary);
      const target = clusters.of(input.deployment, input.secondary);
      const addresses = await primaryAddresses(source, signal).catch((error: unknown): ReadonlySet<string> => {
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

/** What the worker's credential must be able to do on the primary, for the token form. */
function neededOn({ kind }: SecondaryRepointingInput, { filter }: RepointingRoute): Record<string, readonly string[]> {
  const base = `sys/replication/${kind}/primary`;
  return {
    [`${base}/secondary-token`]: ['update', 'sudo'],
    [`${base}/revoke-secondary`]: ['update'],
    ...(filter?.filter === undefined ? {} : { [`${base}/paths-filter/${filter.id}`]: ['read', 'create|update'] }),
  };
}
