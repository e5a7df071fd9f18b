import { COMPARE_STEP } from '../../src/contracts/names';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { RecordedActivity } from '../../src/report/run-history';
import { readHistory } from '../../src/report/run-history';
import { clusterOf, fieldsOf } from '../../src/report/run-record';
import type { ActivityDependencies } from '../dependencies';
import { decisionsOf } from '../approvals/people';
import { historyOf } from '../approvals/arrived-signals';
import type { ClusterAccess } from '../clusters';
import type { Execution } from '../execution';
import { kindName } from '../joining/onboarding-read';
import { readStatus } from '../observe';
import { believedEvidence } from '../quiesce/held-writes';
import { hasReached } from './data-evidence';

interface Evidence {
  readonly deployment: string;
  readonly kind: ReplicationKind;
  readonly oldPrimary: ClusterAccess;
  readonly newPrimary: ClusterAccess;
  /** The Merkle roots that both told a moment ago, while the call was prepared. */
  readonly roots: { readonly former: string | undefined; readonly next: string | undefined };
}

/**
 * A plan that accepts no loss binds the activity itself: inputs and results in a history may be made up, and what the
 * clusters say right before the call counts first. Before a promotion: both clusters have the same Merkle root; or a worker
 * of ours marked that clients were held at the demotion, and the new primary has W; or, where one of them does not tell its
 * root, the comparison after the demotion said so; or a person decided to go on all the same.
 *
 * @throws RunbookError PRECONDITION_FAILED
 */
export async function demandNoLoss(
  { inventory, temporal, sealKeyring }: ActivityDependencies,
  { run, signal }: Execution,
  { deployment, kind, oldPrimary, newPrimary, roots }: Evidence,
): Promise<void> {
  if (roots.former !== undefined && roots.former === roots.next) return;
  const [from, to] = [oldPrimary.entry.name, newPrimary.entry.name];
  const [former, next] = await Promise.all([oldPrimary, newPrimary].map((each) => rootOf(each, kind, signal)));
  if (former !== undefined && former === next) return;
  const { activities } = readHistory(await historyOf(temporal, run));
  const held = believedEvidence(sealKeyring, run, { deployment, kind, from, to }, evidenceOf(activities, kind, from));
  if (held !== undefined && hasReached(await readStatus(newPrimary, kind, signal), held)) return;
  if ((former === undefined || next === undefined) && comparedSinceDemotion(activities, kind, from, to)) return;
  const decisions = await decisionsOf(inventory, run, deployment);
  const goesOn = decisions.some(
    ({ action, step }) => action === 'promote-secondary' || (action === 'skip' && step === COMPARE_STEP),
  );
  if (goesOn) return;
  throw new RunbookError('PRECONDITION_FAILED', `The plan accepts no loss, and none is not proven for ${to}.`, {
    cluster: to,
    observed: `Merkle roots (${kindName(kind)}) ${former ?? 'not told'} and ${next ?? 'not told'}`,
    needed: `clients that were held at the demotion, or equal Merkle roots of ${from} and ${to} after it`,
    next: `Promote ${from} back, which holds every write; or let a person who signs decide to promote ${to} all the same.`,
  });
}

/** What the last demotion of the old primary proved; nothing where it may have been promoted since. */
function evidenceOf(activities: readonly RecordedActivity[], kind: ReplicationKind, from: string) {
  const changes = activities.filter(
    ({ type, input, state, failure }) =>
      (type === 'demotePrimary' || type === 'promoteSecondary') &&
      input['kind'] === kind &&
      !(state === 'failed' && failure?.outcomeKnown === true),
  );
  const last = changes.findLast((each) => clusterOf(each) === from);
  const demoted = last?.type === 'demotePrimary' && last.state === 'completed';
  return demoted ? fieldsOf(last.result['evidence']) : {};
}

/** The comparison belongs to the last demotion of the old primary, whoever it was that demoted it. */
function comparedSinceDemotion(
  activities: readonly RecordedActivity[],
  kind: ReplicationKind,
  from: string,
  to: string,
): boolean {
  const demotions = activities.filter(({ type, input }) => type === 'demotePrimary' && input['kind'] === kind);
  const demotion = demotions.findLast((each) => clusterOf(each) === from);
  const demoted = demotion?.scheduledEventId;
  if (demotion?.state === 'completed' && demotion.input['otherCluster'] === to)
    if (rootsWereEqual(fieldsOf(demotion.result['evidence']))) return true;
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

/** That clients were held counts with the mark of a worker alone. */
function rootsWereEqual({ loss, oldPrimaryRoot }: Readonly<Record<string, unknown>>): boolean {
  return loss === 'none' && typeof oldPrimaryRoot === 'string';
}

async function rootOf(access: ClusterAccess, kind: ReplicationKind, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readStatus(access, kind, signal)).merkleRoot;
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    return undefined;
  }
}
