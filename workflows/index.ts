import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import { RUNBOOK_NAMES } from '../src/contracts/names';

export { record } from './record';
export { drSwitchover } from './runbooks/dr-switchover';
export { ceremonyRehearsal } from './runbooks/ceremony-rehearsal';
export { operationTokenDisposal } from './runbooks/operation-token-disposal';
export { drReindex, merkleCheck } from './runbooks/merkle';
export { batchTokenRotation, deploymentStatus, readiness, walSampler } from './runbooks/scheduled';
export { operationTokenCeremony, rootTokenCeremony } from './runbooks/token-ceremonies';
export { primaryEnablement } from './runbooks/primary-enablement';
export { replicationTeardown, secondaryDecommission } from './runbooks/ending';
export { filterReconciliation } from './runbooks/filter-reconciliation';
export { secondaryRepointing } from './runbooks/secondary-repointing';
export { performancePromotion } from './runbooks/performance-promotion';
export { drSecondaryOnboarding, performanceSecondaryOnboarding } from './runbooks/secondary-onboarding';
export { drRejoin, performanceRejoin } from './runbooks/rejoin';
export { drFailover } from './runbooks/dr-failover';

/** A mistyped workflow type would otherwise wedge for ever and hold its Workflow ID. */
export default async function unknownRunbook(): Promise<never> {
  throw ApplicationFailure.create({
    type: 'UNKNOWN_RUNBOOK',
    nonRetryable: true,
    message: `There is no runbook ${workflowInfo().workflowType}. Runbooks: ${RUNBOOK_NAMES.join(', ')}.`,
  });
}
