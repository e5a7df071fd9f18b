import { RunbookError } from '../errors';
import { Secret } from '../secret';
import { anyObject, as, at, data, dataObject, entries, epoch, flag, has, index } from './shape';
import { needed, neededObject, number, numbers, object, objects, text, texts, time, withDefault } from './shape';
import type { Place, Read, Reader } from './shape';

/* The answers of the service, member by member. Names are those of the service in camel case, unless another is given. */

export type ReplicationKind = 'dr' | 'performance';

/** A cluster at the other end of the replication link, as seen through heartbeats (facts 3.1). */
const PEER = object({
  /** The id given to the activation token; only on the primary. */
  nodeId: text,
  clusterAddress: text,
  /** `connected` or `disconnected`. */
  connectionStatus: text,
  /** RFC3339. */
  lastHeartbeat: time,
  replicationPrimaryCanaryAgeMs: number,
});
export type ReplicationPeer = Read<typeof PEER>;

const EITHER_SIDE = {
  state: text,
  /** Identifier of the replication set, the same on all members. */
  clusterId: text,
  primaryClusterAddr: text,
  merkleRoot: text,
  lastReindexEpoch: epoch,
  reindexInProgress: flag,
  reindexStage: text,
  reindexBuildingProgress: number,
  reindexBuildingTotal: number,
  corruptedMerkleTree: flag,
} as const;

const primaryStatus = (kind: ReplicationKind) =>
  object({
    ...EITHER_SIDE,
    /** Index of the last WAL entry that this kind replicates. */
    lastReplicatedWal: [kind === 'dr' ? 'last_dr_wal' : 'last_performance_wal', index],
    /** Ids of all activation tokens that were issued and not revoked, used or not. */
    knownSecondaries: texts,
    /** Clusters that have sent a heartbeat since the primary started. */
    secondaries: objects(PEER),
  });

/** `state` can stay `stream-wals` after the primary died: use `primaries` and their heartbeats to see whether it is alive. */
const SECONDARY_STATUS = object({
  ...EITHER_SIDE,
  /** State of the gRPC channel: `ready`, `connecting`, `idle`, `transient_failure`, `shutdown`. */
  connectionState: text,
  /** The id given to `primary/secondary-token`. */
  secondaryId: text,
  knownPrimaryClusterAddrs: texts,
  primaries: objects(PEER),
  /** 0 right after a merkle-sync, until the first WAL entry is streamed. */
  lastRemoteWal: index,
});

export type ReplicationStatus =
  /** Not part of a set, or not known (`unknown` while the node restarts). */
  | { readonly mode: 'disabled' | 'unsupported' | 'unknown' }
  | ({ readonly mode: 'primary' } & Read<ReturnType<typeof primaryStatus>>)
  | ({ readonly mode: 'secondary' | 'bootstrapping' } & Read<typeof SECONDARY_STATUS>);

export function replicationStatus(kind: ReplicationKind): Reader<ReplicationStatus> {
  const primary = needed(primaryStatus(kind));
  return (value, place) => {
    const mode = at('mode', needed(text))(value, place);
    switch (mode) {
      case 'primary':
        return { mode, ...primary(value, place) };
      case 'secondary':
      case 'bootstrapping':
        return { mode, ...needed(SECONDARY_STATUS)(value, place) };
      case 'disabled':
      case 'unsupported':
        return { mode };
      default:
        return { mode: 'unknown' };
    }
  };
}

/** Status of both kinds. A `mode` at the top level applies to both (unsupported storage, builds without replication). */
export function bothStatuses(value: unknown, place: Place): Readonly<Record<ReplicationKind, ReplicationStatus>> {
  const [dr, performance] = [replicationStatus('dr'), replicationStatus('performance')];
  const isBare = !has(value, 'dr') && !has(value, 'performance') && has(value, 'mode');
  return isBare
    ? { dr: dr(value, place), performance: performance(value, place) }
    : { dr: at('dr', dr)(value, place), performance: at('performance', performance)(value, place) };
}

/** Public key of a secondary for one activation. Only the node that created it can use a token encrypted with it. */
export type SecondaryPublicKey = ReturnType<typeof secondaryPublicKey>;

export function secondaryPublicKey(body: unknown, place: Place) {
  return { publicKey: data(at('secondary_public_key', needed(text)))(body, place), node: place.node };
}

/** A secondary activation token (interface section 2; facts 4). Single use. */
export interface ActivationToken {
  readonly token: Secret<'activation-token'>;
  /** `wrapped`: a JWT that the secondary unwraps at the primary. `encrypted`: readable only with the secondary's key. */
  readonly form: 'wrapped' | 'encrypted';
  /** Address of the node that issued it. */
  readonly node: string;
}

export const activationToken: Reader<ActivationToken> = (body, place) => {
  const { node } = place;
  const encrypted = at('data', object({ token: text }))(body, place)?.token;
  if (encrypted !== undefined) return { token: new Secret('activation-token', encrypted), form: 'encrypted', node };
  const token = at('wrap_info', at('token', needed(text)))(body, place);
  return { token: new Secret('activation-token', token), form: 'wrapped', node };
};

type FilterMode = 'allow' | 'deny';

const filterMode = needed<FilterMode>(as(text, (mode) => (mode === 'allow' || mode === 'deny' ? mode : undefined)));

/** Paths filter of a performance secondary (interface sections 2 and 4.2). */
export const pathsFilter = neededObject({ mode: filterMode, paths: withDefault(texts, []) });
export type PathsFilter = Read<typeof pathsFilter>;

/** The effective filter of a secondary, as the primary or the secondary sees it. */
export const dynamicFilter = neededObject({
  mounts: ['dynamic_filtered_mounts', withDefault(texts, [])],
  namespaces: ['dynamic_filtered_namespaces', withDefault(texts, [])],
});
export type DynamicFilter = Read<typeof dynamicFilter>;

/** Damage to a page of a subtree (interface section 2, facts 7): the page itself, or some of its subpages (0 to 255). */
const DAMAGE = object({ corrupted: withDefault(flag, false), subpages: withDefault(numbers, []) });

const SUBTREE = object({
  /** `replicated` or `local`. */
  treeType: text,
  corruptedSubtreeRoot: needed(flag),
  corruptedPages: [
    'corrupted_index_tuples_map',
    withDefault(
      as(entries(DAMAGE), (pages) => pages.map(([page, damage]) => ({ page: Number(page), ...damage }))),
      [],
    ),
  ],
});

const CORRUPTION = object({
  corruptedRoot: needed(flag),
  subtrees: ['corrupted_tree_map', entries(SUBTREE)],
});

export type MerkleSubtree = { readonly id: string } & Read<typeof SUBTREE>;

/** Result of a Merkle check of a DR secondary. `healthy`: no root, subtree root, page, or subpage is corrupted. */
export type MerkleReport = ReturnType<typeof merkleReport>;

export function merkleReport(value: unknown, place: Place) {
  const report = at('merkle_corruption_report', needed(CORRUPTION))(value, place);
  const subtrees = report.subtrees.map(([id, tree]): MerkleSubtree => ({ id, ...tree }));
  const isHealthy = (tree: MerkleSubtree) => !tree.corruptedSubtreeRoot && tree.corruptedPages.length === 0;
  return { ...report, subtrees, healthy: !report.corruptedRoot && subtrees.every(isHealthy) };
}

/** The kinds of token that a generation attempt produces. */
export type GeneratedTokenKind = 'operation-token' | 'root-token';

const ATTEMPT = object({
  started: withDefault(flag, false),
  /** Absent if no attempt is in progress. */
  nonce: text,
  /** Number of key shares accepted so far. Returns to 0 if a full set of shares does not combine. */
  progress: needed(number),
  /** Number of key shares required. */
  required: needed(number),
  complete: needed(flag),
  /** Fingerprint of the PGP key that the token will be encrypted with, in lower-case hex. */
  pgpFingerprint: as(text, (fingerprint) => fingerprint.toLowerCase()),
});

/** State of the generation attempt (interface section 2; facts 5.1). */
export type GenerationAttempt<K extends GeneratedTokenKind = GeneratedTokenKind> = Read<typeof ATTEMPT> & {
  /** Only in the answer to the last share; encrypted with the PGP key. */
  readonly encodedToken?: Secret<K>;
};

/** Reads a generation attempt. Its members are at the top level, or under `data` in some versions. */
export function generationAttempt<K extends GeneratedTokenKind>(kind: K): Reader<GenerationAttempt<K>> {
  const read: Reader<GenerationAttempt<K>> = (value, place) => {
    const encoded = at('encoded_token', text)(value, place) ?? at('encoded_root_token', text)(value, place);
    const encodedToken = encoded === undefined ? undefined : new Secret(kind, encoded);
    return { ...needed(ATTEMPT)(value, place), encodedToken };
  };
  return (body, place) => (has(body, 'progress') ? read : data(read))(body, place);
}

/** `sys/health` (facts 1.5). */
const HEALTH = object({
  initialized: needed(flag),
  sealed: needed(flag),
  standby: withDefault(flag, false),
  replicationDrMode: text,
  serverTimeUtc: as(epoch, (seconds) => (seconds === 'never' ? undefined : seconds)),
  version: text,
  /** Identifier of the cluster itself, not of its replication set. */
  clusterId: text,
  /** Enterprise only. `expiryTime`: RFC3339. */
  license: object({ state: text, expiryTime: time, terminated: flag }),
});

/**
 * `sys/health` with its HTTP status, which is data: 200 active, 429 standby, 472 DR secondary, 473 performance standby,
 * 474, 501, 503, 530.
 */
export type Health = Read<typeof HEALTH> & {
  readonly status: number;
  /** Address of the node that answered. */
  readonly node: string;
};

export const health: Reader<Health> = (body, place) => ({
  ...needed(HEALTH)(body, place),
  status: place.status,
  node: place.node,
});

/** `sys/leader` (facts 1.6). */
export const leader = neededObject({
  haEnabled: withDefault(flag, false),
  isSelf: needed(flag),
  leaderAddress: text,
  leaderClusterAddress: text,
});
export type Leader = Read<typeof leader>;

/** `sys/seal-status` (facts 1.6). */
export const sealStatus = neededObject({
  type: text,
  sealed: needed(flag),
  /** On a secondary, the threshold of the primary. */
  threshold: ['t', number],
  shares: ['n', number],
  /** Key shares are recovery keys (auto-unseal). */
  recoverySeal: flag,
  /** A migration to another seal is under way. */
  migration: flag,
});

/** The capabilities of a token on each requested path. */
export function capabilities(body: unknown, place: Place, paths: readonly string[]): Capabilities {
  return data((value, inner) => Object.fromEntries(paths.map((path) => [path, at(path, texts)(value, inner) ?? []])))(
    body,
    place,
  );
}
type Capabilities = Readonly<Record<string, readonly string[]>>;

/** `auth/token/lookup-self`, without the token itself. */
export const tokenFacts = dataObject({
  policies: withDefault(texts, []),
  /** `service`, `batch` or `recovery`. */
  type: text,
  orphan: flag,
  /** Seconds left; 0: does not expire. */
  ttlSeconds: ['ttl', number],
  creationTtlSeconds: ['creation_ttl', number],
  /** Calls left; 0: they are not counted. Every call uses one up, also a lookup. */
  usesLeft: ['num_uses', number],
  /** RFC3339; absent if the token does not expire. */
  expireTime: time,
});

const tokenOf = <K extends 'batch-token' | 'service-token'>(kind: K) =>
  at(
    'auth',
    neededObject({
      token: ['client_token', needed(as(text, (token) => new Secret(kind, token)))],
      /** `service` or `batch`; may differ from the requested type. A batch token cannot be renewed or revoked. */
      tokenType: text,
      /** Seconds; 0: does not expire. */
      leaseDurationSeconds: ['lease_duration', needed(number)],
      renewable: flag,
    }),
  );
/** A token created with a token role. */
export const createdToken = tokenOf('batch-token');
/** The token of a login, or a renewed token. */
const issuedToken = tokenOf('service-token');
export type LoginToken = Read<typeof issuedToken>;

/** With MFA enforced, a login is answered with a requirement instead of a token. */
export const loginToken: Reader<LoginToken> = (body, place) => {
  if (at('auth', at('mfa_requirement', anyObject))(body, place) === undefined) return issuedToken(body, place);
  const { what, cluster, status } = place;
  const observed = 'an MFA requirement instead of a token';
  throw new RunbookError('CREDENTIAL_UNAVAILABLE', `${what}: the login was answered with ${observed}`, {
    ...{ cluster, httpStatus: status, observed, needed: 'a token: workers have no second factor', retryable: false },
    next: 'Exempt the role of the workers from the MFA enforcement.',
  });
};

/** `auth/approle/role/:role/role-id`. */
export const appRoleId = at('data', at('role_id', needed(text)));
/** `auth/approle/role/:role/secret-id`: the service returns it only once. */
export const secretId = at('data', at('secret_id', needed(as(text, (id) => new Secret('login-secret', id)))));

/** `sys/quotas/config`. A write resets every omitted member, so all members that were read must be written back. */
export const quotaConfig = dataObject({
  rateLimitExemptPaths: needed(texts),
  /** Absent in older versions. */
  absoluteRateLimitExemptPaths: texts,
  enableRateLimitAuditLogging: withDefault(flag, false),
  enableRateLimitResponseHeaders: withDefault(flag, false),
});
export type QuotaConfig = Read<typeof quotaConfig>;

/** The names in a list. */
export const names = data(at('keys', needed(texts)));

export const rateLimitQuota = dataObject({
  /** Absent: the quota limits all paths without a more specific quota. */
  path: text,
  rate: number,
  /** Seconds. */
  interval: number,
  /** Absent on the community edition and in older versions, which group by client address. */
  groupBy: text,
});

export const policy = data(at('policy', withDefault(text, '')));

/** Audit devices by mount path, with a trailing slash, such as `file/`. `local`: not replicated to secondaries. */
const DEVICES = entries(object({ type: text, local: flag }));

/** The audit devices in `sys/audit` with their mount paths. Their options are not read: they may name files and hosts. */
export function auditDevices(body: unknown, place: Place) {
  return data(DEVICES)(body, place).map(([path, device]) => ({ path, ...device }));
}

/** `sys/storage/raft/autopilot/state`. */
export const autopilotState = dataObject({
  healthy: needed(flag),
  /** How many voters may fail before the cluster loses its quorum. */
  failureTolerance: withDefault(number, 0),
  /** By node ID. */
  servers: withDefault(entries(object({ healthy: flag, status: text })), []),
});

/** The engine that serves a path. */
export const mount = dataObject({
  /** With a trailing slash. */
  path: needed(text),
  type: needed(text),
  /** Options of a key-value engine; version 1 returns no version, or no options at all. */
  options: withDefault(object({ version: text }), {}),
  /** Not included in performance replication. */
  local: flag,
});

/** Location of a key in a key-value engine. */
export interface KeyPlace {
  /** Mount of the engine, such as `secret`. */
  readonly mount: string;
  /** Path of the key below the mount. */
  readonly path: string;
  /** Version of the engine. */
  readonly version: 1 | 2;
}

/** The entries of a key whose values are strings. */
export function keyValueEntries(body: unknown, place: Place, { version }: KeyPlace): Readonly<Record<string, string>> {
  const entries = Object.entries(at('data', inVersion(version, needed(anyObject)))(body, place));
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

/** A version 2 engine wraps the entries in one more `data`. */
function inVersion<T>(version: 1 | 2, read: Reader<T>): Reader<T> {
  return version === 1 ? read : at('data', read);
}
