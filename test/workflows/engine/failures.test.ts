/**
 * What a step makes of what was thrown: facts to park with, or nothing where the run was told to stop. And how Temporal runs
 * activities: no error is tried again for ever, unseen.
 */
import { ActivityFailure, ApplicationFailure, CancelledFailure, TimeoutFailure } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time';
import { activityOptions } from '../../../workflows/engine/activity-calls';
import { failureFacts, inParallel, isStop, RunStopped, stepFailure } from '../../../workflows/engine/failures';

const activityFailure = (cause: Error) => new ActivityFailure('activity', 'demotePrimary', '1', 'TIMEOUT', 'w', cause);

it('an activity that failed tells code, message and details of its cause', () => {
  const details = { observed: 'a', needed: 'b', next: 'c', cluster: 'east', outcomeKnown: false };
  const cause = ApplicationFailure.create({ type: 'OUTCOME_UNKNOWN', message: 'lost', details: [details] });
  expect(failureFacts(activityFailure(cause))).toEqual({ code: 'OUTCOME_UNKNOWN', message: 'lost', ...details });
});

it('a failure that does not say whether the outcome is known leaves it open', () => {
  for (const details of [undefined, [{}], [{ observed: 'a' }]]) {
    const cause = ApplicationFailure.create({ type: 'SOMETHING', message: 'x', ...(details && { details }) });
    expect(failureFacts(activityFailure(cause))).toMatchObject({ code: 'SOMETHING', outcomeKnown: false });
  }
});

it('a failure of the step itself parks like one of an activity, with a known outcome', () => {
  expect(failureFacts(stepFailure('PRECONDITION_FAILED', 'no', { observed: 'x' }))).toMatchObject({
    code: 'PRECONDITION_FAILED',
    observed: 'x',
    outcomeKnown: true,
  });
});

it.each([
  ['SCHEDULE_TO_START', 'WORKER_UNREACHABLE', true],
  ['START_TO_CLOSE', 'ACTIVITY_TIMEOUT', false],
  ['SCHEDULE_TO_CLOSE', 'ACTIVITY_TIMEOUT', false],
  ['HEARTBEAT', 'ACTIVITY_TIMEOUT', false],
] as const)('a time-out (%s) is %s, and what the last call did is known: %s', (type, code, outcomeKnown) => {
  expect(failureFacts(activityFailure(new TimeoutFailure('time', undefined, type)))).toMatchObject({
    code,
    outcomeKnown,
  });
});

it('a cancellation is no failure of the step, and a defect is not hidden as one', () => {
  expect(failureFacts(new CancelledFailure('cancelled'))).toBeUndefined();
  expect(failureFacts(activityFailure(new CancelledFailure('cancelled')))).toBeUndefined();
  expect(failureFacts(new TypeError('a defect'))).toBeUndefined();
});

it('a stop is a stop, whoever asked for it', () => {
  for (const error of [new RunStopped('olga', 'wrong day'), new CancelledFailure('x')])
    expect(isStop(error)).toBe(true);
  expect(isStop(stepFailure('INTERNAL', 'x'))).toBe(false);
});

it('branches side by side are all waited for, also where one fails', async () => {
  const ended: string[] = [];
  const slow = new Promise<void>((resolve) => setImmediate(resolve)).then(() => void ended.push('slow'));
  await expect(inParallel<unknown>([Promise.reject(new Error('first')), slow])).rejects.toThrow('first');
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

it('the last share of a token is given once at most: nobody tries that activity again', () => {
  expect(activityOptions('completeGeneration').retry?.maximumAttempts).toBe(1);
});

it('a change ends by its own budget, and tells why, before Temporal ends its attempt', () => {
  const longest = 5 * 60_000;
  // A call that was taken last has half of the budget to be seen; then a look that its time-outs end.
  expect(msToNumber(activityOptions('promoteSecondary').startToCloseTimeout ?? 0)).toBeGreaterThan(
    1.5 * longest + 8_000 + 30_000,
  );
});
