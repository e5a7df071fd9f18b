import type { Authority, Quiesce } from '../../src/contracts/activities';
import { inParallel } from '../engine/failures';
import type { Run } from '../engine/run';
import { refusedUntilFollowing } from './held-clients';
import type { OperationTokens } from './operation-tokens';
import type { Promoted } from './service-back';
import { seeWrite } from './service-back';
import { repointDrSecondary, repointPerformanceSecondary, seenFollowing } from './repoint';
import { followingOf } from './roles';

/** Who is to follow a new primary. */
interface Followers {
  readonly primary: string;
  readonly drSecondaries: readonly string[];
  readonly performanceSecondaries: readonly string[];
  /** By what the clients were kept still, where they were. */
  readonly quiesce?: Quiesce;
}

/** From the moment at which a cluster is primary it is left to do that the others follow it, until each is seen to. */
export function leaveFollowing(run: Run, { primary, drSecondaries, performanceSecondaries, quiesce }: Followers): void {
  for (const secondary of drSecondaries) {
    const text = `${secondary} does not follow ${primary}: when it answers, issue an activation token on ${primary} and use it with update-primary on ${secondary}.`;
    run.state.left.add(text, followingOf(secondary));
  }
  for (const secondary of performanceSecondaries) {
    const text = `${secondary} was not seen following ${primary} with its filter. Read its performance status; if it does not follow, write its paths filter on ${primary} first, then use a performance activation token with update-primary on ${secondary}, then write the filter again.${refusedUntilFollowing(quiesce)}`;
    run.state.left.add(text, followingOf(secondary));
  }
}

/** Performance secondaries follow by themselves, or are re-pointed with their filters. */
async function performanceFollows(
  run: Run,
  { deployment, performanceSecondaries, primary, authority }: ReprotectInput,
): Promise<void> {
  if (performanceSecondaries.length === 0) return;
  const name = 'Wait until the performance secondaries follow';
  const follows = await seenFollowing(run, deployment, primary, performanceSecondaries, name);
  const follow = async (secondary: string): Promise<void> => {
    if (follows.has(secondary)) run.state.left.settle(followingOf(secondary));
    else if (follows.asked)
      await repointPerformanceSecondary(run, { deployment, primary, secondary, authority }, { form: 'token' });
  };
  await inParallel(performanceSecondaries.map(follow));
}

/** Who is to follow the new primary, and with which tokens. */
export interface ReprotectInput extends Omit<Promoted, 'kind'>, Followers {
  readonly tokens: OperationTokens;
  /** Of the plan of the change. */
  readonly authority: Authority;
}

/**
 * After a change of the primary: each secondary in parallel and on its own, and the proof that the primary takes a write.
 * Who does not follow stays among what is left to do.
 */
export async function restoreProtection(run: Run, input: ReprotectInput): Promise<void> {
  const { deployment, primary, drSecondaries, tokens, authority } = input;
  const follow = (secondary: string) => repointDrSecondary(run, tokens, { deployment, primary, secondary, authority });
  await inParallel<unknown>([
    seeWrite(run, { ...input, kind: 'dr' }),
    ...drSecondaries.map(follow),
    performanceFollows(run, input),
  ]);
}
