import type { Authority, Follower, PromotionRoute } from '../src/contracts/activities';
import type { ClusterObservation } from '../src/contracts/observations';
import { filterNotWritten } from './building-blocks/filter-skipped';
import type { Following } from './building-blocks/re-protection';
import {
  STOP_HERE,
  repointPerformanceSecondary,
  sameFilterOnBothSides,
  seenFollowing,
} from './building-blocks/re-protection';
import type { Run } from './building-blocks/run';

/**
 * Every other secondary follows the cluster that serves, with its filter, and so does the cluster that does not. A
 * promotion forgets all secondaries, also where the old primary was promoted back.
 *
 * @returns what people still have to do
 */
export async function followNewPrimary(
  run: Run,
  deployment: string,
  route: PromotionRoute,
  authority: Authority,
  served: 'new' | 'old',
): Promise<string[]> {
  const { others, old, heir, silent, staysOut } = route;
  const [primary, rest] = served === 'new' ? [route.to, old ? [old] : []] : [route.from, [heir]];
  const left: string[] = [];
  for (const follower of [...others, ...rest]) {
    // Addresses bring no certificate: a cluster that was demoted, or never followed this one, needs a token.
    const form = follower === old || served === 'old' ? 'token' : route.repoint;
    const following = { deployment, primary, secondary: follower.cluster, authority };
    const follows = await (form === 'token'
      ? repointPerformanceSecondary(run, following, follower)
      : followByAddresses(run, following, follower));
    if (!follows) left.push(notFollowing(follower, primary));
  }
  left.push(
    ...silent.map(
      (cluster) =>
        `${cluster} did not answer: where it is a performance secondary, re-point it with secondaryRepointing when it is back.`,
    ),
  );
  return served === 'new' ? [...left, ...(staysOut === undefined ? [] : [staysOut]), ...afterwards(route)] : left;
}

/**
 * The id stays, and with it the filter's key, which is not the cluster ID where the secondary was wiped since: the filter
 * is written under it on the new primary, which never had it.
 */
async function followByAddresses(run: Run, following: Following, { filter, addressesId }: Follower): Promise<boolean> {
  const { deployment, primary, secondary } = following;
  if (addressesId === undefined) throw new TypeError('the plan says which id a secondary keeps');
  const id = addressesId;
  let skippedBy: string | undefined;
  if (filter) {
    const step = `Write the paths filter of ${secondary}`;
    const written = await run.skippableStep(
      step,
      `${secondary} may receive what its filter kept away from it`,
      (call) => call.writePathsFilter({ deployment, cluster: primary, secondary, id, filter }),
      { note: ({ observed }) => observed, choices: [STOP_HERE], skipNeedsTwo: true },
    );
    if (!written) skippedBy = filterNotWritten(run, following, filter, step);
  }
  const expected = { filter: filter ?? ('none' as const), ...(skippedBy === undefined ? {} : { skippedBy }) };
  const pointed = await run.skippableStep(
    `Give ${secondary} the addresses of ${primary}`,
    `${secondary} keeps looking for the old primary; re-point it by token`,
    (call) => call.updatePerformancePrimaryByAddresses({ deployment, primary, secondary, expected }),
    { note: ({ observed }) => observed, choices: [STOP_HERE] },
  );
  if (!pointed) return false;
  const seen = await seenFollowing(run, deployment, primary, [secondary], `Wait until ${secondary} follows`);
  const equal = await sameFilterOnBothSides(run, following, { id, ...(filter && { filter }) });
  return seen.has(secondary) && equal;
}

function notFollowing({ cluster }: Follower, primary: string): string {
  return `${cluster} was not seen following ${primary} with its filter: start secondaryRepointing of ${cluster} to ${primary} by token.`;
}

/** What no run can do for people after a promotion. */
function afterwards({ from, to, mode }: PromotionRoute): string[] {
  return [
    `Clients that used ${from} and are to use ${to} log in there: tokens and leases of ${from} are not known on ${to}.`,
    `Check the audit devices of ${to}, and that the credential that the inventory names for ${to} lives on.`,
    ...(mode === 'unplanned'
      ? [
          `Keep ${from} away from clients and from the others when it comes back, demote it for performance, then start secondaryRepointing of ${from} to ${to} by token.`,
        ]
      : []),
  ];
}

/** The performance role of every cluster, for the timeline. */
export function performanceRolesInWords({
  observations,
}: {
  readonly observations: readonly ClusterObservation[];
}): string {
  return observations.map((each) => `${each.cluster} ${each.performance?.mode ?? 'not read'}`).join(', ');
}
