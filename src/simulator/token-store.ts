import { createHash } from 'node:crypto';
import type { JsonObject } from './messages';
import type { SeededRandom } from './random';
import type { Storage } from './storage';
import type { PolicyRule, Identity } from './stored';
import { capabilitiesOn, mayBelow } from './capabilities';

interface TokenRequest {
  readonly policies: readonly string[];
  readonly type: 'service' | 'batch';
  readonly orphan: boolean;
  readonly renewable?: boolean;
  readonly displayName?: string;
  readonly path?: string;
  /** Milliseconds; null: does not expire (root tokens). */
  readonly ttlMs: number | null;
  /** Maximum TTL including renewals, in milliseconds; default: the maximum of the service. */
  readonly maxTtlMs?: number;
  /** Whether the policy `default` is added; true unless told otherwise. */
  readonly addsDefault?: boolean;
  readonly usesLeft?: number;
  readonly meta?: JsonObject;
}

/** A token with its identity, as returned to the caller. */
export interface GivenToken {
  readonly token: string;
  readonly identity: Identity;
}

/** A batch token is self-contained: any cluster with the keyring of the issuing cluster can read it. */
export type BatchTokens = Map<string, { readonly keyring: string; readonly identity: Identity }>;

/** The default maximum TTL of the service. */
export const MAXIMUM_TTL = '768h';

export const MAXIMUM_TTL_MS = 768 * 3_600_000;

function keyOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** The tokens of one cluster. Service tokens replicate with the cluster's data; operation tokens stay on the cluster. */
export class TokenStore {
  /** Every secret that this cluster has issued, for tests that search for leaks. */
  readonly issued: string[] = [];

  constructor(
    private readonly storage: Storage,
    private readonly batchTokens: BatchTokens,
    private readonly random: SeededRandom,
  ) {}

  create(request: TokenRequest, now: number): GivenToken {
    const { type, orphan, displayName = 'token', path = 'auth/token/create', addsDefault = true } = request;
    const { meta, usesLeft } = request;
    const longestMs = Math.min(request.maxTtlMs ?? MAXIMUM_TTL_MS, MAXIMUM_TTL_MS);
    const ttlMs = request.ttlMs === null ? null : Math.min(request.ttlMs, longestMs);
    const policies = [
      ...new Set(
        request.policies.includes('root') ? ['root'] : [...(addsDefault ? ['default'] : []), ...request.policies],
      ),
    ].sort();
    const common = { type, policies, orphan, displayName, path, createdAt: now, ...(meta && { meta }) };
    if (type === 'batch') {
      const token = this.#issue(`hvb.${this.random.bytes(96).toString('base64url')}`);
      const identity = { ...common, accessor: '', renewable: false, expiresAt: now + (ttlMs ?? MAXIMUM_TTL_MS) };
      this.batchTokens.set(token, { keyring: this.#keyring, identity });
      return { token, identity };
    }
    const token = this.#issue(this.random.token());
    const renewable = request.renewable ?? ttlMs !== null;
    const identity = {
      ...common,
      ...(usesLeft !== undefined && { usesLeft }),
      accessor: this.random.base62(24),
      renewable,
      expiresAt: ttlMs === null ? null : now + ttlMs,
      ...(renewable && ttlMs !== null ? { renewal: { ttlMs, until: now + longestMs } } : {}),
    };
    this.storage.writeForCaller(`token/${keyOf(token)}`, { type: 'token', identity }, now);
    return { token, identity };
  }

  createRootToken(now: number): string {
    const path = 'auth/token/root';
    return this.create({ policies: ['root'], type: 'service', orphan: true, ttlMs: null, path }, now).token;
  }

  /** The identity of the token; undefined if the token is not valid on this cluster now. */
  identify(token: string, now: number): Identity | undefined {
    const batch = this.batchTokens.get(token);
    const ofThisCluster = batch === undefined || batch.keyring === this.#keyring;
    const identity = batch?.identity ?? this.storage.read('token', `token/${keyOf(token)}`)?.identity;
    if (identity === undefined || !ofThisCluster || (identity.usesLeft ?? 0) < 0) return undefined;
    return identity.expiresAt === null || identity.expiresAt > now ? identity : undefined;
  }

  /** Counts a use of a token whose uses are limited; returns the identity for this use. */
  use(token: string, identity: Identity, now: number): Identity {
    if (identity.usesLeft === undefined) return identity;
    const used = { ...identity, usesLeft: identity.usesLeft === 1 ? -1 : identity.usesLeft - 1 };
    this.storage.write(`token/${keyOf(token)}`, { type: 'token', identity: used }, now);
    return used;
  }

  /** Renews the token, never beyond its maximum TTL; undefined if it cannot be renewed. */
  renew(token: string, now: number): GivenToken | undefined {
    const key = `token/${keyOf(token)}`;
    const stored = this.storage.read('token', key)?.identity;
    if (stored?.renewal === undefined) return undefined;
    const identity = { ...stored, expiresAt: Math.min(now + stored.renewal.ttlMs, stored.renewal.until) };
    this.storage.write(key, { type: 'token', identity }, now);
    return { token, identity };
  }

  revoke(token: string, now: number): void {
    this.storage.write(`token/${keyOf(token)}`, null, now);
  }

  capabilities(identity: Identity, path: string): string[] {
    return capabilitiesOn(path, identity.policies, (name) => this.#rulesOf(name));
  }

  mayBelow(identity: Identity, mount: string): boolean {
    return mayBelow(mount, identity.policies, (name) => this.#rulesOf(name));
  }

  #rulesOf(name: string): readonly PolicyRule[] | undefined {
    return this.storage.read('policy', `policy/${name}`)?.rules;
  }

  /** Creates an operation token. Earlier ones stay valid. */
  createOperationToken(now: number): string {
    const token = this.#issue(this.random.token());
    const path = 'sys/replication/dr/secondary/generate-operation-token';
    const given = { type: 'service', policies: ['root'], orphan: true, displayName: 'dr-operation', path } as const;
    const identity = { ...given, accessor: '', renewable: false, createdAt: now, expiresAt: null };
    this.storage.write(`local/operation-token/${keyOf(token)}`, { type: 'token', identity }, now);
    return token;
  }

  identifyOperation(token: string): Identity | undefined {
    return this.storage.read('token', `local/operation-token/${keyOf(token)}`)?.identity;
  }

  deleteOperationToken(token: string, now: number): void {
    this.storage.write(`local/operation-token/${keyOf(token)}`, null, now);
  }

  /** Number of operation tokens that exist, usable or not. */
  get operationTokenCount(): number {
    return this.storage.keys('local/operation-token/').length;
  }

  #issue(token: string): string {
    this.issued.push(token);
    return token;
  }

  get #keyring(): string {
    return this.storage.read('keyring', 'keyring')?.id ?? '';
  }
}
