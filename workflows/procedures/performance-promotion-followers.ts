import type { Authority, Follower, PromotionRoute } from '../../src/contracts/activities';
import { filterNotWritten } from './filter-skipped';
import type { Following } from './re-protection';
import { STOP_HERE, repointPerformanceSecondary, sameFilterOnBothSides, seenFollowing } from './re-protection';
import type { Run } from '../engine/run';

/**
 * Every other secondary follows the cluster that serves, with its filter, and so does the cluster that does not. A
 * promotion forgets all secondaries, also where the old primary was promoted back.
 *
 * @param following - gets the names of those that were seen following
 * @returns what people still have to do
 */
export async function followNewPrimary(
  run: Run,
  deployment: string,
  route: PromotionRoute,
  authority: Authority,
  served: 'new' | 'old',
  following: Set<string>,
): Promise<string[]> {
  const [primary, followers] = followersOf(route, served);
  const left: string[] = [];
  for (const follower of followers) {
    // Addresses bring no certificate: a cluster that was demoted, or never followed this one, needs a token.
    const form = follower === route.old || served === 'old' ? 'token' : route.repoint;
    const pair = { deployment, primary, secondary: follower.cluster, authority };
    const follows = await (form === 'token'
      ? repointPerformanceSecondary(run, pair, follower)
      : followByAddresses(run, pair, follower));
    if (follows) following.add(follower.cluster);
    else left.push(notFollowing(follower, primary));
  }
  return [...left, ...afterwards(route, served)];
}

/** The cluster that became primary, and who is to follow it. */
export function followersOf(
  { from, to, others, old, heir }: PromotionRoute,
  served: 'new' | 'old',
): readonly [string, readonly Follower[]] {
  return served === 'new' ? [to, [...others, ...(old ? [old] : [])]] : [from, [...others, heir]];
}

/**
 * The id stays, and with it the filter's key, which is not the cluster ID where the secondary was wiped since: the filter
 * is written under it on the new primary, which never had it.
 */
async function followByAddresses(run: Run, following: Following, { filter, addressesId }: Follower): Promise<boolean> {
  const { deployment, primary, secondary, authority } = following;
  if (addressesId === undefined) throw new TypeError('the plan says which id a secondary keeps');
  const id = addressesId;
  let skippedBy: string | undefined;
  if (filter) {
    const step = `Write the paths filter of ${secondary}`;
    const written = await run.skippableStep(
      step,
      `${secondary} may receive what its filter kept away from it`,
      (call) => call.writePathsFilter({ deployment, cluster: primary, secondary, id, filter, authority }),
      { note: ({ observed }) => observed, choices: [STOP_HERE], skipNeedsTwo: true },
    );
    if (!written) skippedBy = filterNotWritten(run, following, filter, step);
  }
  const expected = { filter: filter ?? ('none' as const), ...(skippedBy === undefined ? {} : { skippedBy }) };
  const pointed = await run.skippableStep(
    `Give ${secondary} the addresses of ${primary}`,
    `${secondary} keeps looking for the old primary; re-point it by token`,
    (call) => call.updatePerformancePrimaryByAddresses({ deployment, primary, secondary, expected, authority }),
    { note: ({ observed }) => observed, choices: [STOP_HERE] },
  );
  if (!pointed) return false;
  const seen = await seenFollowing(run, deployment, primary, [secondary], `Wait until ${secondary} follows`);
  const equal = await sameFilterOnBothSides(run, following, { id, ...(filter && { filter }) });
  return seen.has(secondary) && equal;
}

export function notFollowing({ cluster }: Follower, primary: string): string {
  return `${cluster} was not seen following ${primary} with its filter: start secondaryRepointing of ${cluster} to ${primary} by token.`;
}

/** What no run can do for people after a promotion. */
export function afterwards({ from, to, mode, silent, staysOut }: PromotionRoute, served: 'new' | 'old'): string[] {
  const unheard = silent.map(
    (cluster) =>
      `${cluster} did not answer: where it is a performance secondary, re-point it with secondaryRepointing when it is back.`,
  );
  if (served === 'old') return unheard;
  return [
    ...unheard,
    ...(staysOut === undefined ? [] : [staysOut]),
    `Clients that used ${from} and are to use ${to} log in there: tokens and leases of ${from} are not known on ${to}.`,
    `Check the audit devices of ${to}, and that the credential that the inventory names for ${to} lives on.`,
    ...(mode === 'unplanned'
      ? [
          `Keep ${from} away from clients and from the others when it comes back, demote it for performance, then start secondaryRepointing of ${from} to ${to} by token.`,
        ]
      : []),
  ];
}
