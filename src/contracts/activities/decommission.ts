import type { SecondaryDecommissionInput, TokenSource } from '../runbook-inputs';

/** What `secondaryDecommission` follows. */
export interface DecommissionRoute {
  readonly primary: string;
  /** The id by which the primary knows the secondary. */
  readonly id: string;
  /** Whether the primary knows the id; else it was revoked before, and only the secondary's side is left. */
  readonly known: boolean;
  /** The cluster of the inventory that has this id and answers; absent where there is none. */
  readonly secondary?: string;
  readonly afterwards: SecondaryDecommissionInput['afterwards'];
  /** Where the operation token for the DR secondary comes from; absent where none is needed. */
  readonly tokenSource?: TokenSource;
  /** The paths filter that stays on the primary under this id, in words. */
  readonly filterLeft?: string;
}

/** A secondary that loses its primary for good. */
export interface CutOff {
  readonly id: string;
  /** Its name in the inventory, where it is known. */
  readonly cluster?: string;
}

/** What `replicationTeardown` follows. */
export interface TeardownRoute {
  readonly cluster: string;
  /** The role that ends. `disabled`: there is nothing to end. */
  readonly role: 'primary' | 'secondary' | 'disabled';
  readonly tokenSource?: TokenSource;
  /** Of a primary: every secondary that it knows. */
  readonly cutOff: readonly CutOff[];
  /** Of a secondary: the primary that still knows it, and by which id. */
  readonly knownBy?: { readonly primary: string; readonly id: string };
}
