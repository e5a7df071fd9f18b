import { Context } from '@temporalio/activity';
import { RunbookError } from '../../src/errors';
import type { RecordedActivity } from '../../src/report/run-history';
import { readHistory } from '../../src/report/run-history';
import { ownHistory } from '../approvals/arrived-signals';
import { beforeSending } from '../read-act-confirm';

/*
 * A demotion proves that clients are held, and is sent a moment later. Nothing may let clients write in between.
 * Anybody who takes the workflow tasks of a run can order its activities in any sequence, and close them by their ID
 * while they still run. So an activity that lets clients through asks whether a demotion is open, and the demotion
 * counts every release that was ever ordered, however it ended.
 */

/** Hooks that let clients through, or direct them to a cluster. */
const LETS_THROUGH: readonly unknown[] = ['release', 'traffic'];

function isRelease({ type, input }: RecordedActivity): boolean {
  return type === 'releaseQuota' || (type === 'runHook' && LETS_THROUGH.includes(input['hook']));
}

/** Whether the run ordered anything that lets clients through. A run that changes its primary does so only afterwards. */
export function orderedRelease(activities: readonly RecordedActivity[]): boolean {
  return activities.some(isRelease);
}

/** The demotion of a serving primary; that of a former primary proves nothing about clients. */
function isDemotion({ type, input }: RecordedActivity): boolean {
  return type === 'demotePrimary' && input['former'] !== true;
}

/**
 * Called right before clients are let through, or their quota is created again, which admits them for a moment.
 *
 * @throws RunbookError PRECONDITION_FAILED while a demotion of this run is open; TEMPORAL_UNAVAILABLE. Nothing was sent
 */
export async function refuseWhileDemoting(what: string): Promise<void> {
  const { activities } = await beforeSending(async () => readHistory(await ownHistory()));
  if (!activities.some((each) => isDemotion(each) && each.state === 'running')) return;
  throw new RunbookError('PRECONDITION_FAILED', `${what} while the demotion of the primary is under way.`, {
    outcomeKnown: true,
    retryable: false,
    observed: 'the history of this run has a demotion that has not ended',
    needed: 'no open demotion: it relies on clients that are held',
    next: 'Wait until the demotion has ended, then retry. No runbook orders this in parallel: find out who takes the workflow tasks of this namespace.',
  });
}

/**
 * Called in a demotion, once it took effect: whether clients were held from the proof until then. Every release that
 * took effect before was ordered before, so it is in the history by now.
 *
 * @param by - what held the clients
 * @returns why that is not certain; undefined if it is
 */
export async function whyNotHeld(by: unknown): Promise<string | undefined> {
  const since = Context.current().info.scheduledTimestampMs;
  const { activities } = readHistory(await ownHistory());
  if (orderedRelease(activities)) return 'the run also ordered a release of clients';
  const beside = activities.filter(({ state, scheduledAt }) => state === 'running' || scheduledAt >= since);
  if (beside.some(({ type }) => type === 'quiesceByQuota') || beside.filter(isDemotion).length > 1)
    return 'the run created the quota again meanwhile, which admits clients for a moment';
  const ranHook = activities.some(
    ({ type, input, state }) => type === 'runHook' && input['hook'] === 'quiesce' && state === 'completed',
  );
  return by === 'hook' && !ranHook ? 'the history of the run has no quiesce hook that succeeded' : undefined;
}
