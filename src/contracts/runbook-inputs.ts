import { drFailoverInput, drRejoinInput, drSwitchoverInput } from './inputs/dr-roles';
import { drReindexInput, merkleCheckInput, readinessInput, walSamplerInput } from './inputs/looking';
import { filterReconciliationInput, performancePromotionInput } from './inputs/performance';
import {
  drSecondaryOnboardingInput,
  performanceSecondaryOnboardingInput,
  primaryEnablementInput,
  replicationTeardownInput,
  secondaryDecommissionInput,
  secondaryRepointingInput,
} from './inputs/secondaries';
import {
  batchTokenRotationInput,
  ceremonyRehearsalInput,
  operationTokenCeremonyInput,
  operationTokenDisposalInput,
  rootTokenCeremonyInput,
} from './inputs/tokens';

export * from './inputs/common';
export * from './inputs/dr-roles';
export * from './inputs/looking';
export * from './inputs/performance';
export * from './inputs/secondaries';
export * from './inputs/tokens';

/** The schema of each runbook's one input object. */
export const RUNBOOK_INPUTS = {
  drSwitchover: drSwitchoverInput,
  drFailover: drFailoverInput,
  drRejoin: drRejoinInput,
  drSecondaryOnboarding: drSecondaryOnboardingInput,
  performanceSecondaryOnboarding: performanceSecondaryOnboardingInput,
  performancePromotion: performancePromotionInput,
  secondaryRepointing: secondaryRepointingInput,
  filterReconciliation: filterReconciliationInput,
  secondaryDecommission: secondaryDecommissionInput,
  primaryEnablement: primaryEnablementInput,
  replicationTeardown: replicationTeardownInput,
  drReindex: drReindexInput,
  operationTokenDisposal: operationTokenDisposalInput,
  operationTokenCeremony: operationTokenCeremonyInput,
  rootTokenCeremony: rootTokenCeremonyInput,
  ceremonyRehearsal: ceremonyRehearsalInput,
  batchTokenRotation: batchTokenRotationInput,
  merkleCheck: merkleCheckInput,
  readiness: readinessInput,
  walSampler: walSamplerInput,
} as const;
