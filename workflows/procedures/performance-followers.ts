import type { Authority, Follower, PromotionRoute } from '../../src/contracts/activities';
import { inParallel } from '../engine/failures';
import type { Run } from '../engine/run';
import type { ChangeProgress } from './change-primary';
import { refusedUntilFollowing } from './held-clients';
import { repointPerformanceSecondary } from './repoint';
import { lastLook, tellAtTheEnd } from './roles';

/**
 * Every other secondary follows the cluster that serves, with its filter, and so does the cluster that does not: in parallel
 * and each on its own, so that one that fails holds no other. A promotion forgets all secondaries, also where the old primary was promoted back.
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
  const follow = async (follower: Follower): Promise<string[]> => {
    const pair = { deployment, primary, secondary: follower.cluster, authority };
    const follows = await repointPerformanceSecondary(run, pair, { form: 'token', known: follower });
    if (follows) following.add(follower.cluster);
    return follows ? [] : [notFollowing(follower, primary, route)];
  };
  const left = await inParallel(followers.map(follow));
  return [...left.flat(), ...afterwards(deployment, route, served)];
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

/** How far a promotion came, for what must be told however its run ends. */
export interface PromotionProgress extends ChangeProgress {
  /** Who was seen following it. */
  readonly following: Set<string>;
  finished: boolean;
}

/**
 * Where the run ended early, by a person or because a failover took it over: who said last to be performance primary, or
 * who was not seen following the new one. A planned promotion that ends without a primary tells that itself, at once.
 */
export async function tellPromotionLeft(
  run: Run,
  deployment: string,
  route: PromotionRoute,
  progress: PromotionProgress,
): Promise<void> {
  const { primary, serves, following, finished } = progress;
  if (finished) return;
  const { state } = run;
  if (primary === undefined) {
    if (route.mode === 'unplanned') await tellRoles(run, deployment, route);
    return;
  }
  const [name, followers] = followersOf(route, primary);
  const astray = followers.filter(({ cluster }) => !following.has(cluster));
  state.finding({
    severity: serves ? 'warning' : 'critical',
    code: 'promotion-ended-early',
    text: `${name} became performance primary${serves ? '' : ', and was not seen to serve'}; the run ended before ${astray.map(({ cluster }) => cluster).join(', ') || 'the final state'} was seen${astray.length > 0 ? ' following it' : ''}.`,
    next: `See that clients reach ${name}; promote nothing.`,
  });
  state.leftToDo.push(
    ...astray.map((each) => notFollowing(each, name, route)),
    ...afterwards(deployment, route, primary),
  );
}

/** Without its primary, and the outcome of the promotion may not be known. */
async function tellRoles(run: Run, deployment: string, { from, to }: PromotionRoute): Promise<void> {
  const { primaries, silent } = await lastLook(run, deployment, [to], 'performance');
  const told = silent.length > 0 ? 'did not answer' : 'said that it is not primary';
  const some = primaries.length > 0;
  const text = some
    ? `The promotion of ${to} was ended early; ${primaries.join(' and ')} said to be performance primary afterwards.`
    : `The promotion of ${to} was ended early, with no cluster seen as performance primary; ${to} ${told}.`;
  const next = some
    ? `Promote nothing. See that clients reach ${primaries.join(', ')}, and re-point the other secondaries to it with secondaryRepointing.`
    : `Read the performance status of ${to} once more. Where it is no primary, start performancePromotion again, or bring ${from} back.`;
  tellAtTheEnd(run, some ? 'promotion-ended-early' : 'no-performance-primary', text, next);
}
