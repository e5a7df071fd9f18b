import { ApplicationFailure } from '@temporalio/workflow';
import type {
  ActivationTokenResult,
  ChangeResult,
  PathsFilterFacts,
  SwitchoverRoute,
} from '../../src/contracts/activities';
import type { OperationTokens } from './operation-tokens';
import { inParallel } from './parallel';
import type { Choice } from './parking';
import type { Run } from './run';

/** How often the unit of public key, activation token and update-primary is done again before the step parks. */
const UNIT_TRIES = 3;

const STOP_HERE: Choice = {
  action: 'abort',
  effect: 'end the run here: service stays up, what is not re-protected yet is listed in the report',
};

/**
 * Makes `secondary` follow `primary` as DR secondary: operation token, public key, activation token, update-primary,
 * and then proof that it streams. Addresses are not allowed here; the token form wipes no data.
 *
 * @returns whether it streams; false where people skipped it
 */
async function followAsDrSecondary(
  run: Run,
  tokens: OperationTokens,
  deployment: string,
  primary: string,
  secondary: string,
): Promise<boolean> {
  const effect = `${secondary} stays without a primary; repeat it later with an activation token from ${primary}`;
  const token = await tokens.ofUnlessSkipped(secondary, effect);
  if (!token) return false;
  const joined = await repeatUnit(run, `Point ${secondary} at ${primary}`, effect, (call) => ({
    issue: () => call.issueDrActivationToken({ deployment, primary, secondary, token }),
    use: (activation) => call.updateDrPrimary({ deployment, primary, secondary, token, activation }),
  }));
  if (!joined) return false;
  const streaming = await run.skippableStep(
    `Wait until ${secondary} streams from ${primary}`,
    `whether ${secondary} catches up is not known at the end of this run`,
    (call) => call.awaitDrStreaming({ deployment, primary, secondary }),
    { note: (result) => result.observed, choices: [STOP_HERE] },
  );
  return streaming !== undefined;
}

/**
 * Re-points a performance secondary that does not follow by itself. Its path filter is written under the new id before
 * the token is used, so that what was filtered never leaves, and again after it: update-primary may drop it.
 *
 * @returns whether it was re-pointed; false where people skipped it
 */
async function repointPerformanceSecondary(
  run: Run,
  deployment: string,
  primary: string,
  secondary: string,
  oldId: string,
): Promise<boolean> {
  const newId = oldId;
  const effect = `${secondary} keeps looking for the old primary`;
  const copyFilter = (when: string, filter?: PathsFilterFacts) =>
    run.skippableStep(
      `Write the paths filter of ${secondary} (${when})`,
      `${secondary} may receive what its filter kept away from it`,
      (call) => call.copyPathsFilter({ deployment, cluster: primary, fromId: oldId, toId: newId, filter }),
      { note: (result) => result.observed, choices: [STOP_HERE] },
    );
  const before = await copyFilter('before update-primary');
  const joined = await repeatUnit(run, `Point ${secondary} at ${primary} (performance)`, effect, (call) => ({
    issue: () => call.issuePerformanceActivationToken({ deployment, primary, secondary, id: newId }),
    use: (activation) => call.updatePerformancePrimary({ deployment, primary, secondary, activation }),
  }));
  await copyFilter('after update-primary', before?.filter);
  if (!joined) return false;
  const compared = await run.skippableStep(
    `Compare the dynamic filter of ${secondary} on both sides`,
    'whether both sides filter the same is not known',
    (call) => call.compareDynamicFilters({ deployment, primary, secondary, id: newId }),
    { note: (result) => result.observed, choices: [STOP_HERE] },
  );
  if (compared && !compared.equal) {
    run.state.finding({
      severity: 'critical',
      code: 'dynamic-filter-differs',
      text: `The dynamic filter of ${secondary} differs between ${primary} and ${secondary}: ${compared.observed}`,
      next: `Compare the paths filter of ${secondary} with what it must not see, before clients write again.`,
    });
  }
  return true;
}

interface Unit {
  readonly issue: () => Promise<ActivationTokenResult>;
  readonly use: (activation: ActivationTokenResult) => Promise<ChangeResult & { readonly keyLost?: boolean }>;
}

/** Public key, activation token and update-primary are one unit: where the private key was lost in between, all three again. */
async function repeatUnit(
  run: Run,
  name: string,
  effect: string,
  unit: (call: Parameters<Parameters<Run['step']>[1]>[0]) => Unit,
): Promise<boolean> {
  const joined = await run.skippableStep(
    name,
    effect,
    async (call) => {
      const { issue, use } = unit(call);
      for (let tries = 1; ; tries += 1) {
        const result = await use(await issue());
        if (!result.keyLost) return result;
        if (tries === UNIT_TRIES) {
          throw ApplicationFailure.create({
            type: 'STATE_DIVERGED',
            nonRetryable: true,
            message: `The activation token could not be used ${UNIT_TRIES} times in a row: the secondary's active node changed each time.`,
            details: [
              {
                observed: result.observed,
                needed: 'one stable active node',
                next: 'Find out why the active node changes, then retry.',
              },
            ],
          });
        }
      }
    },
    { note: (result) => result.observed, choices: [STOP_HERE] },
  );
  return joined !== undefined;
}

/** Makes every secondary follow the primary, in parallel and each on its own. Gives what people still have to do. */
async function followAll(
  run: Run,
  deployment: string,
  primary: string,
  secondaries: readonly string[],
  tokens: OperationTokens,
): Promise<string[]> {
  const followed = await inParallel(
    secondaries.map((secondary) => followAsDrSecondary(run, tokens, deployment, primary, secondary)),
  );
  return secondaries
    .filter((_, index) => !followed[index])
    .map(
      (secondary) =>
        `${secondary} does not follow ${primary}: issue an activation token on ${primary} and use it with update-primary on ${secondary}.`,
    );
}

/** Performance secondaries follow by themselves, or are re-pointed with their filters. */
async function performanceFollows(
  run: Run,
  deployment: string,
  secondaries: readonly string[],
  primary: string,
): Promise<string[]> {
  if (secondaries.length === 0) return [];
  const seen = await run.skippableStep(
    'Wait until the performance secondaries follow',
    'whether performance secondaries follow is not known',
    (call) => call.awaitPerformanceSecondaries({ deployment, primary, secondaries }),
    {
      note: ({ following }) =>
        following.map(({ cluster, follows }) => `${cluster} ${follows ? 'follows' : 'does not follow'}`).join(', '),
    },
  );
  const lost = seen?.following.filter((each) => !each.follows) ?? [];
  const left: string[] = [];
  for (const { cluster, id } of lost) {
    if (await repointPerformanceSecondary(run, deployment, primary, cluster, id ?? cluster)) continue;
    left.push(
      `${cluster} does not follow ${primary}: write its paths filter on ${primary} first, then use a performance activation token with update-primary on ${cluster}, then write the filter again.`,
    );
  }
  return left;
}

/** After a change of the primary: each secondary in parallel and on its own. Gives what people still have to do. */
export async function restoreProtection(
  run: Run,
  deployment: string,
  route: SwitchoverRoute,
  tokens: OperationTokens,
  served: 'new' | 'old',
): Promise<string[]> {
  const [primary, former] = served === 'new' ? [route.to, route.from] : [route.from, route.to];
  const rejoins = served === 'old' || route.rejoin;
  const secondaries = [...(rejoins ? [former] : []), ...route.otherDrSecondaries];
  const notFollowing = await inParallel<string[]>([
    followAll(run, deployment, primary, secondaries, tokens),
    performanceFollows(run, deployment, route.performanceSecondaries, primary),
  ]);
  const left = notFollowing.flat();
  return rejoins
    ? left
    : [
        ...left,
        `${former} stays out until it is upgraded to the version of ${primary}; then give it an activation token from ${primary}.`,
      ];
}
