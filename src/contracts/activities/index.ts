import type { CeremonyHandle, CeremonyTarget, Envelope, EnvelopeVerdict, OperationTokenReference } from '../ceremony';
import type { WalIndex } from '../observations';
import type { Finding } from '../run-facts';
import type { TokenUse } from '../runbook-inputs';
import type { Sealed } from '../sealed';
import type { FailoverActivities } from './failover';
import type { FilterChangeResult, ExpectedFilter } from './filters';
import type { BetweenClusters, OfKind, OnCluster, SecondaryToken } from './inputs';
import type { OnboardingActivities } from './onboarding';
import type { PerformancePromotionActivities } from './performance-promotion';
import type { ReadinessActivities } from './readiness';
import type { RehearsalActivities } from './rehearsal';
import type { RejoinActivities } from './rejoin';
import type {
  BurstInLedger,
  ActivationTokenResult,
  Authority,
  ChangeResult,
  DemoteResult,
  PathsFilterFacts,
  PathsFilterResult,
  StreamingResult,
} from './results';
import type { RosterActivities } from './roster';
import type { TokenActivities } from './tokens';

export type * from './inputs';
export type * from './results';
export type * from './failover';
export type * from './rejoin';
export type * from './onboarding';
export type * from './performance-promotion';
export type * from './filters';
export type * from './decommission';
export type * from './trees';
export type * from './tokens';
export type * from './token-disposal';
export type * from './readiness';
export type * from './rehearsal';
export type * from './batch-tokens';
export type * from './roster';

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
    TokenActivities,
    ReadinessActivities,
    RehearsalActivities,
    RosterActivities {}

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
  // Reading and judging

  // People
  /** While no ceremony is under way: everything is refused, and a key share in plain text is still noticed. */
  checkUnaskedShares(input: {
    readonly deployment: string;
    readonly arrived: readonly number[];
  }): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }>;

  // Ceremony. All but the first run on the queue of the key home.
  createCeremony(input: {
    readonly deployment: string;
    readonly runbook: string;
    readonly reason: string;
    readonly requestedBy: string;
    readonly targets: readonly CeremonyTarget[];
    readonly epoch: number;
    readonly cid?: string;
    readonly inputDigest: string;
    /** Operation tokens that people generated themselves; key shares where it is not given. */
    readonly collects?: 'tokens';
  }): Promise<CeremonyHandle & { readonly fingerprint: string }>;
  /** Both stages of the check (protocol). `arrived`: as for {@link checkApprovals}. */
  openEnvelopes(input: {
    readonly deployment: string;
    readonly ceremony: CeremonyHandle;
    readonly held: readonly Envelope[];
    readonly arrived: readonly number[];
  }): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }>;
  /**
   * As {@link openEnvelopes}, for operation tokens that people generated themselves: each that counts is sealed for its
   * cluster and uses, and in the ledger before it is told.
   */
  takeProvidedTokens(input: {
    readonly deployment: string;
    readonly ceremony: CeremonyHandle;
    readonly arrived: readonly number[];
  }): Promise<{
    readonly verdicts: readonly (EnvelopeVerdict & {
      readonly cluster?: string;
      readonly token?: Sealed<'operation-token'>;
    })[];
  }>;
  /** Whether the cluster takes a provided token now, by the one operation that only reads: the Merkle check. */
  probeProvidedToken(input: OnCluster & { readonly token: OperationTokenReference }): Promise<{
    /** `not-checkable`: this version of the service has no such check. What is `refused` has left the ledger. */
    readonly state: 'alive' | 'refused' | 'not-checkable';
    readonly text: string;
  }>;
  generateOperationToken(
    input: OnCluster & {
      readonly ceremony: CeremonyHandle;
      readonly uses: readonly TokenUse[];
      readonly envelopes: readonly Envelope[];
      /** Texts of the alarms that the run knows: what an attempt found and could not report is told to the next one. */
      readonly told?: readonly string[];
    },
  ): Promise<{
    readonly token: Sealed<'operation-token'>;
    readonly attempts: number;
    readonly findings: readonly Finding[];
    /** Holders whose share is proven bad. */
    readonly badShares: readonly string[];
    /** What people do to close the ceremony's calls again, where the cluster lets everybody in. */
    readonly closeAfterwards?: readonly string[];
  }>;
  destroyCeremonyKeys(input: {
    readonly deployment: string;
    readonly ceremony: CeremonyHandle;
    /** As for {@link generateOperationToken}. */
    readonly told?: readonly string[];
    /** Root tokens, encrypted to their recipient, that the run hands on. */
    readonly inHand?: readonly string[];
  }): Promise<{
    readonly destroyed: boolean;
    readonly text: string;
    /** Tokens that may exist, and that the run did not know of. */
    readonly findings?: readonly Finding[];
    /** Bursts of this ceremony of which the ledger has an entry: of others it says nothing. */
    readonly bursts?: readonly BurstInLedger[];
  }>;
  /** What {@link destroyCeremonyKeys} does beside the keys, by any worker: their host may be what was lost. */
  settleCeremony(input: {
    readonly deployment: string;
    readonly ceremony: Pick<CeremonyHandle, 'cid' | 'threshold'>;
    readonly told?: readonly string[];
    readonly inHand?: readonly string[];
  }): Promise<{ readonly findings: readonly Finding[]; readonly bursts?: readonly BurstInLedger[] }>;

  // Hooks of the inventory

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
