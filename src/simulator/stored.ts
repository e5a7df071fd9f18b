import type { JsonObject } from './messages';

export const KINDS = ['dr', 'performance'] as const;

export type ReplicationKind = (typeof KINDS)[number];

/** Everything that a cluster keeps on disk. Values are immutable: a change stores a new value under the key. */
export type StoredValue =
  | { readonly type: 'secret'; readonly data: JsonObject }
  /** The latest version of a key of a version 2 engine. */
  | { readonly type: 'versioned-secret'; readonly data: JsonObject; readonly version: number; readonly at: number }
  /** `version`: the version of a key-value engine. */
  | { readonly type: 'mount'; readonly mountType: string; readonly version: '1' | '2' }
  | { readonly type: 'policy'; readonly text: string; readonly rules: readonly PolicyRule[] }
  | { readonly type: 'token-role'; readonly role: TokenRole }
  | { readonly type: 'auth-mount'; readonly method: AuthMethod; readonly keys: readonly string[] }
  | { readonly type: 'auth-role'; readonly role: AuthRole }
  | { readonly type: 'secret-id'; readonly role: string }
  | { readonly type: 'token'; readonly identity: Identity }
  | { readonly type: 'keyring'; readonly id: string }
  | { readonly type: 'role'; readonly role: Role }
  | { readonly type: 'filter'; readonly filter: PathsFilter }
  | { readonly type: 'quota'; readonly quota: RateLimitQuota }
  | { readonly type: 'quota-config'; readonly config: QuotaConfig }
  | { readonly type: 'canary'; readonly at: number };

/** An activation token that a primary has issued and not revoked, used or not. */
interface KnownSecondary {
  readonly id: string;
  /** Identifies the client certificate in the activation token; only its holder may connect. */
  readonly certificate: string;
  readonly activated: boolean;
}

/**
 * Role of a cluster in one kind of replication. The DR role belongs to the cluster. The performance role is part of the
 * data, so a DR secondary inherits it on promotion.
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
      /** Null: it does not connect to any primary (after a demotion, or after `update-primary` with a blank token). */
      readonly certificate: string | null;
      readonly primaryClusterAddress: string;
      readonly knownPrimaryAddresses: readonly string[];
      /** True from a demotion until an activation token is used; meanwhile addresses are refused. */
      readonly demoted: boolean;
    };

export type PrimaryRole = Extract<Role, { mode: 'primary' }>;

export type SecondaryRole = Extract<Role, { mode: 'secondary' }>;

export const DISABLED: Role = { mode: 'disabled' };

export interface PathsFilter {
  readonly mode: 'allow' | 'deny';
  readonly paths: readonly string[];
}

export const METHODS = ['approle', 'kubernetes', 'jwt', 'cert'] as const;

export type AuthMethod = (typeof METHODS)[number];

/** A role of an auth method, with the members that determine who may log in. */
export interface AuthRole {
  readonly policies: readonly string[];
  readonly ttlMs: number;
  readonly maxTtlMs: number;
  readonly tokenType: 'service' | 'batch';
  readonly roleId: string;
  readonly certificate: string;
  /** Required `sub` and `aud` of a JWT. */
  readonly subject: string;
  readonly audience: string;
}

/** One path rule of a policy. */
export interface PolicyRule {
  /** A trailing `*` makes it a prefix; `+` matches one segment. */
  readonly path: string;
  readonly capabilities: readonly string[];
}

/** A rate-limit quota: `rate` requests per `intervalMs` and bucket, but at least one. */
export interface RateLimitQuota {
  /** Empty: all paths without a more specific quota. */
  readonly path: string;
  readonly rate: number;
  readonly intervalMs: number;
  readonly groupBy: 'ip' | 'none';
}

/** Quota configuration, with the member names of the service. */
export interface QuotaConfig {
  readonly rate_limit_exempt_paths: string[];
  /** Null for none. */
  readonly absolute_rate_limit_exempt_paths: string[] | null;
  readonly enable_rate_limit_audit_logging: boolean;
  readonly enable_rate_limit_response_headers: boolean;
}

/** The identity of a valid token. A service token is stored in this form, under its hash. */
export interface Identity {
  readonly type: 'service' | 'batch';
  /** Empty for batch tokens. */
  readonly accessor: string;
  readonly policies: readonly string[];
  readonly orphan: boolean;
  readonly displayName: string;
  readonly path: string;
  readonly renewable: boolean;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** The TTL of each renewal, and the latest expiry; absent if the token cannot be renewed. */
  readonly renewal?: { readonly ttlMs: number; readonly until: number };
  /** Number of calls that it can still make; -1 during the last one. Absent: as many as it likes. */
  readonly usesLeft?: number;
  readonly meta?: JsonObject;
}

export interface TokenRole {
  readonly allowedPolicies: readonly string[];
  readonly orphan: boolean;
  readonly renewable: boolean;
  readonly tokenType: 'service' | 'batch';
}
