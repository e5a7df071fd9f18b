/** One activation token that a primary has issued and not revoked, used or not. */
export interface KnownSecondary {
  readonly id: string;
  /** Identifies the client certificate inside the activation token; only its holder may connect. */
  readonly certificate: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
  readonly activated: boolean;
}

/**
 * What a cluster is for one kind of replication. The DR role is the cluster's own; the performance role is part of the
 * data, so that a DR secondary inherits it on promotion.
 */
export type Role =
  | { readonly mode: 'disabled' }
  | {
      readonly mode: 'primary';
      readonly setId: string;
      readonly advertisedAddress: string;
      readonly knownSecondaries: readonly KnownSecondary[];
    }
  | {
      readonly mode: 'secondary';
      readonly setId: string;
      readonly secondaryId: string;
      /** Null: it does not dial any primary (after a demotion, or after `update-primary` with a blank token). */
      readonly certificate: string | null;
      readonly primaryClusterAddress: string;
      readonly knownPrimaryAddresses: readonly string[];
      /** True after a demotion, until an activation token has been used: addresses are refused then. */
      readonly demoted: boolean;
    };

export type PrimaryRole = Extract<Role, { mode: 'primary' }>;
export type SecondaryRole = Extract<Role, { mode: 'secondary' }>;

export const DISABLED: Role = { mode: 'disabled' };
