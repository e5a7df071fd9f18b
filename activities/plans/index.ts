export { assessBatchTokenRotation } from './batch-token-rotation';
export { assessDrFailover } from './dr-failover';
export { assessDrRejoin } from './dr-rejoin';
export { assessDrSwitchover } from './dr-switchover';
export { assessFilterReconciliation } from './filter-reconciliation';
export { assessDrReindex, assessMerkleCheck } from './merkle-trees';
export { readDeployment } from './observed';
export {
  assessDrSecondaryOnboarding,
  assessPerformanceSecondaryOnboarding,
  assessPrimaryEnablement,
} from './onboarding';
export { assessPerformancePromotion } from './performance-promotion';
export { assessReplicationTeardown } from './replication-teardown';
export { assessSecondaryDecommission } from './secondary-decommission';
export { assessSecondaryRepointing } from './secondary-repointing';
export { assessCeremony, assessRootTokenCeremony } from './token-ceremonies';
