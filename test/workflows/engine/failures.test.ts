/**
 * What a step makes of what was thrown: facts to park with, or nothing where the run was told to stop. And how Temporal runs
 * activities: no error is tried again for ever, unseen.
 */
import { ActivityFailure, ApplicationFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time';
import { activityOptions } from '../../../workflows/engine/activity-calls';
import { failureFacts, inParallel, isStop, RunStopped, stepFailure } from '../../../workflows/engine/failures';

const activityFailure = (cause: Error) => new ActivityFailure('activity', 'demotePrimary', '1', 'TIMEOUT', 'w', cause);

const LOST = { observed: 'a', needed: 'b', next: 'c', cluster: 'east', outcomeKnown: false };
const failed = (...details: readonly object[]) =>
  activityFailure(ApplicationFailure.create({ type: 'OUTCOME_UNKNOWN', message: 'lost', details: [...details] }));
const timedOut = (type: TimeoutFailure['timeoutType']) => activityFailure(new TimeoutFailure('time', undefined, type));

it.each([
  ['has code, message and details of its cause', failed(LOST), { code: 'OUTCOME_UNKNOWN', message: 'lost', ...LOST }],
  ['without details leaves it open whether the outcome is known', failed(), { outcomeKnown: false }],
  ['that does not say whether the outcome is known leaves it open', failed({}), { outcomeKnown: false }],
  [
    'of its own is known',
    stepFailure('PRECONDITION_FAILED', 'no'),
    { code: 'PRECONDITION_FAILED', outcomeKnown: true },
  ],
  ['that no worker took is known', timedOut('SCHEDULE_TO_START'), { code: 'WORKER_UNREACHABLE', outcomeKnown: true }],
  [
    'that did not end in time is unknown',
    timedOut('START_TO_CLOSE'),
    { code: 'ACTIVITY_TIMEOUT', outcomeKnown: false },
  ],
  ['whose worker was lost is unknown', timedOut('HEARTBEAT'), { code: 'ACTIVITY_TIMEOUT', outcomeKnown: false }],
])('the effect of a step %s', (_, error, facts) => {
  expect(failureFacts(error)).toMatchObject(facts);
});

it.each([
  ['a cancellation', new CancelledFailure('cancelled'), true],
  ['one of an activity', activityFailure(new CancelledFailure('cancelled')), true],
  ['a stop, whoever asked for it', new RunStopped('olga', 'wrong day'), true],
  ['a defect, which is not hidden as one', new TypeError('a defect'), false],
])('no failure of a step is %s', (_, error, stops) => {
  expect([failureFacts(error), isStop(error)]).toEqual([undefined, stops]);
});

it('branches side by side are all waited for, also if one fails', async () => {
  const ended: string[] = [];
  const slow = new Promise<void>((resolve) => setImmediate(resolve)).then(() => void ended.push('slow'));
  await expect(inParallel([Promise.reject(new Error('first')), slow])).rejects.toThrow('first');
  expect(ended).toEqual(['slow']);
  expect(await inParallel([Promise.resolve(1), Promise.resolve(2)])).toEqual([1, 2]);
});

const READING = ['readDeployment', 'awaitServiceReady', 'probeService'] as const;
const CHANGING = ['writeMarker', 'startGeneration', 'demotePrimary'] as const;

it.each([...READING, ...CHANGING])(
  '%s has few attempts and a bounded time, and a lost worker is noticed within seconds',
  (name) => {
    const { retry, scheduleToCloseTimeout, startToCloseTimeout, heartbeatTimeout } = activityOptions(name);
    expect(retry?.maximumAttempts).toBeLessThanOrEqual(5);
    expect(retry?.maximumAttempts).toBeGreaterThan(1);
    expect(msToNumber(scheduleToCloseTimeout ?? 0)).toBeGreaterThan(msToNumber(startToCloseTimeout ?? 0));
    expect(msToNumber(startToCloseTimeout ?? 0)).toBeGreaterThan(0);
    expect(msToNumber(heartbeatTimeout ?? 0)).toBeLessThanOrEqual(10_000);
  },
);

it('the last share of a token is given once at most: that activity is never tried again', () => {
  expect(activityOptions('completeGeneration').retry?.maximumAttempts).toBe(1);
});

it('a change ends by its own budget, and reports why, before Temporal ends its attempt', () => {
  const longest = 5 * 60_000;
  // A call that was taken last has half of the budget to be seen; then a look that its time-outs end.
  expect(msToNumber(activityOptions('promoteSecondary').startToCloseTimeout ?? 0)).toBeGreaterThan(
    1.5 * longest + 8_000 + 30_000,
  );
});
