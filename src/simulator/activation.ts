import { z } from 'zod';
import type { SimulatedCluster } from './cluster';
import { decodeStandardBase64 } from './cryptography/encoding';
import { randomBase62, randomToken } from './cryptography/tokens';
import type { JsonObject } from './json';
import { badRequest } from './messages';
import type { KnownSecondary } from './roles';
import { ServiceFault } from './service-fault';
import type { ReplicationKind } from './storage';

const CONTENT = z.object({
  kind: z.enum(['dr', 'performance']),
  setId: z.string(),
  secondaryId: z.string(),
  certificate: z.string(),
  primaryClusterAddress: z.string(),
  expiresAt: z.number(),
});

/** What an activation token gives to its receiver. */
export type ActivationContent = z.infer<typeof CONTENT>;

/** Of X25519. */
export const PUBLIC_KEY_BYTES = 32;

const CLAIMS = z.object({ addr: z.string() });

export interface IssuedToken {
  readonly wrapInfo?: JsonObject;
  readonly encrypted?: string;
}

/** `primary/secondary-token`: makes the id known and gives its credentials, wrapped or encrypted. */
export function issueActivationToken(
  cluster: SimulatedCluster,
  kind: ReplicationKind,
  request: { id: string; ttlMs: number; publicKey: string; creationPath: string },
): IssuedToken {
  const now = cluster.surroundings.now();
  const role = cluster.effectiveRole(kind);
  if (role.mode !== 'primary') throw badRequest(`${kind} secondary tokens can only be generated on a primary`);
  refuseWhileSettling(cluster, now);
  if (role.knownSecondaries.some(({ id }) => id === request.id))
    throw badRequest(`secondary with id "${request.id}" already exists`);
  const certificate = randomBase62(32, cluster.random.bytes);
  const expiresAt = now + request.ttlMs;
  const content: ActivationContent = {
    kind,
    setId: role.setId,
    secondaryId: request.id,
    certificate,
    primaryClusterAddress: role.advertisedAddress === '' ? cluster.clusterAddress : role.advertisedAddress,
    expiresAt,
  };
  const known: KnownSecondary = { id: request.id, certificate, expiresAt, activated: false };
  const answer =
    request.publicKey === '' ? wrap(cluster, content, request, now) : encrypt(cluster, content, request.publicKey);
  cluster.setRole(kind, { ...role, knownSecondaries: [...role.knownSecondaries, known] }, now);
  return answer;
}

/** For a while after a promotion the answer is 412 or 500. */
function refuseWhileSettling(cluster: SimulatedCluster, now: number): void {
  const settled = cluster.leadership.restartEndsAt + cluster.timing.secondaryTokenRefusedMs;
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
  cluster.surroundings.encryptedTokens.set(encrypted, { publicKey, content });
  cluster.tokens.issued.push(encrypted);
  return { encrypted };
}

function wrap(
  cluster: SimulatedCluster,
  content: ActivationContent,
  request: { ttlMs: number; creationPath: string },
  now: number,
): IssuedToken {
  const jti = randomToken(cluster.random.bytes);
  const iat = Math.floor(now / 1_000);
  const ttl = Math.ceil(request.ttlMs / 1_000);
  const token = cluster.signer.signWrapped({ accessor: '', addr: cluster.apiAddress, exp: iat + ttl, iat, jti });
  cluster.tokens.issued.push(token, jti);
  cluster.wrappingTokens.set(jti, { expiresAt: content.expiresAt, content });
  return {
    wrapInfo: {
      token,
      accessor: randomBase62(24, cluster.random.bytes),
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
  const now = receiver.surroundings.now();
  const content =
    token.split('.').length === 3
      ? unwrap(receiver, token, primaryApiAddress, now)
      : decrypt(receiver, kind, token, now);
  if (content.kind !== kind) throw badRequest(`activation token is not for ${kind} replication`);
  const source = receiver.surroundings.clusterByClusterAddress(content.primaryClusterAddress);
  const role = source?.effectiveRole(kind);
  const known =
    role?.mode === 'primary'
      ? role.knownSecondaries.find(({ certificate }) => certificate === content.certificate)
      : undefined;
  const reachable =
    source !== undefined &&
    receiver.surroundings.linked(receiver, source) &&
    source.leadership.serving(now) !== undefined;
  if (!reachable || source === receiver || role?.mode !== 'primary' || known === undefined || known.activated)
    throw new ServiceFault(500, [
      'error fetching secondary bootstrap package: error authing for bootstrap: rpc error: code = Unavailable desc = connection error',
    ]);
  const secondaries = role.knownSecondaries.map((each) => (each === known ? { ...each, activated: true } : each));
  source.setRole(kind, { ...role, knownSecondaries: secondaries }, now);
  return { ...content, source };
}

function decrypt(receiver: SimulatedCluster, kind: ReplicationKind, token: string, now: number): ActivationContent {
  const found = receiver.surroundings.encryptedTokens.get(token);
  if (found === undefined || found.publicKey !== receiver.leadership.active?.publicKeys.get(kind))
    throw new ServiceFault(500, ['error decrypting secondary token: no private key fits']);
  if (found.content.expiresAt <= now)
    throw new ServiceFault(500, ['error decrypting secondary token: token has expired']);
  return found.content;
}

function unwrap(receiver: SimulatedCluster, token: string, primaryApiAddress: string, now: number): ActivationContent {
  const address = primaryApiAddress === '' ? addressInside(token) : primaryApiAddress;
  const source = receiver.surroundings.clusterByApiAddress(address);
  if (
    source === undefined ||
    !receiver.surroundings.linked(receiver, source) ||
    source.leadership.serving(now) === undefined
  )
    throw new ServiceFault(500, [
      `error unwrapping secondary token: Post "${address}/v1/sys/wrapping/unwrap": dial tcp: i/o timeout`,
    ]);
  const content = CONTENT.safeParse(consumeWrappingToken(source, token, now)).data;
  if (content === undefined)
    throw new ServiceFault(500, [
      'error response unwrapping secondary token; status code is 400, message is "400 Bad Request"',
    ]);
  return content;
}

function addressInside(token: string): string {
  try {
    const payload = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8');
    return CLAIMS.parse(JSON.parse(payload)).addr;
  } catch {
    throw new ServiceFault(400, ['error parsing the activation token']);
  }
}

/** Content of the wrapping token that a JWT names, used up by this; undefined where it is not valid here and now. */
function consumeWrappingToken(cluster: SimulatedCluster, token: string, now: number): JsonObject | undefined {
  const id = cluster.signer.verify(token)?.jti ?? '';
  const found = cluster.wrappingTokens.get(id);
  if (found === undefined || found.expiresAt <= now) return undefined;
  cluster.wrappingTokens.delete(id);
  return found.content;
}
