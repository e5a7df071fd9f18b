/**
 * How Temporal runs an activity, and what becomes of it in a run that was reset.
 *
 * - `read`: reads only, may be repeated at will.
 * - `wait`: one long wait that polls inside.
 * - `change`: changes something, and refuses after a reset until an operator acknowledged it; `long-change`: as long as a
 *   wait; `keys`: on the queue of the host that has the ceremony's keys.
 * - `outage-wait`, `outage-change`: the same inside an outage, where a lost worker must cost little.
 * - `once`: on that queue too, and never twice: that it is in the history says that it may have been done.
 * - `open`: on that queue too, and changes nothing.
 * - `tell`: tells people something, or another run or the record, or writes the report: repeated at will, and never
 *   held back.
 */
export type ActivityKind =
  'read' | 'wait' | 'outage-wait' | 'change' | 'long-change' | 'outage-change' | 'keys' | 'once' | 'open' | 'tell';

/** Every activity with its kind. A missing one does not compile, see `workflows/engine/activity-calls.ts`. */
export const ACTIVITY_KINDS = {
  assessBatchTokenRotation: 'read',
  assessCeremony: 'read',
  assessDrFailover: 'read',
  assessDrReindex: 'read',
  assessDrRejoin: 'read',
  assessDrSecondaryOnboarding: 'read',
  assessDrSwitchover: 'read',
  assessFilterReconciliation: 'read',
  assessMerkleCheck: 'read',
  assessPerformancePromotion: 'read',
  assessPerformanceRejoin: 'read',
  assessPerformanceSecondaryOnboarding: 'read',
  assessPrimaryEnablement: 'read',
  assessReadiness: 'tell',
  assessRehearsal: 'read',
  assessReplicationTeardown: 'read',
  assessRootTokenCeremony: 'read',
  assessSecondaryDecommission: 'read',
  assessSecondaryRepointing: 'read',
  assessTokenDisposal: 'read',
  awaitDrStreaming: 'wait',
  awaitOutsideSecondary: 'wait',
  awaitPerformanceSecondaries: 'wait',
  awaitPrimaryGone: 'wait',
  awaitReplicationDisabled: 'wait',
  awaitSecondaryGone: 'wait',
  awaitServiceReady: 'outage-wait',
  checkApprovals: 'read',
  checkControls: 'read',
  checkCredential: 'read',
  checkDecisions: 'read',
  checkFormerPrimaryDemoted: 'read',
  checkUnaskedShares: 'read',
  compareAfterDemotion: 'outage-wait',
  compareDynamicFilters: 'read',
  compareMerkleRoots: 'read',
  completeGeneration: 'once',
  createCeremony: 'change',
  createRehearsal: 'change',
  deleteOperationTokens: 'change',
  deletePathsFilter: 'change',
  demotePrimary: 'outage-change',
  describeRun: 'read',
  describeSplit: 'read',
  destroyCeremonyKeys: 'keys',
  disablePrimary: 'change',
  disableSecondary: 'change',
  disposeLedgerToken: 'change',
  enablePrimary: 'change',
  enableSecondary: 'change',
  fenceLostPrimary: 'change',
  followBootstrap: 'wait',
  followDrReindex: 'wait',
  forgetLedgerToken: 'change',
  forgetPrimary: 'change',
  issueOutsideToken: 'change',
  notify: 'tell',
  openEnvelopes: 'open',
  openRehearsal: 'open',
  probeMerkleTree: 'wait',
  probeProvidedToken: 'wait',
  probeService: 'outage-wait',
  promoteSecondary: 'outage-change',
  proveWrite: 'change',
  readDeployment: 'outage-wait',
  readPathsFilter: 'read',
  quiesceByQuota: 'change',
  readPathsFilters: 'read',
  readQuotas: 'read',
  releaseQuota: 'outage-change',
  readRunbookInput: 'read',
  readSignalEvents: 'read',
  requestTakeOver: 'tell',
  revokeSecondary: 'change',
  rotateBatchToken: 'change',
  runHook: 'outage-change',
  sampleWal: 'wait',
  settleGeneration: 'change',
  startDrReindex: 'change',
  startGeneration: 'keys',
  takeKeptToken: 'change',
  takeProvidedTokens: 'keys',
  takeSnapshot: 'long-change',
  unfenceFormerPrimary: 'change',
  updatePrimary: 'change',
  writeMarker: 'long-change',
  writeReportFiles: 'tell',
  writePathsFilter: 'change',
} as const satisfies Readonly<Record<string, ActivityKind>>;

const CHANGING: readonly ActivityKind[] = ['change', 'long-change', 'outage-change', 'keys', 'once'];

/** Whether an activity changes something: so too where nobody knows it. */
export function changesSomething(activity: string): boolean {
  const kind = Object.hasOwn(ACTIVITY_KINDS, activity)
    ? ACTIVITY_KINDS[activity as keyof typeof ACTIVITY_KINDS]
    : undefined;
  return kind === undefined || CHANGING.includes(kind);
}
