import type { PrimaryEnablementInput, ReplicationKind } from '../runbook-inputs';
import type { OnCluster, StepInput } from './inputs';
import type { Assessment, ChangeResult } from './results';

/** A cluster becomes a secondary, or a primary: enabling, wiping, unsealing (design 9). */
export interface OnboardingActivities {
  assessPrimaryEnablement(
    input: StepInput & { readonly input: PrimaryEnablementInput },
  ): Promise<Assessment<PrimaryEnablementRoute>>;
  /** Makes a cluster without DR replication DR primary (interface 4.1). Wipes nothing; `already` where it is primary. */
  enableDrPrimary(input: OnCluster): Promise<ChangeResult>;
  /** The same for performance replication (interface 4.2). */
  enablePerformancePrimary(input: OnCluster): Promise<ChangeResult>;
}

export interface PrimaryEnablementRoute {
  readonly kind: ReplicationKind;
  readonly cluster: string;
}
