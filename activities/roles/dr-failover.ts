import type { FailoverActivities } from '../../src/contracts/activities';
import type { Clusters } from '../clusters';
import { signsAgree } from '../checks/signs';
import type { ActivityDependencies } from '../dependencies';
import { readSigns, signsText, spokeAgainst } from '../evidence/failover-evidence';
import { execute, executeChange } from '../execution';
import { awaitState } from '../read-act-confirm';
import { fenceLostPrimary } from './dr-failover-fence';

/** Beside the silence that is waited for: how long the signs may take to agree, ms. */
const SIGNS_BUDGET_MS = 30_000;

/** Unplanned change of the DR primary: the evidence, and the fence. */
export function createFailoverActivities(dependencies: ActivityDependencies, clusters: Clusters): FailoverActivities {
  return {
    awaitPrimaryGone: execute(async ({ deployment, from, to, alsoGone }, execution) => {
      const { primaryGoneMs } = clusters.deployment(deployment).limits;
      const signs = await awaitState(execution, {
        read: async () => {
          const judged = await readSigns(clusters, deployment, { from, to, alsoGone }, execution.signal);
          const [silence] = judged;
          if (silence?.verdict === 'fail') throw spokeAgainst([silence]);
          return judged;
        },
        until: signsAgree,
        budgetMs: primaryGoneMs + SIGNS_BUDGET_MS,
        describe: signsText,
        needed: `every sign that ${from} is gone`,
        cluster: from,
        pollMs: 500,
      });
      return { observed: signsText(signs), at: Date.now() };
    }),

    fenceLostPrimary: executeChange((input, execution) =>
      fenceLostPrimary({ dependencies, clusters, execution }, input),
    ),
  };
}
