import type { ReplicationKind } from '../runbook-inputs';
import type { PathsFilterFacts } from './results';

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
