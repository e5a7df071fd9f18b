import type { RunbookActivities } from '../../activities';

/**
 * What keeps somebody who starts an activity himself from doing harm with it.
 *
 * - `reads`: changes nothing, on no cluster and nowhere else.
 * - `approval`: verifies a plan and its approvals itself.
 * - `envelopes`: needs key shares that their holders encrypted for this very run.
 * - `own run`: touches only what its own run has: its keys, its tokens, its report.
 * - `people`: tells people something, or another run, or the record for the next check, and nothing else.
 * - `open`: changes something without an approval; SECURITY.md says so.
 */
export type Guard = 'reads' | 'approval' | 'envelopes' | 'own run' | 'people' | 'open';

/** Every activity. A new one is judged before it is listed. */
export const GUARDS: Readonly<Record<keyof RunbookActivities, Guard>> = {
  assessBatchTokenRotation: 'reads',
  assessCeremony: 'reads',
  assessDrFailover: 'reads',
  assessDrReindex: 'reads',
  assessDrRejoin: 'reads',
  assessDrSecondaryOnboarding: 'reads',
  assessDrSwitchover: 'reads',
  assessFilterReconciliation: 'reads',
  assessMerkleCheck: 'reads',
  assessPerformancePromotion: 'reads',
  assessPerformanceRejoin: 'reads',
  assessPerformanceSecondaryOnboarding: 'reads',
  assessPrimaryEnablement: 'reads',
  assessReplicationTeardown: 'reads',
  assessRootTokenCeremony: 'reads',
  assessSecondaryDecommission: 'reads',
  assessSecondaryRepointing: 'reads',
  assessTokenDisposal: 'reads',
  awaitDrStreaming: 'reads',
  awaitOutsideSecondary: 'reads',
  awaitPerformanceSecondaries: 'reads',
  awaitPrimaryGone: 'reads',
  awaitReplicationDisabled: 'reads',
  awaitSecondaryGone: 'reads',
  checkApprovals: 'reads',
  checkCredential: 'reads',
  checkControls: 'reads',
  checkDecisions: 'reads',
  checkFormerPrimaryDemoted: 'reads',
  checkUnaskedShares: 'reads',
  compareAfterDemotion: 'reads',
  compareDynamicFilters: 'reads',
  compareMerkleRoots: 'reads',
  describeRun: 'reads',
  describeSplit: 'reads',
  followBootstrap: 'reads',
  followDrReindex: 'reads',
  probeMerkleTree: 'reads',
  probeService: 'reads',
  readDeployment: 'reads',
  readPathsFilter: 'reads',
  readPathsFilters: 'reads',
  readQuotas: 'reads',
  readRunbookInput: 'reads',
  readSignalEvents: 'reads',
  sampleWal: 'reads',
  deletePathsFilter: 'approval',
  demotePrimary: 'approval',
  disablePrimary: 'approval',
  disableSecondary: 'approval',
  enablePrimary: 'approval',
  enableSecondary: 'approval',
  fenceLostPrimary: 'approval',
  forgetPrimary: 'approval',
  issueOutsideToken: 'approval',
  promoteSecondary: 'approval',
  quiesceByQuota: 'approval',
  revokeSecondary: 'approval',
  startDrReindex: 'approval',
  takeSnapshot: 'approval',
  unfenceFormerPrimary: 'approval',
  updatePrimary: 'approval',
  writePathsFilter: 'approval',
  startGeneration: 'envelopes',
  completeGeneration: 'envelopes',
  createCeremony: 'own run',
  deleteOperationTokens: 'own run',
  destroyCeremonyKeys: 'own run',
  releaseQuota: 'own run',
  settleGeneration: 'own run',
  writeReportFiles: 'own run',
  openEnvelopes: 'own run',
  probeProvidedToken: 'own run',
  takeKeptToken: 'approval',
  takeProvidedTokens: 'own run',
  notify: 'people',
  requestTakeOver: 'people',
  assessReadiness: 'people',
  awaitServiceReady: 'reads',
  proveWrite: 'open',
  disposeLedgerToken: 'open',
  forgetLedgerToken: 'approval',
  rotateBatchToken: 'open',
  runHook: 'open',
  writeMarker: 'open',
  assessRehearsal: 'reads',
  createRehearsal: 'own run',
  openRehearsal: 'own run',
};

export function guardedBy(guard: Guard): (keyof RunbookActivities)[] {
  return (Object.keys(GUARDS) as (keyof RunbookActivities)[]).filter((name) => GUARDS[name] === guard);
}
