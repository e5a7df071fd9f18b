import { WAIT_PERFORMANCE_FOLLOWS } from '../../src/moves/following';
import type { PromotionRoute } from '../../activities/plans/performance-promotion';
import type { Authority, Follower, Quiesce } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { inParallel } from '../engine/failures';
import type { Run } from '../engine/run';
import type { Side } from './change-primary';
import { refusedUntilFollowing } from './held-clients';
import type { OperationTokens } from './operation-tokens';
import { repointDrSecondary, repointPerformanceSecondary, seenFollowing } from './repoint';
import { followingOf, reportPrimaries } from './roles';
import type { Promoted } from './service-back';
import { verifyWrite } from './service-back';

/* After a change of the primary every other cluster follows it, each on its own: one that fails does not hold up another. */

/** From the moment a cluster is primary, it is left to do that each of the others follows it, until that is seen. */
export function leaveFollowing(
  run: Run,
  kind: ReplicationKind,
  primary: string,
  secondaries: readonly string[],
  quiesce?: Quiesce,
): void {
  const { deployment } = run.state;
  const [filtered, clients] = kind === 'dr' ? ['', ''] : [' with its filter', refusedUntilFollowing(quiesce)];
  for (const secondary of secondaries) {
    const command = repointing(deployment, kind, primary, secondary);
    const text = `${secondary} has not been confirmed to follow ${primary}${filtered}. If it does not follow once it answers: \`${command}\`.${clients}`;
    run.state.left.add(text, followingOf(secondary));
  }
}

/** The same for clusters outside its DR set that do not answer: it is not known whether they should follow. */
export function leaveSilent(run: Run, primary: string, silent: readonly string[]): void {
  for (const secondary of silent) {
    const command = repointing(run.state.deployment, 'performance', primary, secondary);
    const text = `${secondary} did not answer. If it is a performance secondary that should follow ${primary} and does not follow once it answers: \`${command}\`.`;
    run.state.left.add(text, followingOf(secondary));
  }
}

/** The command that makes a secondary follow a primary. */
export function repointing(deployment: string, kind: ReplicationKind, primary: string, secondary: string): string {
  const input = { deployment, kind, primary, secondary, reason: `${secondary} should follow ${primary}` };
  return nextCommandOf.start('secondaryRepointing', input);
}

/** The clusters that follow a new DR primary, and the tokens for that. */
export interface ReprotectInput extends Omit<Promoted, 'kind'> {
  readonly drSecondaries: readonly string[];
  readonly performanceSecondaries: readonly string[];
  readonly tokens: OperationTokens;
  /** From the plan of the change. */
  readonly authority: Authority;
}

/**
 * After a change of the DR primary: each DR secondary and the performance secondaries follow, and the primary is verified to
 * accept a write. A cluster that does not follow stays among what is left to do.
 */
export async function restoreProtection(run: Run, input: ReprotectInput): Promise<void> {
  const { deployment, primary, drSecondaries, tokens, authority } = input;
  const follow = (secondary: string) => repointDrSecondary(run, tokens, { deployment, primary, secondary, authority });
  await inParallel([
    verifyWrite(run, { ...input, kind: 'dr' }),
    ...drSecondaries.map(follow),
    performanceFollows(run, input),
  ]);
}

/** Performance secondaries follow on their own, or are re-pointed with their filters. */
async function performanceFollows(
  run: Run,
  { deployment, performanceSecondaries, primary, authority }: ReprotectInput,
): Promise<void> {
  if (performanceSecondaries.length === 0) return;
  const follows = await seenFollowing(run, deployment, primary, performanceSecondaries, WAIT_PERFORMANCE_FOLLOWS);
  const follow = async (secondary: string): Promise<void> => {
    if (follows?.has(secondary)) run.state.left.settle(followingOf(secondary));
    else if (follows)
      await repointPerformanceSecondary(run, { deployment, primary, secondary, authority }, { form: 'token' });
  };
  await inParallel(performanceSecondaries.map(follow));
}

/**
 * After a change of the performance primary, also if the old one was promoted back, because a promotion forgets all
 * secondaries. Each follows with its filter, and so does the cluster that does not serve. The primary is verified to accept a
 * write.
 */
export async function followNewPrimary(
  run: Run,
  deployment: string,
  route: PromotionRoute,
  authority: Authority,
  served: Side,
): Promise<void> {
  const [primary, followers] = followersOf(route, served);
  const follow = ({ cluster: secondary, ...known }: Follower) =>
    repointPerformanceSecondary(run, { deployment, primary, secondary, authority }, { form: 'token', known });
  await inParallel([
    verifyWrite(run, { kind: 'performance', deployment, primary, credentialOf: primary }),
    ...followers.map(follow),
  ]);
}

/** Adds what is left to do from the moment a cluster is performance primary. Each follower that is seen settles its own line. */
export function leaveAfterPromotion(run: Run, deployment: string, route: PromotionRoute, served: Side): void {
  const { from, to, mode, silent, staysOut, quiesce } = route;
  const { left } = run.state;
  const [primary, followers] = followersOf(route, served);
  const names = followers.map(({ cluster }) => cluster);
  leaveFollowing(run, 'performance', primary, names, quiesce);
  leaveSilent(run, primary, silent);
  if (served === 'old') return;
  if (staysOut !== undefined) left.add(`${staysOut}${refusedUntilFollowing(quiesce)}`);
  left.add(
    `Clients that move from ${from} to ${to} must log in on ${to}: the tokens and leases of ${from} are not valid there.`,
  );
  left.add(`Check the audit devices of ${to}, and check that the inventory's credential for ${to} is still valid.`);
  if (mode !== 'unplanned') return;
  const rejoin = nextCommandOf.start('performanceRejoin', {
    ...{ deployment, cluster: from, primary: to },
    reason: `${from} is back after the promotion of ${to}`,
  });
  left.add(
    `Keep ${from} away from clients and from the other clusters until it is demoted. When it answers again: \`${rejoin}\`.`,
  );
}

/** The cluster that became performance primary, and the clusters that follow it. */
function followersOf(
  { from, to, others, old, candidate }: PromotionRoute,
  served: Side,
): readonly [string, readonly Follower[]] {
  return served === 'new' ? [to, [...others, ...(old ? [old] : [])]] : [from, [...others, candidate]];
}

/** An unplanned promotion ended without a known primary: reports which cluster said last that it is primary. */
export async function reportNotPromoted(run: Run, deployment: string, { from, to }: PromotionRoute): Promise<void> {
  await reportPrimaries(run, {
    ...{ deployment, kind: 'performance', clusters: [from, to], ended: `The promotion of ${to} was ended early` },
    ifReported: (primaries) =>
      `Make sure that clients reach ${primaries}, and re-point the other secondaries to it with secondaryRepointing.`,
    otherwise: `Read the performance status of ${to} once more. If it is not primary, start performancePromotion again, or bring ${from} back.`,
  });
}
