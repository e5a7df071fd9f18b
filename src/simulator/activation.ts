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
  const iat = Math.floor(now / 1_000);
  const ttl = Math.ceil(request.ttlMs / 1_000);
  const jti = cluster.random.token();
  const times = { iat, exp: iat + ttl, nbf: iat - NOT_BEFORE_LEEWAY_SECONDS };
  const claims = { accessor: '', addr: cluster.apiAddress, ...times, jti, type: 'wrapping' };
  const parts = [{ alg: 'ES512', typ: 'JWT' }, claims].map((part) => Buffer.from(JSON.stringify(part)));
  // In the form of a JWT; the service knows what it issued.
  const token = [...parts, cluster.random.bytes(132)].map((part) => part.toString('base64url')).join('.');
  cluster.tokens.issued.push(token, jti);
  cluster.wrappingTokens.set(token, content);
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
  const source = receiver.service.clusterAt(content.primaryClusterAddress);
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
  const { service } = receiver;
  const issuer = [...service.clusters.values()].find(({ tokens }) => tokens.issued.includes(token));
  // The token tells the address of who issued it.
  const address = primaryApiAddress === '' ? issuer?.apiAddress : primaryApiAddress;
  if (address === undefined) throw badRequest('error parsing the activation token');
  const source = service.clusterAt(address, 'address');
  if (!isReachable(source, receiver, now))
    throw new ServiceFault(500, [
      `error unwrapping secondary token: Post "${address}/v1/sys/wrapping/unwrap": dial tcp: i/o timeout`,
    ]);
  const content = source.wrappingTokens.get(token);
  if (content === undefined || content.expiresAt <= now)
    throw new ServiceFault(500, [
      'error response unwrapping secondary token; status code is 400, message is "400 Bad Request"',
    ]);
  source.wrappingTokens.delete(token);
  return content;
}
