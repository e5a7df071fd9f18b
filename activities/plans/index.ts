export { assessBatchTokenRotation } from './batch-token-rotation';
export { assessCeremony, assessRootTokenCeremony } from './ceremonies';
export { assessDrFailover } from './dr-failover';
export { assessDrRejoin, assessPerformanceRejoin } from './rejoin';
export { assessDrSwitchover } from './dr-switchover';
export { assessReplicationTeardown, assessSecondaryDecommission } from './ending';
export { assessFilterReconciliation } from './filter-reconciliation';
export { assessDrReindex, assessMerkleCheck } from './merkle';
export { readDeployment } from './observed';
export {
  assessDrSecondaryOnboarding,
  assessPerformanceSecondaryOnboarding,
  assessPrimaryEnablement,
} from './onboarding';
export { assessPerformancePromotion } from './performance-promotion';
export { assessSecondaryRepointing } from './repointing';
