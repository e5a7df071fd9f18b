import type { PathsFilterFacts } from './results';
import type { ReplicationKind, TokenSource } from '../runbook-inputs';

/** The filter that a secondary must have, under the id of its next activation token. */
export interface KnownFilter {
  /** The cluster ID of the secondary. */
  readonly id: string;
  /** Absent where it has none. */
  readonly filter?: PathsFilterFacts;
}

/** What `secondaryRepointing` follows. */
export interface RepointingRoute {
  readonly kind: ReplicationKind;
  readonly primary: string;
  readonly secondary: string;
  readonly form: 'token' | 'addresses';
  /** Where the operation token comes from; absent where none is needed. */
  readonly tokenSource?: TokenSource;
  /** Of a performance secondary. */
  readonly filter?: KnownFilter;
  /** By addresses: the id that it has, and keeps. */
  readonly addressesId?: string;
}

/** A secondary that is to follow the new primary, with the filter that it must have there. */
export interface Follower extends KnownFilter {
  readonly cluster: string;
  /** The id that it has now, and keeps where it follows by addresses; absent where it has none. */
  readonly addressesId?: string;
}

/** What `performancePromotion` follows. */
export interface PromotionRoute {
  readonly mode: 'planned' | 'unplanned';
  /** The performance primary, or the one that is gone. */
  readonly from: string;
  readonly to: string;
  readonly repoint: 'token' | 'addresses';
  /** Every other secondary that answers. */
  readonly others: readonly Follower[];
  /** The others that do not answer: people re-point them later. */
  readonly silent: readonly string[];
  /** The old primary, with the filter that it gets as a secondary; absent where it stays out. */
  readonly old?: Follower;
  /** Why it stays out. */
  readonly staysOut?: string;
  /** The new primary as it is now, for where it stays a secondary. */
  readonly candidate: Follower;
  /** Whether clients are held off, and let through again. */
  readonly hooks: { readonly quiesce: boolean };
}

/** Merkle roots as status tells them. */
export interface RootsVerdict {
  /** `equal` proves that both hold the same; anything else proves nothing while the primary takes writes. */
  readonly verdict: 'equal' | 'not-seen-equal' | 'not-readable' | 'not-comparable';
  readonly observed: string;
}
