import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import { RUNBOOK_NAMES } from '../src/contracts/names';

export { drSwitchover } from './dr-switchover';
export { operationTokenCeremony } from './operation-token-ceremony';
export { walSampler } from './wal-sampler';
export { readiness } from './readiness';
export { merkleCheck } from './merkle-check';
export { rootTokenCeremony } from './root-token-ceremony';
export { ceremonyRehearsal } from './ceremony-rehearsal';
export { batchTokenRotation } from './batch-token-rotation';
export { operationTokenDisposal } from './operation-token-disposal';
export { drReindex } from './dr-reindex';
export { replicationTeardown } from './replication-teardown';
export { primaryEnablement } from './primary-enablement';
export { secondaryDecommission } from './secondary-decommission';
export { filterReconciliation } from './filter-reconciliation';
export { secondaryRepointing } from './secondary-repointing';
export { performancePromotion } from './performance-promotion';
export { performanceSecondaryOnboarding } from './performance-secondary-onboarding';
export { drSecondaryOnboarding } from './dr-secondary-onboarding';
export { drRejoin } from './dr-rejoin';
export { drFailover } from './dr-failover';

/** A mistyped workflow type would otherwise wedge for ever and hold its Workflow ID. */
export default async function unknownRunbook(): Promise<never> {
  throw ApplicationFailure.create({
    type: 'UNKNOWN_RUNBOOK',
    nonRetryable: true,
    message: `There is no runbook ${workflowInfo().workflowType}. Runbooks: ${RUNBOOK_NAMES.join(', ')}.`,
  });
}
