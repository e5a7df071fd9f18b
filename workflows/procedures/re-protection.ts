import type { Authority, ExpectedFilter, KnownFilter } from '../../src/contracts/activities';
import type { StepCalls } from '../engine/activity-calls';
import { filterNotWritten } from './filter-skipped';
import type { JoinUnit } from './join-unit';
import { carryOutUnit } from './join-unit';
import type { OperationTokens } from './operation-tokens';
import { inParallel } from '../engine/parallel';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';

export const STOP_HERE: Choice = {
  action: 'abort',
  effect: 'end the run here: service stays up, what is not re-protected yet is listed in the report',
};

/** Who is to follow whom. */
export interface Following {
  readonly deployment: string;
  readonly primary: string;
  readonly secondary: string;
  /** Of a plan that allows this. */
  readonly authority: Authority;
  /** For a plan of its own, whose gate may be opened again. What comes after a promotion or a rejoin is never too old. */
  readonly begin?: Begin;
}

/** Carries out what begins something, as `Approvals.begin` does for one gate. */
export type Begin = <T>(carryOut: (authority: Authority) => Promise<T>) => Promise<T>;

/**
 * Makes `secondary` follow `primary` as DR secondary: operation token, public key, activation token, update-primary,
 * and then proof that it streams. Addresses are not allowed here; the token form wipes no data.
 *
 * @returns whether it streams; false where people skipped it
 */
export async function followAsDrSecondary(
  run: Run,
  tokens: OperationTokens,
  { deployment, primary, secondary, authority, begin = (carryOut) => carryOut(authority) }: Following,
): Promise<boolean> {
  const effect = `${secondary} stays without a primary; repeat it later with an activation token from ${primary}`;
  if (!(await tokens.ofUnlessSkipped(secondary, effect))) return false;
  const joined = await repeatUnit(run, `Point ${secondary} at ${primary}`, { effect, begin }, (call, approved) => {
    const following = async () => ({
      ...{ deployment, primary, secondary, authority: approved },
      token: await tokens.of(secondary),
    });
    return {
      issue: async () => call.issueActivationToken({ kind: 'dr', ...(await following()) }),
      use: async (activation) => call.updatePrimary({ kind: 'dr', ...(await following()), activation }),
    };
  });
  if (!joined) return false;
  const streaming = await run.skippableStep(
    `Wait until ${secondary} streams from ${primary}`,
    `whether ${secondary} catches up is not known at the end of this run`,
    (call) => call.awaitDrStreaming({ deployment, primary, secondary }),
    { note: (result) => result.observed, choices: [STOP_HERE] },
  );
  if (streaming) run.state.notifications.protectedAgain(secondary, primary);
  return streaming !== undefined;
}

/** Reads what the primary keeps for the secondary; `undefined` where people skipped it. */
async function readFilterOf(run: Run, { deployment, primary, secondary }: Following): Promise<KnownFilter | undefined> {
  return run.skippableStep(
    `Read the paths filter of ${secondary}`,
    `${secondary} is not re-pointed: it would receive what its filter kept away from it`,
    (call) => call.readPathsFilter({ deployment, primary, secondary }),
    { note: (result) => result.observed, choices: [STOP_HERE] },
  );
}

/**
 * Re-points a performance secondary by token. Its paths filter is read first, written under the id of the new token
 * before that is used, so that what was filtered never leaves, and made sure of again after it: update-primary may drop
 * it.
 *
 * @param known - the filter that it must have, where an approved plan says so; else it is read on the primary
 * @returns whether it follows with its filter; false where people skipped a step or it did not come
 */
export async function repointPerformanceSecondary(
  run: Run,
  following: Following,
  known?: KnownFilter,
): Promise<boolean> {
  const { deployment, primary, secondary, authority, begin = (carryOut) => carryOut(authority) } = following;
  const found = known ?? (await readFilterOf(run, following));
  if (!found) return false;
  const { id, filter } = found;
  const stepOf = (when: string) => `Write the paths filter of ${secondary} (${when})`;
  const writeFilter = async (when: string): Promise<'done' | 'already' | 'no filter' | undefined> => {
    if (!filter) return 'no filter';
    const written = await run.skippableStep(
      stepOf(when),
      `${secondary} may receive what its filter kept away from it`,
      (call) => call.writePathsFilter({ deployment, cluster: primary, secondary, id, filter, authority }),
      { note: (result) => result.observed, choices: [STOP_HERE], skipNeedsTwo: true },
    );
    return written && (written.outcome === 'already' ? 'already' : 'done');
  };
  const before = 'before update-primary';
  const skippedBy =
    (await writeFilter(before)) === undefined && filter
      ? filterNotWritten(run, following, filter, stepOf(before))
      : undefined;
  const expected: ExpectedFilter = { filter: filter ?? 'none', ...(skippedBy === undefined ? {} : { skippedBy }) };
  let tries = 0;
  const effect = `${secondary} keeps looking for the old primary`;
  const name = `Point ${secondary} at ${primary} (performance)`;
  const joined = await repeatUnit(run, name, { effect, begin }, (call, approved) => {
    const asked = { deployment, primary, secondary, authority: approved, expected };
    return {
      issue: () => call.issueActivationToken({ kind: 'performance', ...asked }),
      use: async (activation) => {
        tries += 1;
        // The try before may have dropped it, and the primary is asked for it right before the call.
        if (tries > 1 && filter && skippedBy === undefined)
          await call.writePathsFilter({ deployment, cluster: primary, secondary, id, filter, authority });
        return call.updatePrimary({ kind: 'performance', ...asked, activation });
      },
    };
  });
  const after = await writeFilter('after update-primary');
  if (after === 'done') {
    run.state.finding({
      severity: 'warning',
      code: 'paths-filter-was-missing',
      text: `The paths filter of ${secondary} was not on ${primary} after update-primary and was written again: ${secondary} may have received what it must not have in between.`,
      next: `Look on ${secondary} whether what the filter keeps away is gone; it is removed there once the filter is in force.`,
    });
  }
  if (!joined) return false;
  const follows = await seenFollowing(run, deployment, primary, [secondary], `Wait until ${secondary} follows`);
  const equal = await sameFilterOnBothSides(run, following, found);
  return follows.has(secondary) && after !== undefined && equal;
}

/** Compares the dynamic filter on both sides, and with the filter that must be there. */
export async function sameFilterOnBothSides(
  run: Run,
  { deployment, primary, secondary }: Omit<Following, 'authority'>,
  { id, filter }: KnownFilter,
): Promise<boolean> {
  const compared = await run.skippableStep(
    `Compare the dynamic filter of ${secondary} on both sides`,
    'whether both sides filter the same is not known',
    (call) => call.compareDynamicFilters({ deployment, primary, secondary, id, expected: filter }),
    { note: (result) => result.observed, choices: [STOP_HERE], skipNeedsTwo: true },
  );
  if (compared && !compared.equal) {
    run.state.finding({
      severity: 'critical',
      code: 'dynamic-filter-differs',
      text: `The dynamic filter of ${secondary} is not as it must be on ${primary} and ${secondary}: ${compared.observed}`,
      next: `Compare the paths filter of ${secondary} with what it must not see, before clients write again.`,
    });
  }
  return compared?.equal === true;
}

/** Public key, activation token and update-primary as one step, which people may skip. */
async function repeatUnit(
  run: Run,
  name: string,
  { effect, begin }: { readonly effect: string; readonly begin: Begin },
  unit: (call: StepCalls, authority: Authority) => JoinUnit,
): Promise<boolean> {
  const body = (call: StepCalls) => begin((authority) => carryOutUnit(unit(call, authority)));
  const joined = await run.skippableStep(name, effect, body, {
    note: (result) => result.observed,
    choices: [STOP_HERE],
  });
  return joined !== undefined;
}

/** Makes every secondary follow the primary, in parallel and each on its own. Gives what people still have to do. */
async function followAll(
  run: Run,
  deployment: string,
  primary: string,
  secondaries: readonly string[],
  tokens: OperationTokens,
  authority: Authority,
): Promise<string[]> {
  const followed = await inParallel(
    secondaries.map((secondary) => followAsDrSecondary(run, tokens, { deployment, primary, secondary, authority })),
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
  authority: Authority,
): Promise<string[]> {
  if (secondaries.length === 0) return [];
  const name = 'Wait until the performance secondaries follow';
  const follows = await seenFollowing(run, deployment, primary, secondaries, name);
  const left: string[] = [];
  for (const cluster of secondaries) {
    if (follows.has(cluster)) continue;
    const following = { deployment, primary, secondary: cluster, authority };
    if (follows.asked && (await repointPerformanceSecondary(run, following))) continue;
    left.push(
      `${cluster} was not seen following ${primary} with its filter. Read its performance status; if it does not follow, write its paths filter on ${primary} first, then use a performance activation token with update-primary on ${cluster}, then write the filter again.`,
    );
  }
  return left;
}

/** The performance secondaries that were seen following. `asked` is false where people skipped the step. */
export async function seenFollowing(
  run: Run,
  deployment: string,
  primary: string,
  secondaries: readonly string[],
  name: string,
): Promise<{ readonly asked: boolean; has(cluster: string): boolean }> {
  const seen = await run.skippableStep(
    name,
    'whether performance secondaries follow is not known',
    (call) => call.awaitPerformanceSecondaries({ deployment, primary, secondaries }),
    {
      note: ({ following }) =>
        following.map(({ cluster, follows }) => `${cluster} ${follows ? 'follows' : 'does not follow'}`).join(', '),
    },
  );
  const following = (seen?.following ?? []).filter((each) => each.follows).map((each) => each.cluster);
  return { asked: seen !== undefined, has: (cluster) => following.includes(cluster) };
}

/** Who is to follow the new primary, and with which tokens. */
export interface Protecting {
  readonly deployment: string;
  readonly primary: string;
  readonly drSecondaries: readonly string[];
  readonly performanceSecondaries: readonly string[];
  readonly tokens: OperationTokens;
  /** Of the plan of the change. */
  readonly authority: Authority;
}

/** After a change of the primary: each secondary in parallel and on its own. Gives what people still have to do. */
export async function restoreProtection(
  run: Run,
  { deployment, primary, drSecondaries, performanceSecondaries, tokens, authority }: Protecting,
): Promise<string[]> {
  const notFollowing = await inParallel<string[]>([
    followAll(run, deployment, primary, drSecondaries, tokens, authority),
    performanceFollows(run, deployment, performanceSecondaries, primary, authority),
  ]);
  return notFollowing.flat();
}
