import { createHash } from 'node:crypto';
import { badRequest, isJsonObject, NO_CONTENT, parseDuration, type JsonObject, type ServiceAnswer } from '../messages';
import type { SeededRandom } from '../random';
import type { Storage } from '../storage';
import { writeShared } from './key-value';
import { capabilitiesOn, mayBelow } from './policies';
import type { PolicyRule } from './policies';
import { route, type Route, type RouteCall } from './route';

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
const MAXIMUM_TTL = '768h';
const MAXIMUM_TTL_MS = 768 * 3_600_000;

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

/** Members of `auth/token/create` that the simulated service leaves out. */
const LEFT_OUT = ['id', 'entity_alias', 'period', 'explicit_max_ttl'];

/** `auth/token/create` without a role: a token with what the caller has, or less. */
function createChild(call: RouteCall, orphan: boolean): ServiceAnswer {
  const { identity, cluster, now } = call;
  if (identity.type === 'batch') throw badRequest('batch tokens cannot create more tokens');
  if ((identity.usesLeft ?? 0) > 0) throw badRequest('restricted use token cannot generate child tokens');
  for (const name of LEFT_OUT)
    if (call.text(name) !== '' && parseDuration(call.text(name)) !== 0)
      throw badRequest(`the simulated service has no "${name}" of auth/token/create`);
  const granted = cluster.tokens.capabilities(identity, call.request.path);
  const privileged = granted.includes('root') || granted.includes('sudo');
  const type: 'service' | 'batch' = call.text('type') === 'batch' ? 'batch' : 'service';
  if (!['', type].includes(call.text('type'))) throw badRequest("invalid 'token_type' value");
  const uses = Number(call.text('num_uses') || 0);
  if (!Number.isInteger(uses) || uses < 0) throw badRequest('number of uses cannot be negative');
  if (type === 'batch' && uses !== 0) throw badRequest('batch tokens cannot have "num_uses" set');
  const { policies, addsDefault } = policiesOfChild(call, privileged);
  if (type === 'batch' && policies.includes('root')) throw badRequest('batch tokens cannot be root tokens');
  if (call.flag('no_parent') && !privileged)
    throw badRequest('root or sudo privileges required to create orphan token');
  const ttlMs = parseDuration(call.text('ttl') || 0);
  if (ttlMs === undefined) throw badRequest('error converting input for field "ttl": time: invalid duration');
  const { meta } = call.body;
  const request = {
    ...{ policies, addsDefault, type, path: call.request.path },
    orphan: orphan || call.flag('no_parent'),
    renewable: call.text('renewable') !== 'false' && !(policies.includes('root') && ttlMs === 0),
    ttlMs: ttlMs > 0 ? ttlMs : policies.includes('root') ? null : MAXIMUM_TTL_MS,
    displayName: ['token', call.text('display_name')].filter((part) => part !== '').join('-'),
    ...(uses > 0 && { usesLeft: uses }),
    ...(isJsonObject(meta) && { meta }),
  } as const;
  return call.authenticated(cluster.tokens.create(request, now));
}

/** Without `sudo`, a child has a part of its parent's policies. */
function policiesOfChild(call: RouteCall, privileged: boolean): { policies: readonly string[]; addsDefault: boolean } {
  const { policies: ofParent } = call.identity;
  const asked = call.list('policies');
  const wantsDefault = !call.flag('no_default_policy');
  if (asked.length === 0)
    return { policies: ofParent.filter((name) => wantsDefault || name !== 'default'), addsDefault: false };
  if (!privileged && !asked.every((name) => ofParent.includes(name)))
    throw badRequest('child policies must be subset of parent');
  if (asked.includes('root') && !ofParent.includes('root'))
    throw badRequest('root tokens may not be created without parent token being root');
  return { policies: asked, addsDefault: wantsDefault && (privileged || ofParent.includes('default')) };
}

function createWithRole(call: RouteCall): ServiceAnswer {
  const name = call.parameter('role');
  const role = call.cluster.storage.read('token-role', `token-role/${name}`)?.role;
  if (role === undefined) throw badRequest(`unknown role ${name}`);
  const { allowedPolicies, tokenType: type, orphan } = role;
  const asked = call.list('policies');
  if (!asked.every((each) => allowedPolicies.includes(each)))
    throw badRequest('child policies must be subset of parent');
  const ttlMs = parseDuration(call.text('ttl') || MAXIMUM_TTL);
  if (ttlMs === undefined) throw badRequest('error converting input for field "ttl": time: invalid duration');
  const policies = asked.length > 0 ? asked : allowedPolicies;
  const request = { policies, type, orphan, renewable: role.renewable, ttlMs, path: call.request.path };
  return call.authenticated(call.cluster.tokens.create(request, call.now));
}

function writeRole(call: RouteCall): ServiceAnswer {
  const role: TokenRole = {
    allowedPolicies: call.list('allowed_policies'),
    orphan: call.flag('orphan'),
    renewable: call.body['renewable'] === undefined || call.flag('renewable'),
    tokenType: call.text('token_type') === 'batch' ? 'batch' : 'service',
  };
  if (role.tokenType === 'batch' && (!role.orphan || role.renewable))
    throw badRequest("'token_type' cannot be 'batch' when role is set to generate non-orphan or renewable tokens");
  writeShared(call, `token-role/${call.parameter('role')}`, { type: 'token-role', role });
  return NO_CONTENT;
}

function lookupSelf(call: RouteCall): ServiceAnswer {
  const { identity } = call;
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
    ttl: secondsAfter(call.now),
    // A token that does not expire has no lease.
    ...(expiresAt === null ? {} : { issue_time: new Date(createdAt).toISOString(), renewable: identity.renewable }),
    num_uses: identity.usesLeft ?? 0,
    meta: identity.meta ?? null,
    entity_id: '',
    explicit_max_ttl: 0,
  });
}

function revokeSelf(call: RouteCall): ServiceAnswer {
  if (call.identity.type === 'batch') throw badRequest('batch tokens cannot be revoked');
  call.cluster.tokens.revoke(call.request.token ?? '', call.now);
  return NO_CONTENT;
}

function renewSelf(call: RouteCall): ServiceAnswer {
  if (call.identity.type === 'batch') throw badRequest('batch tokens cannot be renewed');
  const renewed = call.cluster.tokens.renew(call.request.token ?? '', call.now);
  if (renewed === undefined) throw badRequest('lease is not renewable');
  return call.authenticated(renewed);
}

/** Tokens and token roles. */
export const TOKEN_ROUTES: readonly Route[] = [
  route('POST auth/token/create', 'token', (call) => createChild(call, false)),
  route('POST auth/token/create-orphan', 'sudo', (call) => createChild(call, true)),
  route('POST auth/token/create/:role', 'token', createWithRole),
  route('POST auth/token/roles/:role', 'token', writeRole),
  route('GET auth/token/lookup-self', 'token', lookupSelf),
  route('POST auth/token/renew-self', 'token', renewSelf),
  route('POST auth/token/revoke-self', 'token', revokeSelf),
];
