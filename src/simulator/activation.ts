import { generateKeyPairSync, sign, verify } from 'node:crypto';
import type { SimulatedCluster } from './cluster';
import { badRequest, decodeStandardBase64, ServiceFault, type JsonObject } from './messages';
import type { ReplicationKind } from './storage';

/** What an activation token gives to its receiver. */
export interface ActivationContent {
  readonly kind: ReplicationKind;
  readonly setId: string;
  readonly secondaryId: string;
  /** Identifies the client certificate inside; only its holder may connect. */
  readonly certificate: string;
  readonly primaryClusterAddress: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Of X25519. */
export const PUBLIC_KEY_BYTES = 32;

/** Seconds that a token is dated back, against clocks that differ. */
const NOT_BEFORE_LEEWAY_SECONDS = 5;

/** Claims of an activation token; times in whole seconds since the epoch. */
interface Claims {
  /** Empty in tokens of current versions. */
  readonly accessor: string;
  /** API address of the primary, where the receiver unwraps the token. */
  readonly addr: string;
  readonly exp: number;
  readonly iat: number;
  /** ID of the wrapping token. */
  readonly jti: string;
}

/**
 * Issues and checks activation tokens in the form of a JWT, with a P-521 key that only this primary holds.
 *
 * Signatures differ from run to run even under a fixed seed: the key pair and ECDSA take the platform's randomness.
 */
export class ActivationTokenSigner {
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'P-521' });

  /** The header carries no `kid`. */
  sign(claims: Claims): string {
    const payload = { ...claims, nbf: claims.iat - NOT_BEFORE_LEEWAY_SECONDS, type: 'wrapping' };
    const signed = [{ alg: 'ES512', typ: 'JWT' }, payload]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
    const signature = sign('sha512', Buffer.from(signed), { key: this.#keys.privateKey, dsaEncoding: 'ieee-p1363' });
    return `${signed}.${signature.toString('base64url')}`;
  }

  /**
   * `jti` of a token that this signer issued, undefined for any other text.
   *
   * Expiry is not looked at: like the service, the caller decides by the wrapping token that `jti` names.
   */
  verify(jwt: string): string | undefined {
    const [header = '', payload = '', signature = '', ...rest] = jwt.split('.');
    const key = { key: this.#keys.publicKey, dsaEncoding: 'ieee-p1363' } as const;
    const signed = Buffer.from(`${header}.${payload}`);
    const genuine = rest.length === 0 && verify('sha512', signed, key, Buffer.from(signature, 'base64url'));
    return genuine ? claim(jwt, 'jti') : undefined;
  }
}

/** One claim, unchecked; undefined where the token has none that is a text. */
function claim(jwt: string, name: 'jti' | 'addr'): string | undefined {
  try {
    const claims: unknown = JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString('utf8'));
    const value: unknown = typeof claims === 'object' && claims !== null ? Reflect.get(claims, name) : undefined;
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

interface IssuedToken {
  readonly wrapInfo?: JsonObject;
  readonly encrypted?: string;
}

/** `primary/secondary-token`: makes the id known and gives its credentials, wrapped or encrypted. */
export function issueActivationToken(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  request: { id: string; ttlMs: number; publicKey: string; creationPath: string },
): IssuedToken {
  const now = cluster.service.now();
  const role = cluster.effectiveRole(kind);
  if (role.mode !== 'primary') throw badRequest(`${kind} secondary tokens can only be generated on a primary`);
  refuseWhileSettling(cluster, now);
  if (role.knownSecondaries.some(({ id }) => id === request.id))
    throw badRequest(`secondary with id "${request.id}" already exists`);
  const content: ActivationContent = {
    kind,
    setId: role.setId,
    secondaryId: request.id,
    certificate: cluster.random.base62(32),
    primaryClusterAddress: role.advertisedAddress === '' ? cluster.clusterAddress : role.advertisedAddress,
    expiresAt: now + request.ttlMs,
  };
  const issued =
    request.publicKey === '' ? wrap(cluster, content, request, now) : encrypt(cluster, content, request.publicKey);
  const known = { id: request.id, certificate: content.certificate, activated: false };
  cluster.setRole(kind, { ...role, knownSecondaries: [...role.knownSecondaries, known] }, now);
  return issued;
}

/** For a while after a promotion the answer is 412 or 500. */
function refuseWhileSettling(cluster: SimulatedCluster, now: number): void {
  const settled = cluster.leadership.restartEndsAt + cluster.service.timing.secondaryTokenRefusedMs;
  if (cluster.promotedAt !== undefined && now < settled)
    throw cluster.random.pick([
      new ServiceFault(412, ['required index state not present']),
      new ServiceFault(500, ['internal error']),
    ]);
}

/**
 * A text that only the holder of the public key can use. How the service encrypts is not public, and its clients see
 * opaque base64: here the content stays with the service.
 */
function encrypt(cluster: SimulatedCluster, content: ActivationContent, publicKey: string): IssuedToken {
  if (decodeStandardBase64(publicKey)?.length !== PUBLIC_KEY_BYTES)
    throw badRequest('failed to parse the secondary public key');
  const encrypted = cluster.random.bytes(320).toString('base64');
  cluster.service.encryptedTokens.set(encrypted, { publicKey, content });
  cluster.tokens.issued.push(encrypted);
  return { encrypted };
}

function wrap(
  cluster: SimulatedCluster,
  content: ActivationContent,
  request: { ttlMs: number; creationPath: string },
  now: number,
): IssuedToken {
  const jti = cluster.random.token();
  const iat = Math.floor(now / 1_000);
  const ttl = Math.ceil(request.ttlMs / 1_000);
  const token = cluster.signer.sign({ accessor: '', addr: cluster.apiAddress, exp: iat + ttl, iat, jti });
  cluster.tokens.issued.push(token, jti);
  cluster.wrappingTokens.set(jti, content);
  return {
    wrapInfo: {
      token,
      accessor: cluster.random.base62(24),
      ttl,
      creation_time: new Date(now).toISOString(),
      creation_path: request.creationPath,
    },
  };
}

/**
 * Redeems an activation token on the receiving side: unwraps it at the primary's API address, or decrypts it, and fetches
 * the bootstrap package through the cluster port. A wrapped token is used up by the unwrapping alone.
 */
export function redeemActivationToken(
  receiver: SimulatedCluster,
  kind: ReplicationKind,
  token: string,
  primaryApiAddress: string,
): ActivationContent & { readonly source: SimulatedCluster } {
  const now = receiver.service.now();
  const content =
    token.split('.').length === 3
      ? unwrap(receiver, token, primaryApiAddress, now)
      : decrypt(receiver, kind, token, now);
  if (content.kind !== kind) throw badRequest(`activation token is not for ${kind} replication`);
  const source = receiver.service.clusterByClusterAddress(content.primaryClusterAddress);
  const role = source?.effectiveRole(kind);
  const known =
    role?.mode === 'primary' &&
    role.knownSecondaries.find(({ certificate, activated }) => certificate === content.certificate && !activated);
  if (!isReachable(source, receiver, now) || source === receiver || role?.mode !== 'primary' || !known)
    throw new ServiceFault(500, [
      'error fetching secondary bootstrap package: error authing for bootstrap: rpc error: code = Unavailable desc = connection error',
    ]);
  const secondaries = role.knownSecondaries.map((each) => (each === known ? { ...each, activated: true } : each));
  source.setRole(kind, { ...role, knownSecondaries: secondaries }, now);
  return { ...content, source };
}

function isReachable(
  source: SimulatedCluster | undefined,
  from: SimulatedCluster,
  now: number,
): source is SimulatedCluster {
  return source !== undefined && from.service.linked(from, source) && source.leadership.serving(now) !== undefined;
}

function decrypt(receiver: SimulatedCluster, kind: ReplicationKind, token: string, now: number): ActivationContent {
  const found = receiver.service.encryptedTokens.get(token);
  if (found === undefined || found.publicKey !== receiver.leadership.active?.publicKeys.get(kind))
    throw new ServiceFault(500, ['error decrypting secondary token: no private key fits']);
  if (found.content.expiresAt <= now)
    throw new ServiceFault(500, ['error decrypting secondary token: token has expired']);
  return found.content;
}

function unwrap(receiver: SimulatedCluster, token: string, primaryApiAddress: string, now: number): ActivationContent {
  const address = primaryApiAddress === '' ? claim(token, 'addr') : primaryApiAddress;
  if (address === undefined) throw badRequest('error parsing the activation token');
  const source = receiver.service.clusterByApiAddress(address);
  if (!isReachable(source, receiver, now))
    throw new ServiceFault(500, [
      `error unwrapping secondary token: Post "${address}/v1/sys/wrapping/unwrap": dial tcp: i/o timeout`,
    ]);
  const id = source.signer.verify(token) ?? '';
  const content = source.wrappingTokens.get(id);
  if (content === undefined || content.expiresAt <= now)
    throw new ServiceFault(500, [
      'error response unwrapping secondary token; status code is 400, message is "400 Bad Request"',
    ]);
  source.wrappingTokens.delete(id);
  return content;
}
