import { checkControls } from './approvals/controls';
import { checkApprovals, checkDecisions, checkDeclines } from './approvals/people';
import { checkUnaskedShares, createCeremony, destroyCeremonyKeys, openEnvelopes } from './ceremony/ceremony';
import { cancelForeignAttempt } from './ceremony/foreign-attempts';
import { completeGeneration, settleGeneration, startGeneration } from './ceremony/generation';
import { readSignalEvents } from './approvals/arrived-signals';
import { probeProvidedToken, takeProvidedTokens } from './ceremony/provided-tokens';
import { assessRehearsal, createRehearsal, noteRehearsalDeclines, openRehearsal } from './ceremony/rehearsal';
import { awaitSecondaryGone, awaitReplicationDisabled } from './ending/decommission';
import { revokeSecondary, forgetPrimary, disablePrimary, disableSecondary } from './ending/replication-end';
import { writeMarker, compareAfterDemotion } from './evidence/data-evidence';
import { awaitServiceReady, proveWrite } from './evidence/service-readiness';
import { sampleWal } from './evidence/wal-samples';
import {
  compareDynamicFilters,
  deletePathsFilter,
  readPathsFilter,
  readPathsFilters,
  writePathsFilter,
} from './filters/filters';
import { runHook, awaitDump, probeService } from './hooks/hooks';
import { readRunbookInput } from './run-beginning';
import { checkFormerPrimaryDemoted, describeSplit, unfenceFormerPrimary } from './joining/rejoin';
import { enableSecondary } from './joining/enable-secondary';
import { awaitDrStreaming, awaitPerformanceSecondaries, compareMerkleRoots } from './joining/following';
import { enablePrimary } from './joining/onboarding-primary';
import { awaitOutsideSecondary, issueOutsideToken } from './joining/outside-secondary';
import { awaitUnsealed, checkCredential, followBootstrap, readSeals } from './joining/onboarding-watching';
import { updatePrimary } from './joining/update-primary';
import { probeMerkleTree, startDrReindex, followDrReindex } from './merkle/trees';
import { notify } from './notifications/notifications';
import * as plans from './plans';
import { quiesceByQuota, readQuotas, releaseQuota } from './quiesce/quota';
import { assessReadiness } from './readiness/readiness';
import { writeReportFiles, requestTakeOver, describeRun } from './reports/run-report';
import { awaitPrimaryGone, fenceLostPrimary } from './roles/dr-failover';
import { demotePrimary, promoteSecondary } from './roles/role-changes';
import { takeSnapshot } from './snapshots/snapshots';
import { prepareBatchTokenRole, rotateBatchToken } from './tokens/batch-tokens';
import { takeKeptToken } from './tokens/kept-tokens';
import {
  assessTokenDisposal,
  deleteOperationTokens,
  disposeLedgerToken,
  forgetLedgerToken,
} from './tokens/operation-token-disposal';

export { Clusters } from './clusters';
export type { ActivityDependencies } from './dependencies';
export { interceptActivities } from './execution';
export { Records } from './record';
export { sweepLedger, tellRecordAlarm } from './ceremony/alarms';
export { tellOverdueReadiness } from './readiness/speak-up';

/** What the workers offer, by the names under which Temporal knows it. They run inside of {@link interceptActivities} only. */
export const activities = {
  assessReadiness,
  ...plans,
  deleteOperationTokens,
  assessTokenDisposal,
  disposeLedgerToken,
  forgetLedgerToken,
  prepareBatchTokenRole,
  rotateBatchToken,
  takeKeptToken,
  cancelForeignAttempt,
  writeReportFiles,
  requestTakeOver,
  describeRun,
  revokeSecondary,
  awaitSecondaryGone,
  forgetPrimary,
  disablePrimary,
  disableSecondary,
  awaitReplicationDisabled,
  deletePathsFilter,
  readPathsFilters,
  quiesceByQuota,
  readQuotas,
  releaseQuota,
  probeMerkleTree,
  startDrReindex,
  followDrReindex,
  awaitServiceReady,
  proveWrite,
  writeMarker,
  compareAfterDemotion,
  readRunbookInput,
  sampleWal,
  readSignalEvents,
  checkApprovals,
  checkControls,
  checkDecisions,
  checkDeclines,
  runHook,
  awaitDump,
  probeService,
  notify,
  createCeremony,
  checkUnaskedShares,
  openEnvelopes,
  destroyCeremonyKeys,
  takeProvidedTokens,
  probeProvidedToken,
  assessRehearsal,
  createRehearsal,
  noteRehearsalDeclines,
  openRehearsal,
  startGeneration,
  completeGeneration,
  settleGeneration,
  demotePrimary,
  promoteSecondary,
  awaitPrimaryGone,
  fenceLostPrimary,
  describeSplit,
  checkFormerPrimaryDemoted,
  unfenceFormerPrimary,
  enablePrimary,
  compareMerkleRoots,
  updatePrimary,
  enableSecondary,
  awaitDrStreaming,
  takeSnapshot,
  issueOutsideToken,
  awaitOutsideSecondary,
  awaitPerformanceSecondaries,
  readSeals,
  awaitUnsealed,
  followBootstrap,
  checkCredential,
  readPathsFilter,
  writePathsFilter,
  compareDynamicFilters,
};

/** Workflows import this as a type: no code of the activities is in their bundle. */
export type RunbookActivities = typeof activities;
