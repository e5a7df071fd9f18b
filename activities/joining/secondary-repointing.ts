import type { PerformancePromotionActivities } from '../../src/contracts/activities';
import { isRunbookError } from '../../src/errors';
import type { ActivityDependencies } from '../dependencies';
import type { Clusters } from '../clusters';
import { execute } from '../execution';
import { readKind } from './onboarding-read';
import { awaitState } from '../read-act-confirm';

/** Roots are read for this long at most: the activity must end within its time. */
const ROOTS_BUDGET_MS = 30_000;

type RepointingActivities = Pick<PerformancePromotionActivities, 'compareMerkleRoots'>;

/** A secondary follows another primary (interface 4.1, 4.2: `update-primary`; facts 2.11, 8.11, 9.9). */
export function createSecondaryRepointingActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): RepointingActivities {
  return {
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
