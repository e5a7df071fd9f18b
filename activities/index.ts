import { createAssessmentActivities } from './plans/assessment';
import { createBatchTokenActivities } from './tokens/batch-tokens';
import { createCeremonyActivities } from './ceremony/ceremony';
import { createDataEvidenceActivities } from './evidence/data-evidence';
import type { ActivityDependencies } from './dependencies';
import { createRoleActivities } from './roles/role-changes';
import { createSecondaryJoiningActivities } from './joining/secondary-joining';
import { createNotificationActivities } from './notifications/notifications';
import { createProvidedTokenActivities } from './ceremony/provided-tokens';
import { createOperationTokenDisposalActivities } from './tokens/operation-token-disposal';
import { createPeopleActivities } from './approvals/people';
import { createPerformanceSecondaryActivities } from './joining/performance-secondary';
import { createRunReportActivities } from './reports/run-report';
import { createServiceReadinessActivities } from './evidence/service-readiness';
import { createFailoverActivities } from './plans/dr-failover';
import { createRejoinActivities } from './joining/dr-rejoin';
import { createOnboardingActivities } from './joining/onboarding';
import { createOnboardingAssessmentActivities } from './joining/onboarding-assessment';
import { createOnboardingWatchingActivities } from './joining/onboarding-watching';
import { createPlainShareActivities } from './ceremony/plain-shares';
import { createPerformancePromotionActivities } from './roles/performance-promotion';
import { createFilterActivities } from './filters/filters';
import { createForeignAttemptActivities } from './ceremony/foreign-attempts';
import { createHookActivities } from './hooks/hooks';
import { createDecommissionActivities } from './ending/decommission';
import { createTreeActivities } from './merkle/trees';
import { createWalSampleActivities } from './evidence/wal-samples';
import { createTokenActivities } from './tokens/tokens';
import { createReadinessActivities } from './readiness/readiness';
import { createRehearsalActivities } from './ceremony/rehearsal';
import { Clusters } from './clusters';
import { readRunbookInput } from './inputs';

export type { ActivityDependencies } from './dependencies';
export { interceptActivities } from './execution';
export { sweepLedger } from './ceremony/alarms';

/** Activities as plain functions. The others are made by their factories, until they are plain too. */
const activities = { readRunbookInput };

/** What the workers offer, by the names under which Temporal knows it. Workflows import this as a type. */
export type RunbookActivities = ReturnType<typeof createActivities>;

/** Every activity of the workers. They run inside of {@link interceptActivities} only. */
export function createActivities(dependencies: ActivityDependencies) {
  const clusters = new Clusters(dependencies);
  return {
    ...activities,
    ...createAssessmentActivities(dependencies, clusters),
    ...createBatchTokenActivities(dependencies, clusters),
    ...createCeremonyActivities(dependencies, clusters),
    ...createDataEvidenceActivities(clusters),
    ...createRoleActivities(dependencies, clusters),
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
    ...createServiceReadinessActivities(clusters),
    ...createHookActivities(clusters),
  };
}
