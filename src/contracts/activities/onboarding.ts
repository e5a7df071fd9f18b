import type { ReplicationKind } from '../runbook-inputs';
import type { BetweenClusters, OfKind, OnCluster } from './inputs';
import type { Authority, ChangeResult, PathsFilterFacts } from './results';

/** A cluster becomes a secondary, or a primary: enabling, wiping, unsealing (design 9). */
export interface OnboardingActivities {
  /**
   * Makes a cluster without this kind of replication its primary (interface 4.1, 4.2). Wipes nothing; `already` where it
   * is primary. The approved plan must say so, or be that of an onboarding that needs it.
   */
  enablePrimary(input: EnablePrimary): Promise<ChangeResult>;

  /** The seal of every node of a cluster, and what people need to unseal them. */
  readSeals(input: OnCluster): Promise<SealsResult>;
  /** Polls until every node is unsealed; people unseal them meanwhile. */
  awaitUnsealed(input: OnCluster): Promise<SealsResult>;
  /** Watches the first copy until the secondary streams. Ends early where nodes seal themselves. */
  followBootstrap(
    input: BetweenClusters & {
      readonly kind: ReplicationKind;
      /** People chose to leave nodes sealed. */
      readonly sealedIsKnown?: boolean;
    },
  ): Promise<BootstrapResult>;
  /** Whether the cluster takes the workers' credential for it, which a wipe made void. */
  checkCredential(input: OnCluster): Promise<{ readonly observed: string }>;
}

export type EnablePrimary = OnCluster & OfKind & { readonly authority: Authority };

export interface PrimaryEnablementRoute {
  readonly kind: ReplicationKind;
  readonly cluster: string;
}

/** What `drSecondaryOnboarding` and `performanceSecondaryOnboarding` follow. */
export interface SecondaryOnboardingRoute {
  readonly kind: ReplicationKind;
  readonly primary: string;
  readonly secondary: string;
  /** `sys/health` cluster_id of the secondary before it is wiped: the id of its activation token and of its filter. */
  readonly id: string;
  /** Whether the primary has to be enabled first. */
  readonly enablesPrimary: boolean;
  readonly form: 'auto' | 'public-key' | 'wrapped';
  /** The paths filter that it gets; absent where it gets everything. */
  readonly filter?: PathsFilterFacts;
}

export interface SealsResult {
  readonly nodes: readonly {
    readonly address: string;
    /** Absent where the node does not answer. */
    readonly sealed?: boolean;
    /** Key shares that were given to this node so far. */
    readonly progress?: number;
  }[];
  /** Key shares that a node needs; a secondary has the primary's. */
  readonly threshold?: number;
  readonly shares?: number;
  readonly observed: string;
}

export interface BootstrapResult {
  /** `sealed`: nodes sealed themselves and wait for people. */
  readonly verdict: 'streaming' | 'sealed';
  /** The phases that were seen, in order. */
  readonly phases: readonly string[];
  readonly at: number;
  readonly observed: string;
}
