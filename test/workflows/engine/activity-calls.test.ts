/** How Temporal runs activities: no error is tried again for ever, unseen. */
import { msToNumber } from '@temporalio/common/lib/time';
import { activityOptions } from '../../../workflows/engine/activity-calls';

const NAMES = [
  'readDeployment',
  'writeMarker',
  'awaitServiceReady',
  'probeService',
  'startGeneration',
  'demotePrimary',
] as const;

it.each(NAMES)('%s has few attempts and a bounded time, and a lost worker is noticed within seconds', (name) => {
  const { retry, scheduleToCloseTimeout, startToCloseTimeout, heartbeatTimeout } = activityOptions(name);
  expect(retry?.maximumAttempts).toBeLessThanOrEqual(5);
  expect(retry?.maximumAttempts).toBeGreaterThan(1);
  expect(msToNumber(scheduleToCloseTimeout ?? 0)).toBeGreaterThan(msToNumber(startToCloseTimeout ?? 0));
  expect(msToNumber(startToCloseTimeout ?? 0)).toBeGreaterThan(0);
  expect(msToNumber(heartbeatTimeout ?? 0)).toBeLessThanOrEqual(10_000);
});

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
