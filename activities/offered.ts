/* The activities that workers offer, by their Temporal names. They run only inside `interceptActivities`. */
export { checkControls } from './approvals/people';
export { checkApprovals, checkDecisions } from './approvals/people';
export { createCeremony, destroyCeremonyKeys } from './ceremony/ceremony';
export { checkUnaskedShares, openEnvelopes } from './ceremony/shares';
export { completeGeneration, settleGeneration, startGeneration } from './ceremony/generation';
export { readSignalEvents } from './approvals/arrived-signals';
export { probeProvidedToken, takeProvidedTokens } from './ceremony/provided-tokens';
export { assessRehearsal, createRehearsal, openRehearsal } from './ceremony/rehearsal';
export { awaitSecondaryGone, awaitReplicationDisabled } from './ending/replication-end';
export { revokeSecondary, forgetPrimary, disablePrimary, disableSecondary } from './ending/replication-end';
export { writeMarker, compareAfterDemotion } from './evidence/data-evidence';
export { awaitServiceReady, proveWrite } from './evidence/service-readiness';
export { sampleWal } from './evidence/wal-samples';
export { compareDynamicFilters, readPathsFilter, writePathsFilter } from './joining/filters';
export { runHook, probeService } from './hooks/run-hook';
export { readRunbookInput } from './run-beginning';
export { checkFormerPrimaryDemoted, unfenceFormerPrimary } from './roles/rejoin';
export { enableSecondary } from './joining/enable-secondary';
export { awaitDrStreaming, awaitPerformancePrimary, awaitPerformanceSecondaries } from './joining/following';
export { compareMerkleRoots } from './joining/following';
export { enablePrimary } from './joining/enable-secondary';
export { awaitOutsideSecondary, issueOutsideToken } from './joining/join-by-token';
export { checkCredential, followBootstrap } from './joining/following';
export { updatePrimary } from './joining/update-primary';
export { probeMerkleTree, startDrReindex, followDrReindex } from './merkle/trees';
export { notify } from './notifications/notifications';
export { assessBatchTokenRotation } from './plans/batch-token-rotation';
export { assessOperationTokenCeremony, assessRootTokenCeremony } from './plans/ceremonies';
export { assessDrFailover } from './plans/dr-failover';
export { assessDrRejoin, assessPerformanceRejoin } from './plans/rejoin';
export { assessDrSwitchover } from './plans/dr-switchover';
export { assessReplicationTeardown, assessSecondaryDecommission } from './plans/ending';
export { assessFilterReconciliation } from './plans/filter-reconciliation';
export { assessDrReindex, assessMerkleCheck } from './plans/merkle';
export { readDeployment } from './plans/observed';
export {
  assessDrSecondaryOnboarding,
  assessPerformanceSecondaryOnboarding,
  assessPrimaryEnablement,
} from './plans/onboarding';
export { assessPerformancePromotion } from './plans/performance-promotion';
export { assessSecondaryRepointing } from './plans/repointing';
export { quiesceByQuota, readQuotas, releaseQuota } from './quiesce/quota';
export { readDeploymentStatus } from './readiness/deployment-status';
export { assessReadiness } from './readiness/readiness';
export { writeReportFiles, requestTakeOver, describeRun } from './reports/run-report';
export { awaitPrimaryGone, fenceLostPrimary } from './roles/other-side';
export { awaitPrimaryBack, awaitPrimaryStays } from './roles/lost-primary';
export { awaitRole, demotePrimary, promoteSecondary } from './roles/role-changes';
export { takeSnapshot } from './snapshots/snapshots';
export { rotateBatchToken } from './tokens/batch-tokens';
export { takeKeptToken } from './tokens/kept-tokens';
export {
  assessOperationTokenDisposal,
  deleteOperationTokens,
  disposeLedgerToken,
  forgetLedgerToken,
} from './tokens/operation-token-disposal';
