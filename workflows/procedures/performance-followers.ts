import type { PromotionRoute } from '../../activities/plans/performance-promotion';
import type { Authority, Follower } from '../../src/contracts/activities';
import { inParallel } from '../engine/failures';
import type { Run } from '../engine/run';
import { refusedUntilFollowing } from './held-clients';
import { repointPerformanceSecondary } from './repoint';
import { followingOf, tellWhoIsPrimary } from './roles';

/**
 * Every other secondary follows the cluster that serves, with its filter, and so does the cluster that does not: in parallel
 * and each on its own, so that one that fails holds no other. A promotion forgets all secondaries, also where the old primary was promoted back.
 */
export async function followNewPrimary(
  run: Run,
  deployment: string,
  route: PromotionRoute,
  authority: Authority,
  served: 'new' | 'old',
): Promise<void> {
  const [primary, followers] = followersOf(route, served);
  const follow = async (follower: Follower): Promise<void> => {
    const pair = { deployment, primary, secondary: follower.cluster, authority };
    await repointPerformanceSecondary(run, pair, { form: 'token', known: follower });
  };
  await inParallel(followers.map(follow));
}

/** What is left to do from the moment at which a cluster is performance primary; each follower that is seen settles its own. */
export function leaveFollowers(run: Run, deployment: string, route: PromotionRoute, served: 'new' | 'old'): void {
  const [primary, followers] = followersOf(route, served);
  for (const follower of followers)
    run.state.left.add(notFollowing(follower, primary, route), followingOf(follower.cluster));
  for (const text of afterwards(deployment, route, served)) run.state.left.add(text);
}

/** The cluster that became primary, and who is to follow it. */
function followersOf(
  { from, to, others, old, candidate }: PromotionRoute,
  served: 'new' | 'old',
): readonly [string, readonly Follower[]] {
  return served === 'new' ? [to, [...others, ...(old ? [old] : [])]] : [from, [...others, candidate]];
}

function notFollowing({ cluster }: Follower, primary: string, { quiesce }: PromotionRoute): string {
  return `${cluster} was not seen following ${primary} with its filter: start secondaryRepointing of ${cluster} to ${primary} by token.${refusedUntilFollowing(quiesce)}`;
}

/** What no run can do for people after a promotion. */
function afterwards(
  deployment: string,
  { from, to, mode, silent, staysOut, quiesce }: PromotionRoute,
  served: 'new' | 'old',
): string[] {
  const unheard = silent.map(
    (cluster) =>
      `${cluster} did not answer: where it is a performance secondary, re-point it with secondaryRepointing when it is back.`,
  );
  if (served === 'old') return unheard;
  return [
    ...unheard,
    ...(staysOut === undefined ? [] : [`${staysOut}${refusedUntilFollowing(quiesce)}`]),
    `Clients that used ${from} and are to use ${to} log in there: tokens and leases of ${from} are not known on ${to}.`,
    `Check the audit devices of ${to}, and that the credential that the inventory names for ${to} lives on.`,
    ...(mode === 'unplanned'
      ? [
          `Keep ${from} away from clients and from the others until it is demoted. When it answers again, start performanceRejoin with ${JSON.stringify({ deployment, cluster: from, reason: `${from} is back` })}.`,
        ]
      : []),
  ];
}

/** An unplanned promotion that ended without a primary, or without knowing of one: who said last to be it. */
export async function tellNotPromoted(run: Run, deployment: string, { from, to }: PromotionRoute): Promise<void> {
  await tellWhoIsPrimary(run, {
    ...{ deployment, kind: 'performance', clusters: [from, to], ended: `The promotion of ${to} was ended early` },
    seeTo: (primaries) =>
      `See that clients reach ${primaries}, and re-point the other secondaries to it with secondaryRepointing.`,
    otherwise: `Read the performance status of ${to} once more. Where it is no primary, start performancePromotion again, or bring ${from} back.`,
  });
}
