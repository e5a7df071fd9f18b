import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow';
import type { ActivityOptions } from '@temporalio/workflow';
import type { RunbookActivities } from '../../src/contracts/activities';
import { keyTaskQueue } from '../../src/contracts/names';
import type { StepContext } from '../../src/contracts/run-facts';

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
 * Changes something: reads, acts, confirms. Heartbeats by timer, so that a killed worker costs seconds. The interval
 * before another attempt, with the heartbeat timeout, is longer than the HTTP time-out of a change: a worker that lost
 * its connection to Temporal has stopped calling when the next attempt reads the state. Activities wait out what may pass
 * within budgets of their own (the inventory bounds those of changes: an attempt that Temporal ends tells no reason); the few
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
 * One long wait that polls inside: its budget comes from the inventory, and what may pass is waited out there. The few
 * attempts are for lost workers: an error that no poll waits out parks the step instead of being tried again unseen.
 */
const WAIT: ActivityOptions = {
  startToCloseTimeout: '6 hours',
  scheduleToCloseTimeout: '12 hours',
  heartbeatTimeout: '5 seconds',
  cancellationType: WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1 second', maximumInterval: '5 seconds', maximumAttempts: 5 },
};

/** Needs the ceremony's keys: runs where they are. */
const KEYS: ActivityOptions = { ...CHANGE, scheduleToStartTimeout: '30 seconds' };

/** How Temporal runs each activity: always with few attempts and within a bounded time. */
const OPTIONS = {
  assessBatchTokenRotation: READ,
  assessCeremony: READ,
  assessDrFailover: READ,
  assessDrReindex: READ,
  assessDrRejoin: READ,
  assessDrSecondaryOnboarding: READ,
  assessDrSwitchover: READ,
  assessFilterReconciliation: READ,
  assessMerkleCheck: READ,
  assessPerformancePromotion: READ,
  assessPerformanceSecondaryOnboarding: READ,
  assessPrimaryEnablement: READ,
  assessReadiness: READ,
  assessRehearsal: READ,
  assessReplicationTeardown: READ,
  assessRootTokenCeremony: READ,
  assessSecondaryDecommission: READ,
  assessSecondaryRepointing: READ,
  assessTokenDisposal: READ,
  awaitCatchUp: WAIT,
  awaitDrStreaming: WAIT,
  awaitDump: WAIT,
  awaitPerformanceSecondaries: WAIT,
  awaitPrimaryGone: WAIT,
  awaitReplicationDisabled: WAIT,
  awaitSecondaryGone: WAIT,
  awaitServiceReady: WAIT,
  awaitUnsealed: WAIT,
  cancelForeignAttempt: CHANGE,
  checkApprovals: READ,
  checkControls: READ,
  checkCredential: READ,
  checkDecisions: READ,
  checkDeclines: READ,
  checkFormerPrimaryDemoted: READ,
  checkUnaskedShares: READ,
  compareAfterDemotion: READ,
  compareDynamicFilters: READ,
  compareMerkleRoots: READ,
  composeReport: CHANGE,
  createCeremony: CHANGE,
  createRehearsal: CHANGE,
  createRootTokenCeremony: CHANGE,
  deleteOperationTokens: CHANGE,
  deletePathsFilter: CHANGE,
  demotePrimary: CHANGE,
  describeRun: READ,
  describeSplit: READ,
  destroyCeremonyKeys: KEYS,
  disablePrimary: CHANGE,
  disableSecondary: CHANGE,
  disposeLedgerToken: CHANGE,
  enablePrimary: CHANGE,
  enableSecondary: CHANGE,
  fenceLostPrimary: CHANGE,
  followBootstrap: WAIT,
  followDrReindex: WAIT,
  forgetPrimary: CHANGE,
  generateOperationToken: KEYS,
  generateRootToken: KEYS,
  issueActivationToken: CHANGE,
  issueEnableToken: CHANGE,
  noteRehearsalDeclines: KEYS,
  notify: CHANGE,
  openEnvelopes: KEYS,
  openRehearsal: KEYS,
  prepareBatchTokenRole: CHANGE,
  probeMerkleTree: WAIT,
  probeProvidedToken: WAIT,
  probeService: WAIT,
  promoteSecondary: CHANGE,
  readDeployment: READ,
  readPathsFilter: READ,
  readPathsFilters: READ,
  readSeals: READ,
  readSignalEvents: READ,
  requestTakeOver: CHANGE,
  revokeSecondary: CHANGE,
  rotateBatchToken: CHANGE,
  runHook: CHANGE,
  sampleWal: WAIT,
  settleCeremony: CHANGE,
  startDrReindex: CHANGE,
  takeProvidedTokens: KEYS,
  unfenceFormerPrimary: CHANGE,
  updatePrimary: CHANGE,
  updatePerformancePrimaryByAddresses: CHANGE,
  writeMarker: CHANGE,
  writePathsFilter: CHANGE,
} satisfies Record<keyof RunbookActivities, ActivityOptions>;

/** How Temporal runs an activity. */
export function activityOptions(name: keyof RunbookActivities): ActivityOptions {
  return OPTIONS[name];
}

/** An activity as a step calls it: the step's context is added, the rest is its input. */
export type StepCalls = {
  readonly [K in keyof RunbookActivities]: (
    input: Omit<Parameters<RunbookActivities[K]>[0], 'step'>,
  ) => ReturnType<RunbookActivities[K]>;
};

/**
 * Gives the activities of one step.
 *
 * @param summary - shown beside the activity in the Web UI's timeline; costs no event
 * @param context - drains the facts since the previous activity into each call
 */
export function stepCalls(summary: string, context: () => StepContext): StepCalls {
  return new Proxy({} as StepCalls, {
    get: (_target, name: keyof RunbookActivities) => (input: { readonly ceremony?: { readonly keyHome: string } }) => {
      const options = activityOptions(name);
      const taskQueue = options === KEYS && input.ceremony ? keyTaskQueue(input.ceremony.keyHome) : undefined;
      const activities = proxyActivities<Record<string, (input: object) => Promise<unknown>>>({
        ...options,
        ...(taskQueue === undefined ? {} : { taskQueue }),
        summary,
      });
      const activity = activities[name];
      if (!activity) throw new TypeError(`no activity ${name}`);
      return activity({ ...input, step: context() });
    },
  });
}

type Checks = Pick<
  RunbookActivities,
  'checkApprovals' | 'checkControls' | 'checkDecisions' | 'checkDeclines' | 'checkUnaskedShares' | 'readSignalEvents'
>;

/**
 * Checks of what people sent. Activities, and never local ones: what follows from a local activity is told before the
 * events of the same workflow task when it is replayed, and after them where a query was answered meanwhile.
 */
export const checks: Checks = proxyActivities<Checks>({ ...READ, summary: 'Check what people sent' });
