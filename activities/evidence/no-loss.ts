import { COMPARE_STEP } from '../../src/contracts/names';
import type { WalIndex } from '../../src/contracts/observations';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { RecordedActivity } from '../../src/report/run-history';
import { readHistory } from '../../src/report/run-history';
import { clusterOf } from '../../src/report/run-record';
import type { ActivityDependencies } from '../dependencies';
import { decisionsOf } from '../approvals/people';
import { historyOf } from '../approvals/arrived-signals';
import type { ClusterAccess, Clusters } from '../clusters';
import type { Execution } from '../execution';
import { describeReplication } from '../observe';
import { kindName, readKind } from '../joining/onboarding-read';
import { awaitState } from '../read-act-confirm';

/*
 * A plan that accepts no loss binds the activities themselves: inputs and results in a history may be made up. What the
 * clusters say right before the call counts first.
 */

/** The successor had everything a moment ago: for how long it may take to have the last writes too, ms. */
const CATCH_UP_MS = 30_000;

interface Demotion {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  readonly primary: string;
  readonly successor: string;
}

/**
 * Reads how far the primary wrote, and gives the successor a moment to have that. Whether it has it is for the last look
 * before the demotion.
 *
 * @returns the index
 * @throws RunbookError PRECONDITION_FAILED where the primary does not tell it
 */
export async function lastWriteToReach(
  clusters: Clusters,
  execution: Execution,
  { deployment, kind, primary, successor }: Demotion,
): Promise<WalIndex> {
  const { signal } = execution;
  const { catchUpMs } = clusters.deployment(deployment).limits;
  const source = await readKind(clusters.of(deployment, primary), kind, signal);
  const { lastWal } = source;
  if (lastWal === undefined) {
    throw new RunbookError('PRECONDITION_FAILED', `The plan accepts no loss; ${primary} was not demoted.`, {
      cluster: primary,
      observed: describeReplication(source),
      needed: `${primary} tells its last ${kindName(kind)} WAL index`,
      next: 'Start again with {"acceptLoss": "bounded"}, or upgrade the service to 1.4 or later.',
    });
  }
  await awaitState(execution, {
    read: () => readKind(clusters.of(deployment, successor), kind, signal),
    until: ({ state, lastRemoteWal }) => state !== 'stream-wals' || BigInt(lastRemoteWal ?? '0') >= BigInt(lastWal),
    budgetMs: Math.min(catchUpMs, CATCH_UP_MS),
    describe: describeReplication,
    needed: `last remote WAL of ${successor} at least ${lastWal}`,
    cluster: successor,
  }).catch((error: unknown) => {
    if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
  });
  return lastWal;
}

/** The later one of two WAL indexes, where both are needed. */
export function latest(one: WalIndex | undefined, other: WalIndex | undefined): WalIndex | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return BigInt(one) > BigInt(other) ? one : other;
}

interface Evidence {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  readonly oldPrimary: ClusterAccess;
  readonly newPrimary: ClusterAccess;
}

/**
 * Right before a promotion: both clusters have the same Merkle root; or, where one of them does not tell it, the
 * comparison after the demotion said so; or a person decided to go on all the same.
 *
 * @throws RunbookError PRECONDITION_FAILED
 */
export async function demandNoLoss(
  { inventory, temporal }: ActivityDependencies,
  { run, signal }: Execution,
  { deployment, kind, oldPrimary, newPrimary }: Evidence,
): Promise<void> {
  const [from, to] = [oldPrimary.entry.name, newPrimary.entry.name];
  const [former, next] = await Promise.all([oldPrimary, newPrimary].map((each) => rootOf(each, kind, signal)));
  if (former !== undefined && former === next) return;
  if (former === undefined || next === undefined) {
    const { activities } = readHistory(await historyOf(temporal, run));
    if (comparedSinceDemotion(activities, kind, from, to)) return;
  }
  const decisions = await decisionsOf(inventory, run, deployment);
  const goesOn = decisions.some(
    ({ action, step }) => action === 'promote-secondary' || (action === 'skip' && step === COMPARE_STEP),
  );
  if (goesOn) return;
  throw new RunbookError('PRECONDITION_FAILED', `The plan accepts no loss, and none is not proven for ${to}.`, {
    cluster: to,
    observed: `Merkle roots (${kindName(kind)}) ${former ?? 'not told'} and ${next ?? 'not told'}`,
    needed: `equal Merkle roots of ${from} and ${to} after the demotion`,
    next: `Promote ${from} back, which holds every write; or let a person who signs decide to promote ${to} all the same.`,
  });
}

/** The comparison belongs to the last demotion of the old primary, whoever it was that demoted it. */
function comparedSinceDemotion(
  activities: readonly RecordedActivity[],
  kind: ReplicationKind,
  from: string,
  to: string,
): boolean {
  const demotions = activities.filter(({ type, input }) => type === 'demotePrimary' && input['kind'] === kind);
  const demoted = demotions.findLast((each) => clusterOf(each) === from)?.scheduledEventId;
  const compared = activities.findLast(
    ({ type, input, state }) =>
      type === 'compareAfterDemotion' &&
      state === 'completed' &&
      input['oldPrimary'] === from &&
      input['newPrimary'] === to,
  );
  return (
    demoted !== undefined &&
    compared !== undefined &&
    compared.scheduledEventId > demoted &&
    compared.result['loss'] === 'none'
  );
}

async function rootOf(access: ClusterAccess, kind: ReplicationKind, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readKind(access, kind, signal)).merkleRoot;
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    return undefined;
  }
}
