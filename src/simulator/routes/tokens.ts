import { createHash } from 'node:crypto';
import { badRequest, found, NO_CONTENT, parseDuration, permissionDenied, type ServiceAnswer } from '../messages';
import type { SeededRandom } from '../random';
import type { Storage } from '../storage';
import { writeShared } from './key-value';
import { capabilitiesOn, mayBelow } from './policies';
import type { PolicyRule } from './policies';
import { route, type Route, type RouteCall } from './route';

/** A service token as stored; the token itself is the key, hashed. */
export interface StoredToken {
  readonly accessor: string;
  readonly policies: readonly string[];
  readonly orphan: boolean;
  readonly displayName: string;
  readonly path: string;
  readonly renewable: boolean;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** How long each renewal lets it live, and the end that none goes beyond; absent where it cannot be renewed. */
  readonly renewal?: { readonly ttlMs: number; readonly until: number };
}

export interface TokenRole {
  readonly allowedPolicies: readonly string[];
  readonly orphan: boolean;
  readonly renewable: boolean;
  readonly tokenType: 'service' | 'batch';
}

/** Who a valid token stands for. */
export interface Identity extends StoredToken {
  readonly type: 'service' | 'batch' | 'operation';
}

export interface TokenRequest {
  readonly policies: readonly string[];
  readonly type: 'service' | 'batch';
  readonly orphan: boolean;
  readonly renewable?: boolean;
  readonly displayName?: string;
  readonly path?: string;
  /** Milliseconds; null for no expiry (root tokens). */
  readonly ttlMs: number | null;
  /** The longest life, renewed or not; the service's own maximum where nothing is given. */
  readonly maxTtlMs?: number;
}

/** A batch token carries everything: any cluster with the keyring of the one that made it can read it. */
export type BatchTokens = Map<
  string,
  { readonly keyring: string; readonly identity: Identity & { expiresAt: number } }
>;

/** The service's default maximum. */
const MAXIMUM_TTL = '768h';
const MAXIMUM_TTL_MS = 768 * 3_600_000;

function keyOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Tokens of one cluster. Service tokens replicate with the cluster's data; operation tokens stay on the cluster. */
export class TokenStore {
  /** Every secret that this cluster ever gave out, for tests that look for leaks. */
  readonly issued: string[] = [];

  constructor(
    private readonly storage: Storage,
    private readonly batchTokens: BatchTokens,
    private readonly random: SeededRandom,
  ) {}

  /** Creates a token that names itself, with its accessor (empty for batch tokens). */
  create(request: TokenRequest, now: number): { token: string; accessor: string } {
    const longestMs = Math.min(request.maxTtlMs ?? MAXIMUM_TTL_MS, MAXIMUM_TTL_MS);
    const ttlMs = request.ttlMs === null ? null : Math.min(request.ttlMs, longestMs);
    const common = {
      policies: [...new Set(request.policies.includes('root') ? ['root'] : ['default', ...request.policies])].sort(),
      orphan: request.orphan,
      displayName: request.displayName ?? 'token',
      path: request.path ?? 'auth/token/create',
      createdAt: now,
    };
    if (request.type === 'batch') {
      const token = this.#issue(`hvb.${this.random.bytes(96).toString('base64url')}`);
      const expiresAt = now + (ttlMs ?? MAXIMUM_TTL_MS);
      const identity = { ...common, type: 'batch', accessor: '', renewable: false, expiresAt } as const;
      this.batchTokens.set(token, { keyring: this.#keyring, identity });
      return { token, accessor: '' };
    }
    const token = this.#issue(this.random.token());
    const accessor = this.random.base62(24);
    const expiresAt = ttlMs === null ? null : now + ttlMs;
    const renewable = request.renewable ?? expiresAt !== null;
    const renewal = renewable && ttlMs !== null ? { renewal: { ttlMs, until: now + longestMs } } : {};
    const stored = { ...common, accessor, renewable, expiresAt, ...renewal };
    this.storage.writeForCaller(`token/${keyOf(token)}`, { type: 'token', token: stored }, now);
    return { token, accessor };
  }

  createRootToken(now: number): string {
    const path = 'auth/token/root';
    return this.create({ policies: ['root'], type: 'service', orphan: true, ttlMs: null, path }, now).token;
  }

  /** Who the token stands for, or undefined where it is not valid here and now. */
  identify(token: string, now: number): Identity | undefined {
    const batch = this.batchTokens.get(token);
    if (batch !== undefined)
      return batch.keyring === this.#keyring && batch.identity.expiresAt > now ? batch.identity : undefined;
    const stored = this.storage.read('token', `token/${keyOf(token)}`)?.token;
    if (stored === undefined || (stored.expiresAt !== null && stored.expiresAt <= now)) return undefined;
    return { ...stored, type: 'service' };
  }

  /** Gives the new end; undefined where the token is none that can be renewed. */
  renew(token: string, now: number): number | undefined {
    const key = `token/${keyOf(token)}`;
    const stored = this.storage.read('token', key)?.token;
    if (stored?.renewal === undefined) return undefined;
    const expiresAt = Math.min(now + stored.renewal.ttlMs, stored.renewal.until);
    this.storage.write(key, { type: 'token', token: { ...stored, expiresAt } }, now);
    return expiresAt;
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

  /** The operation tokens before this one stay good. */
  createOperationToken(now: number): string {
    const token = this.#issue(this.random.token());
    this.storage.write(`local/operation-token/${keyOf(token)}`, { type: 'operation-token', at: now }, now);
    return token;
  }

  isOperationToken(token: string): boolean {
    return this.storage.get(`local/operation-token/${keyOf(token)}`) !== undefined;
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

function requireIdentity(call: RouteCall): Identity {
  if (call.identity === undefined) throw permissionDenied();
  return call.identity;
}

function tokenType(text: string): 'service' | 'batch' {
  return text === 'batch' ? 'batch' : 'service';
}

function create(call: RouteCall, role: TokenRole | undefined): ServiceAnswer {
  const { body } = call;
  const identity = requireIdentity(call);
  const root = identity.policies.includes('root');
  const allowed = role?.allowedPolicies ?? identity.policies;
  const asked = call.list('policies');
  const policies = asked.length > 0 ? asked : allowed;
  if (!policies.every((name) => allowed.includes(name)) && !(role === undefined && root))
    throw badRequest('child policies must be subset of parent');
  const ttlMs = parseDuration(call.text('ttl') || MAXIMUM_TTL);
  if (ttlMs === undefined) throw badRequest('error converting input for field "ttl": time: invalid duration');
  const type = role?.tokenType ?? tokenType(call.text('type'));
  const noParent = call.flag('no_parent');
  if (noParent && !root) throw badRequest('root or sudo privileges required to create orphan token');
  const request = {
    policies,
    type,
    orphan: role?.orphan ?? noParent,
    renewable: type === 'service' && (role?.renewable ?? body['renewable'] !== false),
    ttlMs: policies.includes('root') && body['ttl'] === undefined ? null : ttlMs,
    displayName: ['token', call.text('display_name')].filter((part) => part !== '').join('-'),
    path: call.request.path,
  };
  const made = call.cluster.tokens.create(request, call.now);
  return call.authenticated({ ...request, ...made, leaseMs: request.ttlMs ?? 0 });
}

function roleOf(call: RouteCall): TokenRole | undefined {
  return call.cluster.storage.read('token-role', `token-role/${call.parameter('role')}`)?.role;
}

function createWithRole(call: RouteCall): ServiceAnswer {
  const role = roleOf(call);
  if (role === undefined) throw badRequest(`unknown role ${call.parameter('role')}`);
  return create(call, role);
}

function writeRole(call: RouteCall): ServiceAnswer {
  const role: TokenRole = {
    allowedPolicies: call.list('allowed_policies'),
    orphan: call.flag('orphan'),
    renewable: call.body['renewable'] === undefined || call.flag('renewable'),
    tokenType: tokenType(call.text('token_type')),
  };
  const refusedForBatch = [
    !role.orphan && 'non-orphan tokens',
    call.text('token_period') !== '' && 'periodic tokens',
    role.renewable && 'renewable tokens',
    call.text('token_explicit_max_ttl') !== '' && 'tokens with an explicit max TTL',
  ].find((what) => what !== false);
  if (role.tokenType === 'batch' && refusedForBatch !== undefined)
    throw badRequest(`'token_type' cannot be 'batch' when role is set to generate ${refusedForBatch}`);
  writeShared(call, `token-role/${call.parameter('role')}`, { type: 'token-role', role });
  return NO_CONTENT;
}

function readRole(call: RouteCall): ServiceAnswer {
  const role = found(roleOf(call));
  return call.answer({
    name: call.parameter('role'),
    allowed_policies: [...role.allowedPolicies],
    allowed_policies_glob: [],
    disallowed_policies: [],
    disallowed_policies_glob: [],
    orphan: role.orphan,
    path_suffix: '',
    renewable: role.renewable,
    token_explicit_max_ttl: 0,
    token_no_default_policy: false,
    token_period: 0,
    token_type: role.tokenType === 'batch' ? 'batch' : 'default-service',
  });
}

function deleteRole(call: RouteCall): ServiceAnswer {
  writeShared(call, `token-role/${call.parameter('role')}`, null);
  return NO_CONTENT;
}

function lookupSelf(call: RouteCall): ServiceAnswer {
  const identity = requireIdentity(call);
  const { createdAt, expiresAt } = identity;
  const secondsAfter = (since: number) =>
    expiresAt === null ? 0 : Math.max(0, Math.round((expiresAt - since) / 1_000));
  return call.answer({
    id: call.request.token ?? '',
    accessor: identity.accessor,
    policies: [...identity.policies],
    type: identity.type === 'batch' ? 'batch' : 'service',
    orphan: identity.orphan,
    path: identity.path,
    display_name: identity.displayName,
    creation_time: Math.floor(createdAt / 1_000),
    creation_ttl: secondsAfter(createdAt),
    expire_time: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    issue_time: new Date(createdAt).toISOString(),
    ttl: secondsAfter(call.now),
    renewable: identity.renewable,
    num_uses: 0,
    meta: null,
    entity_id: '',
    explicit_max_ttl: 0,
  });
}

function revokeSelf(call: RouteCall): ServiceAnswer {
  if (requireIdentity(call).type === 'batch') throw badRequest('batch tokens cannot be revoked');
  call.cluster.tokens.revoke(call.request.token ?? '', call.now);
  return NO_CONTENT;
}

/** Never beyond the longest life: the lease is shorter then, with a warning. */
function renewSelf(call: RouteCall): ServiceAnswer {
  const identity = requireIdentity(call);
  if (identity.type === 'batch') throw badRequest('batch tokens cannot be renewed');
  const token = call.request.token ?? '';
  const until = call.cluster.tokens.renew(token, call.now);
  if (until === undefined) throw badRequest('lease is not renewable');
  const { accessor, policies, orphan } = identity;
  const leaseMs = until - call.now;
  return call.authenticated({ token, accessor, policies, orphan, leaseMs, renewable: true, type: 'service' });
}

/** Tokens and their roles. */
export const TOKEN_ROUTES: readonly Route[] = [
  route('POST auth/token/create', 'token', (call) => create(call, undefined)),
  route('POST auth/token/create/:role', 'token', createWithRole),
  route('POST auth/token/roles/:role', 'token', writeRole),
  route('GET auth/token/roles/:role', 'token', readRole),
  route('DELETE auth/token/roles/:role', 'token', deleteRole),
  route('GET auth/token/lookup-self', 'token', lookupSelf),
  route('POST auth/token/renew-self', 'token', renewSelf),
  route('POST auth/token/revoke-self', 'token', revokeSelf),
];
