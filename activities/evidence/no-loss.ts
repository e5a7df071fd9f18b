import { COMPARE_STEP } from '../../src/contracts/names';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
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
import { hasReached, statusIfTold } from './data-evidence';

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
  { temporal, sealKeyring }: ActivityDependencies,
  { run, signal }: Execution,
  { deployment, kind, oldPrimary, newPrimary, roots }: Evidence,
): Promise<void> {
  if (roots.former !== undefined && roots.former === roots.next) return;
  const [from, to] = [oldPrimary.entry.name, newPrimary.entry.name];
  const seen = await Promise.all([oldPrimary, newPrimary].map((each) => statusIfTold(each, kind, signal)));
  const [former, next] = seen.map((each) => each?.merkleRoot);
  if (former !== undefined && former === next) return;
  const { activities } = readHistory(await historyOf(temporal, run));
  const held = believedEvidence(sealKeyring, run, { deployment, kind, from, to }, evidenceOf(activities, kind, from));
  if (held !== undefined && hasReached(await readStatus(newPrimary, kind, signal), held)) return;
  if ((former === undefined || next === undefined) && comparedSinceDemotion(activities, kind, from, to)) return;
  const decisions = await decisionsOf(deployment);
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

const of = (activity: RecordedActivity, type: string, members: Readonly<Record<string, string>>) =>
  activity.type === type && Object.entries(members).every(([name, value]) => activity.input[name] === value);

/** What the last demotion of the old primary proved; nothing where it may have been promoted since. */
function evidenceOf(activities: readonly RecordedActivity[], kind: ReplicationKind, from: string) {
  const last = activities.findLast(
    (each) =>
      (of(each, 'demotePrimary', { kind }) || of(each, 'promoteSecondary', { kind })) &&
      !(each.state === 'failed' && each.failure?.outcomeKnown === true) &&
      clusterOf(each) === from,
  );
  return last?.type === 'demotePrimary' && last.state === 'completed' ? fieldsOf(last.result['evidence']) : {};
}

/** The comparison belongs to the last demotion of the old primary, whoever it was that demoted it. */
function comparedSinceDemotion(
  activities: readonly RecordedActivity[],
  kind: ReplicationKind,
  from: string,
  to: string,
): boolean {
  const demotion = activities.findLast((each) => of(each, 'demotePrimary', { kind }) && clusterOf(each) === from);
  if (demotion === undefined) return false;
  const { loss, oldPrimaryRoot } = fieldsOf(demotion.result['evidence']);
  // That clients were held counts with the mark of a worker alone.
  const equal = loss === 'none' && typeof oldPrimaryRoot === 'string';
  if (demotion.state === 'completed' && demotion.input['otherCluster'] === to && equal) return true;
  const compared = activities.findLast(
    (each) => of(each, 'compareAfterDemotion', { oldPrimary: from, newPrimary: to }) && each.state === 'completed',
  );
  return (
    compared !== undefined &&
    compared.scheduledEventId > demotion.scheduledEventId &&
    compared.result['loss'] === 'none'
  );
}
