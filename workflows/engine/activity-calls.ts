import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow';
import type { ActivityOptions } from '@temporalio/workflow';
import type { RunbookActivities } from '../../activities';
import { ACTIVITY_KINDS } from '../../src/contracts/activities';
import type { ActivityKind } from '../../src/contracts/activities';
import { keyTaskQueue } from '../../src/contracts/names';

const { WAIT_CANCELLATION_COMPLETED } = ActivityCancellationType;

/** Reads only: may be repeated at will. */
const READ: ActivityOptions = {
  startToCloseTimeout: '45 seconds',
  scheduleToCloseTimeout: '2 minutes',
  cancellationType: WAIT_CANCELLATION_COMPLETED,
  heartbeatTimeout: '10 seconds',
  retry: { initialInterval: '1 second', maximumInterval: '10 seconds', maximumAttempts: 5 },
};

/**
 * Changes something: reads, acts, confirms. Heartbeats by timer, so that a killed worker costs seconds. The interval before
 * another attempt plus the heartbeat timeout is longer than the HTTP timeout of a change: a worker that lost its connection to
 * Temporal has stopped calling when the next attempt reads the state. Activities wait out temporary failures within their own
 * budgets. The inventory limits the budgets of changes, because an attempt that Temporal ends reports no reason. The few
 * attempts are for lost workers, and end in a parked step within a minute.
 */
const CHANGE: ActivityOptions = {
  startToCloseTimeout: '9 minutes',
  scheduleToCloseTimeout: '18 minutes',
  heartbeatTimeout: '5 seconds',
  cancellationType: WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '4 seconds', backoffCoefficient: 1.5, maximumInterval: '15 seconds', maximumAttempts: 5 },
};

/**
 * One long wait that polls inside. Its budget comes from the inventory, and temporary failures are waited out there. The few
 * attempts are for lost workers: an error that no poll waits out parks the step instead of being retried unseen.
 */
const WAIT: ActivityOptions = {
  startToCloseTimeout: '6 hours',
  scheduleToCloseTimeout: '12 hours',
  heartbeatTimeout: '5 seconds',
  cancellationType: WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1 second', maximumInterval: '5 seconds', maximumAttempts: 5 },
};

/**
 * Inside an outage: a lost worker is noticed and the activity retried within seconds (decision 21). The two intervals of a
 * change add up to more than the HTTP timeout of a role change.
 */
const LOST_IN_OUTAGE = { heartbeatTimeout: '2500 ms' } as const;
const OUTAGE_WAIT: ActivityOptions = {
  ...{ ...WAIT, ...LOST_IN_OUTAGE },
  retry: { initialInterval: '500 ms', maximumInterval: '2 seconds', maximumAttempts: 5 },
};
const OUTAGE_CHANGE: ActivityOptions = {
  ...{ ...CHANGE, ...LOST_IN_OUTAGE },
  retry: { initialInterval: '2 seconds', backoffCoefficient: 1.5, maximumInterval: '6 seconds', maximumAttempts: 5 },
};

/** Needs the ceremony's keys, so it runs on the host that has them. */
const KEYS: ActivityOptions = { ...CHANGE, scheduleToStartTimeout: '30 seconds' };

/** Never retried. Reads find out whether it was done. */
const ONCE: ActivityOptions = { ...KEYS, retry: { maximumAttempts: 1 } };

/** How Temporal runs the activities of each kind: always with few attempts and in limited time. */
const OPTIONS = {
  read: READ,
  wait: WAIT,
  'outage-wait': OUTAGE_WAIT,
  change: CHANGE,
  'long-change': WAIT,
  'outage-change': OUTAGE_CHANGE,
  keys: KEYS,
  once: ONCE,
  open: KEYS,
  tell: CHANGE,
} as const satisfies Readonly<Record<ActivityKind, ActivityOptions>>;

/** Exhaustive: an activity without a kind does not compile. */
const KINDS: Readonly<Record<keyof RunbookActivities, ActivityKind>> = ACTIVITY_KINDS;

/** How Temporal runs an activity. */
export function activityOptions(name: keyof RunbookActivities): ActivityOptions {
  return OPTIONS[KINDS[name]];
}

export type StepCalls = RunbookActivities;

/** The activities. Those that need the keys of a ceremony run on the queue of the host that has them. */
export const activities: StepCalls = new Proxy({} as StepCalls, {
  get: (_target, name: keyof RunbookActivities) => (input: { readonly ceremony?: { readonly keyHome: string } }) => {
    const options = activityOptions(name);
    const taskQueue =
      'scheduleToStartTimeout' in options && input.ceremony ? keyTaskQueue(input.ceremony.keyHome) : undefined;
    const proxies = proxyActivities<Record<string, (input: object) => Promise<unknown>>>({
      ...options,
      ...(taskQueue === undefined ? {} : { taskQueue }),
    });
    const activity = proxies[name];
    if (!activity) throw new TypeError(`no activity ${name}`);
    return activity(input);
  },
});

type Kinds = typeof ACTIVITY_KINDS;
/** Activities that only read. They may be repeated at will. */
type Reads = { [K in keyof Kinds as Kinds[K] extends 'read' ? K : never]: RunbookActivities[K] };

/**
 * Checks of what people sent. Always regular activities, never local ones: in a replay, what follows from a local activity comes
 * before the events of the same workflow task, but after them if a query was answered meanwhile.
 */
export const checks = proxyActivities<Reads>({ ...READ, summary: 'Check what was sent' });
