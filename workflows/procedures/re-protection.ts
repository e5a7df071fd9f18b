import type { Authority, Quiesce } from '../../src/contracts/activities';
import { inParallel } from '../engine/failures';
import type { Run } from '../engine/run';
import { refusedUntilFollowing } from './held-clients';
import type { OperationTokens } from './operation-tokens';
import type { Promoted } from './service-back';
import { seeWrite } from './service-back';
import { repointDrSecondary, repointPerformanceSecondary, seenFollowing } from './repoint';

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
    secondaries.map((secondary) => repointDrSecondary(run, tokens, { deployment, primary, secondary, authority })),
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
  quiesce: Quiesce | undefined,
): Promise<string[]> {
  if (secondaries.length === 0) return [];
  const name = 'Wait until the performance secondaries follow';
  const follows = await seenFollowing(run, deployment, primary, secondaries, name);
  const follow = async (cluster: string): Promise<string[]> => {
    const following = { deployment, primary, secondary: cluster, authority };
    if (follows.asked && (await repointPerformanceSecondary(run, following, { form: 'token' }))) return [];
    return [
      `${cluster} was not seen following ${primary} with its filter. Read its performance status; if it does not follow, write its paths filter on ${primary} first, then use a performance activation token with update-primary on ${cluster}, then write the filter again.${refusedUntilFollowing(quiesce)}`,
    ];
  };
  return (await inParallel(secondaries.filter((each) => !follows.has(each)).map(follow))).flat();
}

/** Who is to follow the new primary, and with which tokens. */
export interface ReprotectInput extends Omit<Promoted, 'kind'> {
  readonly drSecondaries: readonly string[];
  readonly performanceSecondaries: readonly string[];
  readonly tokens: OperationTokens;
  /** Of the plan of the change. */
  readonly authority: Authority;
  /** By what the clients were kept still, where they were. */
  readonly quiesce?: Quiesce;
}

/**
 * After a change of the primary: each secondary in parallel and on its own, and the proof that the primary takes a write.
 * Gives what people still have to do.
 */
export async function restoreProtection(run: Run, input: ReprotectInput): Promise<string[]> {
  const { deployment, primary, drSecondaries, performanceSecondaries, tokens, authority } = input;
  const notFollowing = await inParallel<string[]>([
    seeWrite(run, { ...input, kind: 'dr' }).then(() => []),
    followAll(run, deployment, primary, drSecondaries, tokens, authority),
    performanceFollows(run, deployment, performanceSecondaries, primary, authority, input.quiesce),
  ]);
  return notFollowing.flat();
}
