import type { WalIndex } from '../observations';
import type { FailoverActivities } from './failover';
import type { FilterChangeResult, ExpectedFilter } from './filters';
import type { BetweenClusters, OfKind, OnCluster, SecondaryToken } from './inputs';
import type { OnboardingActivities } from './onboarding';
import type { PerformancePromotionActivities } from './performance-promotion';
import type { ReadinessActivities } from './readiness';
import type { RejoinActivities } from './rejoin';
import type {
  ActivationTokenResult,
  Authority,
  ChangeResult,
  DemoteResult,
  PathsFilterFacts,
  PathsFilterResult,
  StreamingResult,
} from './results';

export type * from './inputs';
export type * from './results';
export type * from './failover';
export type * from './rejoin';
export type * from './onboarding';
export type * from './performance-promotion';
export type * from './filters';
export type * from './decommission';
export type * from './trees';
export type * from './token-disposal';
export type * from './generation';
export type * from './readiness';
export type * from './batch-tokens';

/*
 * Every activity takes one object and gives one object. `step` says which step of the run it serves. Names only: no
 * address, path or credential passes through Temporal. Times are epoch milliseconds unless the name says otherwise.
 */

/** Every activity that the workers offer, by the name under which Temporal knows it. */
export interface RunbookActivities
  extends
    SwitchoverActivities,
    FailoverActivities,
    RejoinActivities,
    OnboardingActivities,
    PerformancePromotionActivities,
    ReadinessActivities {}

/** A cluster whose role changes, and the one on the other side: never are both primary. */
export interface RoleChange extends OnCluster, OfKind {
  readonly otherCluster: string;
  readonly authority: Authority;
}

/** A secondary that is to follow a primary. */
export interface JoinInput extends BetweenClusters, OfKind, SecondaryToken {
  /** The call that an activation token is for. */
  readonly use: 'update-primary' | 'enable';
  /** Of a plan that lets this secondary follow this primary. */
  readonly authority: Authority;
  /** Demanded of kind `performance`: the filter that must be on the primary under the id of the secondary. */
  readonly expected?: ExpectedFilter;
}

export interface IssueActivationToken extends JoinInput {
  /** `auto` where nothing is given. */
  readonly form?: 'auto' | 'public-key' | 'wrapped';
  /** As of {@link EnableSecondary}. */
  readonly calledBefore?: boolean;
}

export interface UpdatePrimary extends Omit<JoinInput, 'use'> {
  /** Without one a performance secondary is given the addresses of the primary: id, certificate and filter stay. */
  readonly activation?: ActivationTokenResult;
}

export interface EnableSecondary extends Omit<JoinInput, 'use'> {
  readonly activation: ActivationTokenResult;
  /** Whether this run may have sent `secondary/enable` before: then sealed nodes are its effect. Permits nothing. */
  readonly calledBefore?: boolean;
}

/** The activities of the planned switchover, and what every runbook uses. */
export interface SwitchoverActivities {
  // Switchover
  /**
   * Makes a primary an unconnected secondary (interface 4.1, 4.2). Right before the call the other cluster must be a live
   * secondary that has every write up to `reached`; of a `former` primary, it must serve as the primary.
   */
  demotePrimary(input: RoleChange & { readonly former?: boolean; readonly reached?: WalIndex }): Promise<DemoteResult>;
  /**
   * Makes a secondary the primary (interface 4.1, 4.2). `planned`: the other cluster must be proven to be none; else the
   * signs that it is gone are looked for again. `forced`: the service's own safety checks are left out, and what is not
   * there is lost.
   */
  promoteSecondary(
    input: RoleChange & SecondaryToken & { readonly mode: 'planned' | 'unplanned' | 'forced' },
  ): Promise<ChangeResult>;

  // Re-protection and onboarding
  issueActivationToken(input: IssueActivationToken): Promise<ActivationTokenResult>;
  updatePrimary(input: UpdatePrimary): Promise<ChangeResult>;
  /** **Wipes the cluster** and makes it a secondary (interface 4.1, 4.2). */
  enableSecondary(input: EnableSecondary): Promise<ChangeResult>;
  awaitDrStreaming(input: {
    readonly deployment: string;
    readonly primary: string;
    readonly secondary: string;
  }): Promise<StreamingResult>;
  /** Whether performance secondaries follow the new primary: one answer for each. */
  awaitPerformanceSecondaries(input: {
    readonly deployment: string;
    readonly primary: string;
    readonly secondaries: readonly string[];
  }): Promise<{
    readonly following: readonly {
      readonly cluster: string;
      readonly follows: boolean;
      readonly observed: string;
      readonly id?: string;
    }[];
  }>;
  /** Reads on the primary what the secondary must not get, under its former id and under its cluster ID. */
  readPathsFilter(input: BetweenClusters): Promise<PathsFilterResult>;
  /**
   * Writes the filter where it is absent or different, then reads it back. `done`: it had to be written. It demands the
   * approval of gate `filter`; where it only narrows, a plan that lets this secondary follow with this filter serves too.
   */
  writePathsFilter(
    input: OnCluster & {
      readonly id: string;
      readonly filter: PathsFilterFacts;
      /** Whose filter it is, and the plan that allows it. */
      readonly secondary?: string;
      readonly authority?: Authority;
    },
  ): Promise<FilterChangeResult>;
  /** Both verify the filter too, where the plan names one. */
  /** Compares both sides with each other and with the filter that must be there. */
  compareDynamicFilters(
    input: BetweenClusters & {
      readonly id: string;
      /** Absent where the secondary has no filter. */
      readonly expected?: PathsFilterFacts;
    },
  ): Promise<{ readonly equal: boolean; readonly observed: string }>;

  // Report
}
