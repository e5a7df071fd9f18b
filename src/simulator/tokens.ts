import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';
import { z } from 'zod';
import { randomBase62, randomToken } from './cryptography/tokens';
import { capabilitiesOn } from './policies';
import type { SeededRandom } from './random';
import type { Storage } from './storage';

/** A service token as stored; the token itself is the key, hashed. */
export interface ServiceToken {
  readonly accessor: string;
  readonly policies: readonly string[];
  readonly orphan: boolean;
  readonly displayName: string;
  readonly path: string;
  readonly renewable: boolean;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
}

export interface TokenRole {
  readonly allowedPolicies: readonly string[];
  readonly orphan: boolean;
  readonly renewable: boolean;
  readonly tokenType: 'service' | 'batch';
}

/** Who a valid token stands for. */
export interface Identity extends ServiceToken {
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
}

/** The service's default maximum. */
export const MAXIMUM_TTL_MS = 768 * 3_600_000;

const BATCH_CLAIMS = z.object({
  policies: z.array(z.string()),
  orphan: z.boolean(),
  displayName: z.string(),
  path: z.string(),
  createdAt: z.number(),
  expiresAt: z.number(),
});

function keyOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Tokens of one cluster. Service tokens replicate with the cluster's data; operation tokens stay on the cluster. */
export class TokenStore {
  /** Every secret that this cluster ever gave out, for tests that look for leaks. */
  readonly issued: string[] = [];

  constructor(
    private readonly storage: Storage,
    private readonly random: SeededRandom,
  ) {}

  /** Creates a token that names itself, with its accessor (empty for batch tokens). */
  create(request: TokenRequest, now: number): { token: string; accessor: string } {
    const ttlMs = request.ttlMs === null ? null : Math.min(request.ttlMs, MAXIMUM_TTL_MS);
    const common = {
      policies: [...new Set(request.policies.includes('root') ? ['root'] : ['default', ...request.policies])].sort(),
      orphan: request.orphan,
      displayName: request.displayName ?? 'token',
      path: request.path ?? 'auth/token/create',
      createdAt: now,
    };
    if (request.type === 'batch') {
      const expiresAt = now + (ttlMs ?? MAXIMUM_TTL_MS);
      const token = `hvb.${this.#sealBatch(JSON.stringify({ ...common, expiresAt }))}`;
      this.issued.push(token);
      return { token, accessor: '' };
    }
    const token = randomToken(this.random.bytes);
    this.issued.push(token);
    const accessor = randomBase62(24, this.random.bytes);
    const expiresAt = ttlMs === null ? null : now + ttlMs;
    const stored = { ...common, accessor, renewable: request.renewable ?? expiresAt !== null, expiresAt };
    this.storage.write(`token/${keyOf(token)}`, { type: 'token', token: stored }, now);
    return { token, accessor };
  }

  createRootToken(now: number): string {
    const path = 'auth/token/root';
    return this.create({ policies: ['root'], type: 'service', orphan: true, ttlMs: null, path }, now).token;
  }

  /** Who the token stands for, or undefined where it is not valid here and now. */
  identify(token: string, now: number): Identity | undefined {
    const claims = token.startsWith('hvb.') ? this.#openBatch(token.slice(4)) : undefined;
    if (claims !== undefined)
      return claims.expiresAt > now ? { ...claims, type: 'batch', accessor: '', renewable: false } : undefined;
    const stored = this.storage.get(`token/${keyOf(token)}`);
    if (stored?.type !== 'token' || (stored.token.expiresAt !== null && stored.token.expiresAt <= now))
      return undefined;
    return { ...stored.token, type: 'service' };
  }

  revoke(token: string, now: number): void {
    this.storage.write(`token/${keyOf(token)}`, null, now);
  }

  capabilities(identity: Identity, path: string): string[] {
    return capabilitiesOn(path, identity.policies, (name) => {
      const stored = this.storage.get(`policy/${name}`);
      return stored?.type === 'policy' ? stored.rules : undefined;
    });
  }

  /** The operation tokens before this one stay good. */
  createOperationToken(now: number): string {
    const token = randomToken(this.random.bytes);
    this.issued.push(token);
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

  #batchKey(): Buffer | undefined {
    const keyring = this.storage.get('keyring');
    return keyring?.type === 'keyring' ? Buffer.from(keyring.batchKey, 'hex') : undefined;
  }

  #sealBatch(claims: string): string {
    const key = this.#batchKey();
    if (key === undefined) throw new Error('a cluster without keyring cannot make batch tokens');
    const iv = this.random.bytes(12);
    const cipher = createCipheriv('aes-256-gcm', key, iv);
    return Buffer.concat([iv, cipher.update(claims), cipher.final(), cipher.getAuthTag()]).toString('base64url');
  }

  /** Batch tokens carry everything, encrypted with the replicated keyring: any cluster of the set can read them. */
  #openBatch(sealed: string): z.infer<typeof BATCH_CLAIMS> | undefined {
    const key = this.#batchKey();
    const bytes = Buffer.from(sealed, 'base64url');
    if (key === undefined || bytes.length < 29) return undefined;
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 });
      decipher.setAuthTag(bytes.subarray(-16));
      const text = Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString('utf8');
      return BATCH_CLAIMS.parse(JSON.parse(text));
    } catch {
      return undefined;
    }
  }
}
