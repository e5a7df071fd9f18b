import type { RunbookActivities } from '../src/contracts/activities';
import { createAssessmentActivities } from './assessment';
import { createBatchTokenActivities } from './batch-tokens';
import { createCeremonyActivities } from './ceremony';
import { createDataEvidenceActivities } from './data-evidence';
import type { ActivityDependencies } from './dependencies';
import { createDrRoleActivities } from './dr-roles';
import { createSecondaryJoiningActivities } from './secondary-joining';
import { createNotificationActivities } from './notifications';
import { createProvidedTokenActivities } from './provided-tokens';
import { createOperationTokenDisposalActivities } from './operation-token-disposal';
import { createPeopleActivities } from './people';
import { createPerformanceSecondaryActivities } from './performance-secondary';
import { createRunReportActivities } from './run-report';
import { createServiceReadinessActivities } from './service-readiness';
import { createFailoverActivities } from './dr-failover';
import { createRejoinActivities } from './dr-rejoin';
import { createOnboardingActivities } from './onboarding';
import { createOnboardingAssessmentActivities } from './onboarding-assessment';
import { createOnboardingWatchingActivities } from './onboarding-watching';
import { createPlainShareActivities } from './plain-shares';
import { createPerformancePromotionActivities } from './performance-promotion';
import { createFilterActivities } from './filters';
import { createForeignAttemptActivities } from './foreign-attempts';
import { createHookActivities } from './hooks';
import { createDecommissionActivities } from './decommission';
import { createTreeActivities } from './trees';
import { createWalSampleActivities } from './wal-samples';
import { createTokenActivities } from './tokens';
import { createReadinessActivities } from './readiness';
import { createRehearsalActivities } from './rehearsal';
import { createRosterActivities } from './roster';
import { Clusters } from './support/clusters';

export type { ActivityDependencies } from './dependencies';
export { sweepLedger } from './support/ceremony/alarms';

/** Every activity of the workers, over what the worker was given. */
export function createActivities(dependencies: ActivityDependencies): RunbookActivities {
  const clusters = new Clusters(dependencies);
  return {
    ...createAssessmentActivities(dependencies, clusters),
    ...createBatchTokenActivities(dependencies, clusters),
    ...createCeremonyActivities(dependencies, clusters),
    ...createDataEvidenceActivities(clusters),
    ...createDrRoleActivities(dependencies, clusters),
    ...createSecondaryJoiningActivities(dependencies, clusters),
    ...createOperationTokenDisposalActivities(dependencies, clusters),
    ...createProvidedTokenActivities(dependencies, clusters),
    ...createNotificationActivities(dependencies),
    ...createPeopleActivities(dependencies),
    ...createPlainShareActivities(),
    ...createPerformanceSecondaryActivities(dependencies, clusters),
    ...createRunReportActivities(dependencies),
    ...createFailoverActivities(dependencies, clusters),
    ...createRejoinActivities(dependencies, clusters),
    ...createOnboardingActivities(dependencies, clusters),
    ...createOnboardingAssessmentActivities(dependencies, clusters),
    ...createOnboardingWatchingActivities(clusters),
    ...createPerformancePromotionActivities(dependencies, clusters),
    ...createFilterActivities(dependencies, clusters),
    ...createDecommissionActivities(dependencies, clusters),
    ...createTreeActivities(dependencies, clusters),
    ...createWalSampleActivities(dependencies, clusters),
    ...createTokenActivities(dependencies, clusters),
    ...createForeignAttemptActivities(dependencies, clusters),
    ...createReadinessActivities(dependencies, clusters),
    ...createRehearsalActivities(dependencies, clusters),
    ...createRosterActivities(dependencies),
    ...createServiceReadinessActivities(clusters),
    ...createHookActivities(clusters),
  };
}
