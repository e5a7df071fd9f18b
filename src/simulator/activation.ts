import type { SimulatedCluster, ActivationContent, ActivationToken } from './cluster';
import { badRequest, decodeStandardBase64, ServiceFault, type JsonObject } from './messages';
import type { ReplicationKind } from './stored';

/** Length of an X25519 public key. */
export const PUBLIC_KEY_BYTES = 32;

/** Seconds by which a token is backdated, to allow for clock skew. */
const NOT_BEFORE_LEEWAY_SECONDS = 5;

/** `primary/secondary-token`: registers the id and returns its credentials, wrapped or encrypted. */
export function issueActivationToken(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  request: { id: string; ttlMs: number; publicKey: string; creationPath: string },
): { readonly wrapInfo?: JsonObject; readonly encrypted?: string } {
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
  const { publicKey } = request;
  if (publicKey !== '' && decodeStandardBase64(publicKey)?.length !== PUBLIC_KEY_BYTES)
    throw badRequest('failed to parse the secondary public key');
  // The service's encryption is not public and its clients see opaque base64, so here the content stays in the service.
  const encrypted = publicKey === '' ? undefined : cluster.random.bytes(320).toString('base64');
  const ttl = Math.ceil(request.ttlMs / 1_000);
  const token = encrypted ?? wrappingToken(cluster, now, ttl);
  cluster.tokens.issued.push(token);
  cluster.service.activationTokens.set(token, { content, issuer: cluster, publicKey });
  const known = { id: request.id, certificate: content.certificate, activated: false };
  cluster.setRole(kind, { ...role, knownSecondaries: [...role.knownSecondaries, known] }, now);
  if (encrypted !== undefined) return { encrypted };
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

/** For some time after a promotion, the answer is 412 or 500. */
function refuseWhileSettling(cluster: SimulatedCluster, now: number): void {
  const settled = cluster.leadership.restartEndsAt + cluster.service.timing.secondaryTokenRefusedMs;
  if (cluster.promotedAt !== undefined && now < settled)
    throw cluster.random.pick([
      new ServiceFault(412, ['required index state not present']),
      new ServiceFault(500, ['internal error']),
    ]);
}

/** A token in the form of a JWT. It is not verified: the service remembers what it issued. */
function wrappingToken(cluster: SimulatedCluster, now: number, ttl: number): string {
  const iat = Math.floor(now / 1_000);
  const jti = cluster.random.token();
  const times = { iat, exp: iat + ttl, nbf: iat - NOT_BEFORE_LEEWAY_SECONDS };
  const claims = { accessor: '', addr: cluster.advertisedApiAddress, ...times, jti, type: 'wrapping' };
  cluster.tokens.issued.push(jti);
  const parts = [{ alg: 'ES512', typ: 'JWT' }, claims].map((part) => Buffer.from(JSON.stringify(part)));
  const token = [...parts, cluster.random.bytes(132)].map((part) => part.toString('base64url')).join('.');
  cluster.wrappingTokens.add(token);
  return token;
}

/**
 * Redeems an activation token on the secondary: unwraps it at the primary's API address, or decrypts it, and fetches
 * the bootstrap package through the cluster port. Unwrapping alone uses up a wrapped token.
 */
export function redeemActivationToken(
  receiver: SimulatedCluster,
  kind: ReplicationKind,
  token: string,
  primaryApiAddress: string,
): ActivationContent & { readonly source: SimulatedCluster } {
  const now = receiver.service.now();
  const issued = receiver.service.activationTokens.get(token);
  if (issued === undefined) throw badRequest('error parsing the activation token');
  const content =
    issued.publicKey === ''
      ? unwrap(receiver, token, issued, primaryApiAddress, now)
      : decrypt(receiver, kind, issued, now);
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

function decrypt(
  receiver: SimulatedCluster,
  kind: ReplicationKind,
  { publicKey, content }: ActivationToken,
  now: number,
): ActivationContent {
  const refused = (why: string) => new ServiceFault(500, [`error decrypting secondary token: ${why}`]);
  if (publicKey !== receiver.leadership.active?.publicKeys.get(kind)) throw refused('no private key fits');
  if (content.expiresAt <= now) throw refused('token has expired');
  return content;
}

/** Unwraps at the address in the request, or else at the address in the token, which is that of its issuer. */
function unwrap(
  receiver: SimulatedCluster,
  token: string,
  { issuer, content }: ActivationToken,
  primaryApiAddress: string,
  now: number,
): ActivationContent {
  const { service } = receiver;
  const address = primaryApiAddress || issuer.advertisedApiAddress;
  const source = service.clusterAt(address, 'address');
  if (!isReachable(source, receiver, now))
    throw new ServiceFault(500, [
      `error unwrapping secondary token: Post "${address}/v1/sys/wrapping/unwrap": dial tcp: i/o timeout`,
    ]);
  if (source !== issuer || !issuer.wrappingTokens.delete(token) || content.expiresAt <= now)
    throw new ServiceFault(500, [
      'error response unwrapping secondary token; status code is 400, message is "400 Bad Request"',
    ]);
  return content;
}
