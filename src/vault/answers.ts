import { Secret } from '../secret';
import { anyObject, as, at, data, dataObject, entries, epoch, flag, has, index } from './shape';
import { needed, neededObject, number, numbers, object, objects, text, texts, withDefault } from './shape';
import type { Place, Read, Reader } from './shape';

/* What the service answers, member by member. Names are the service's, in camel case, unless they are given beside. */

export type ReplicationKind = 'dr' | 'performance';

/** One cluster at the other end, as its counterpart sees it by heartbeat (facts 3.1). */
const PEER = object({
  /** The id of the activation token; on the primary's side only. */
  nodeId: text,
  clusterAddress: text,
  /** `connected` or `disconnected`. */
  connectionStatus: text,
  /** RFC3339. */
  lastHeartbeat: text,
  replicationPrimaryCanaryAgeMs: number,
});
export type ReplicationPeer = Read<typeof PEER>;

const EITHER_SIDE = {
  state: text,
  /** Identifier of the replication set, shared by all of its members. */
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
    /** Index of the last entry that this kind replicates. */
    lastReplicatedWal: [kind === 'dr' ? 'last_dr_wal' : 'last_performance_wal', index],
    /** Ids of all activation tokens issued and not revoked, used or not. */
    knownSecondaries: texts,
    /** Clusters with a heartbeat since the primary started. */
    secondaries: objects(PEER),
  });

/** `state` can stay `stream-wals` with a dead primary: judge life by `primaries` and their heartbeats. */
const SECONDARY_STATUS = object({
  ...EITHER_SIDE,
  /** gRPC channel: `ready`, `connecting`, `idle`, `transient_failure`, `shutdown`. */
  connectionState: text,
  /** The id given to secondary-token. */
  secondaryId: text,
  knownPrimaryClusterAddrs: texts,
  primaries: objects(PEER),
  /** 0 right after a merkle-sync: no WAL streamed yet. */
  lastRemoteWal: index,
});

export type ReplicationStatus =
  /** Not part of a set, or not able to tell (`unknown` while the node restarts). */
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

/** Both kinds at once: a bare `mode` stands for both (unsupported storage, builds without replication). */
export function bothStatuses(value: unknown, place: Place): Readonly<Record<ReplicationKind, ReplicationStatus>> {
  const [dr, performance] = [replicationStatus('dr'), replicationStatus('performance')];
  const isBare = !has(value, 'dr') && !has(value, 'performance') && has(value, 'mode');
  return isBare
    ? { dr: dr(value, place), performance: performance(value, place) }
    : { dr: at('dr', dr)(value, place), performance: at('performance', performance)(value, place) };
}

/** Public key of a secondary for one activation. Only the node that made it can use the token encrypted with it. */
export type SecondaryPublicKey = ReturnType<typeof secondaryPublicKey>;

export function secondaryPublicKey(body: unknown, place: Place) {
  return { publicKey: data(at('secondary_public_key', needed(text)))(body, place), node: place.node };
}

/** A secondary activation token (interface section 2; facts 4). Single use. */
export interface ActivationToken {
  readonly token: Secret<'activation-token'>;
  /** `wrapped`: a JWT that the secondary unwraps at the primary. `encrypted`: readable by the secondary's key only. */
  readonly form: 'wrapped' | 'encrypted';
  /** The address that issued it. */
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

/** What the filters of a secondary come to, as one side sees it. */
export const dynamicFilter = neededObject({
  mounts: ['dynamic_filtered_mounts', withDefault(texts, [])],
  namespaces: ['dynamic_filtered_namespaces', withDefault(texts, [])],
});
export type DynamicFilter = Read<typeof dynamicFilter>;

/** A page of a subtree with damage (interface section 2, facts 7): itself, or subpages of it (0 to 255). */
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

/** Result of a Merkle check of a DR secondary. `healthy`: no root, subtree root, page or subpage is corrupted. */
export type MerkleReport = ReturnType<typeof merkleReport>;

export function merkleReport(value: unknown, place: Place) {
  const report = at('merkle_corruption_report', needed(CORRUPTION))(value, place);
  const subtrees = report.subtrees.map(([id, tree]): MerkleSubtree => ({ id, ...tree }));
  const isHealthy = (tree: MerkleSubtree) => !tree.corruptedSubtreeRoot && tree.corruptedPages.length === 0;
  return { ...report, subtrees, healthy: !report.corruptedRoot && subtrees.every(isHealthy) };
}

/** Kinds of token that a generation attempt ends in. */
export type GeneratedTokenKind = 'operation-token' | 'root-token';

const ATTEMPT = object({
  started: withDefault(flag, false),
  /** Absent where no attempt runs. */
  nonce: text,
  /** Key shares accepted so far. Falls back to 0 when a full set does not combine. */
  progress: needed(number),
  /** Key shares needed. */
  required: needed(number),
  complete: needed(flag),
  /** Lower-case hex fingerprint of the PGP key that the token will be encrypted with. */
  pgpFingerprint: as(text, (fingerprint) => fingerprint.toLowerCase()),
});

/** State of the generation attempt (interface section 2; facts 5.1). */
export type GenerationAttempt<K extends GeneratedTokenKind = GeneratedTokenKind> = Read<typeof ATTEMPT> & {
  /** Given once, by the last share: encrypted with the PGP key. */
  readonly encodedToken?: Secret<K>;
};

/** The fields are flat as a rule; some versions put them under `data`. */
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
  serverTimeUtc: number,
  version: text,
  /** Identifier of the cluster itself, not of a replication set. */
  clusterId: text,
});

/** Every status of it is data: 200 active, 429 standby, 472 DR secondary, 473 performance standby, 474, 501, 503, 530. */
export type Health = Read<typeof HEALTH> & {
  readonly status: number;
  /** The address that answered. */
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
  /** On a secondary it is the primary's. */
  threshold: ['t', number],
  shares: ['n', number],
  /** Key shares are recovery keys (auto-unseal). */
  recoverySeal: flag,
});

/** What a token may do, for each path that was asked for. */
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
  /** Seconds left; 0 = no end. */
  ttlSeconds: ['ttl', number],
  creationTtlSeconds: ['creation_ttl', number],
  /** RFC3339; absent where the token has no end. */
  expireTime: text,
});
export type TokenFacts = Read<typeof tokenFacts>;

const tokenOf = <K extends 'batch-token' | 'service-token'>(kind: K) =>
  at(
    'auth',
    neededObject({
      token: ['client_token', needed(as(text, (token) => new Secret(kind, token)))],
      /** `service` or `batch`, which may not be what was asked for: the latter cannot be renewed or revoked. */
      tokenType: text,
      /** 0 = no end. */
      leaseDurationSeconds: ['lease_duration', needed(number)],
      renewable: flag,
    }),
  );
/** A token that a role made. */
export const createdToken = tokenOf('batch-token');
/** The token of a login, or one that was renewed. */
export const loginToken = tokenOf('service-token');
export type LoginToken = Read<typeof loginToken>;

/** `auth/approle/role/:role/role-id`. */
export const appRoleId = at('data', at('role_id', needed(text)));
/** `auth/approle/role/:role/secret-id`: told this once. */
export const secretId = at('data', at('secret_id', needed(as(text, (id) => new Secret('login-secret', id)))));

/** `sys/quotas/config`. What a write leaves out is reset: all that was read is written back. */
export const quotaConfig = dataObject({
  rateLimitExemptPaths: needed(texts),
  /** Not told by older versions. */
  absoluteRateLimitExemptPaths: texts,
  enableRateLimitAuditLogging: withDefault(flag, false),
  enableRateLimitResponseHeaders: withDefault(flag, false),
});
export type QuotaConfig = Read<typeof quotaConfig>;

/** The names of a list. */
export const names = data(at('keys', needed(texts)));

export const rateLimitQuota = dataObject({
  /** Absent: it limits everything that no other quota is about. */
  path: text,
  rate: number,
  /** Seconds. */
  interval: number,
  /** Absent on the community edition, and on older versions: by client address. */
  groupBy: text,
});
export type RateLimitQuota = Read<typeof rateLimitQuota>;

export const policy = data(at('policy', withDefault(text, '')));

/** By their paths, with a slash at the end, such as `file/`. `local`: not replicated to secondaries. */
const DEVICES = entries(object({ type: text, local: flag }));

/** The audit devices of `sys/audit` by mount path. Their options are not read: they may name files and hosts. */
export function auditDevices(body: unknown, place: Place) {
  return data(DEVICES)(body, place).map(([path, device]) => ({ path, ...device }));
}

/** The engine that serves a path. */
export const mount = dataObject({
  /** With a slash at its end. */
  path: needed(text),
  type: needed(text),
  /** Of a key-value engine; version 1 tells none, or no options at all. */
  options: withDefault(object({ version: text }), {}),
  /** It stays on its cluster in performance replication. */
  local: flag,
});

/** Where a key stands in a key-value engine. */
export interface KeyPlace {
  /** Mount of the engine, such as `secret`. */
  readonly mount: string;
  /** Path of the key below it. */
  readonly path: string;
  /** Version of the engine. */
  readonly version: 1 | 2;
}

/** The entries of a key that are texts. */
export function keyValueEntries(body: unknown, place: Place, { version }: KeyPlace): Readonly<Record<string, string>> {
  const entries = Object.entries(at('data', inVersion(version, needed(anyObject)))(body, place));
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

/** A version 2 engine wraps what was written once more. */
function inVersion<T>(version: 1 | 2, read: Reader<T>): Reader<T> {
  return version === 1 ? read : at('data', read);
}
