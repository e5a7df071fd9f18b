import type { PromotionRoute } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Run } from '../engine/run';
import { afterwards, followersOf, notFollowing } from './performance-promotion-followers';
import type { ChangeProgress } from './change-primary';
import { CLIENTS_HELD } from './held-clients';

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
  state.leftToDo.push(...astray.map((each) => notFollowing(each, name)), ...afterwards(route, primary));
  if (run.clientsHeld && !state.leftToDo.includes(CLIENTS_HELD)) state.leftToDo.push(CLIENTS_HELD);
}

/** Without its primary, and the outcome of the promotion may not be known. */
async function tellRoles(run: Run, deployment: string, { from, to }: PromotionRoute): Promise<void> {
  let seen: readonly ClusterObservation[] = [];
  await run.cleanUp('Read the performance roles', async (call) => {
    seen = (await call.readDeployment({ deployment })).observations;
  });
  const primaries = seen.filter(({ performance }) => performance?.mode === 'primary').map(({ cluster }) => cluster);
  const told = seen.find(({ cluster }) => cluster === to)?.performance?.mode ?? 'nothing';
  const some = primaries.length > 0;
  const text = some
    ? `The promotion of ${to} was ended early; ${primaries.join(' and ')} said to be performance primary afterwards.`
    : `The promotion of ${to} was ended early, with no cluster seen as performance primary; ${to} said: ${told}.`;
  const next = some
    ? `Promote nothing. See that clients reach ${primaries.join(', ')}, and re-point the other secondaries to it with secondaryRepointing.`
    : `Read the performance status of ${to} once more. Where it is no primary, start performancePromotion again, or bring ${from} back.`;
  run.state.finding({
    severity: 'critical',
    code: some ? 'promotion-ended-early' : 'no-performance-primary',
    text,
    next,
  });
  run.state.leftToDo.push(`${text} ${next}`);
}
