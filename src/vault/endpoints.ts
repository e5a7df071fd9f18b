import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import * as answer from './answers';
import type { GeneratedTokenKind, KeyPlace, ReplicationKind } from './answers';
import { data } from './shape';
import type { Place } from './shape';
import type { RequestBody, RequestDescription } from './types';

/*
 * The table of all calls: method, path, parameters, and answer. `ServiceClient` has a method with the same name for
 * each. Section numbers such as "4.1" refer to the interface document; "facts" refers to the list of facts about the
 * service.
 */

/** One call. `P` is the type of its parameters: a string if the only one is in its path, `void` if there are none. */
export interface Endpoint<P, T> extends Omit<RequestDescription, 'path' | 'body' | 'consume'> {
  /** Path below `/v1/`, with `:name` for a parameter. */
  readonly path: string | ((parameters: P) => string);
  readonly body?: (parameters: P) => RequestBody;
  readonly takesParameters: boolean;
  readonly consume?: (parameters: P) => NonNullable<RequestDescription['consume']>;
  /** Reads the answer. Absent if the answer has no data: the service accepted the request, and its state must be read. */
  readonly read?: (body: unknown, place: Place, parameters: P) => T;
  /** A 404 is not an error: the call returns `undefined`. */
  readonly mayBeAbsent?: boolean;
  /** The token to send in the header as well, if the call is refused without a token there. */
  readonly tokenForHeader?: (parameters: P) => Secret;
}
type Read<P, T> = Required<Endpoint<P, T>>['read'];
type More<P, T> = Partial<Omit<Endpoint<P, T>, 'path' | 'read' | 'takesParameters'>>;

function get<T>(path: string, read: Read<void, T>, more: More<void, T> = {}): Endpoint<void, T> {
  return { method: 'GET', path, effect: 'reads', takesParameters: false, read, ...more };
}

/** A read whose parameters are in its path. */
function getOne<T, P = string>(path: Endpoint<P, T>['path'], read: Read<P, T>): Endpoint<P, T> {
  return { method: 'GET', path, effect: 'reads', takesParameters: true, read };
}

/** The same as `getOne`, but returns `undefined` for a 404. */
function find<T>(path: string, read: Read<string, T>): Endpoint<string, T | undefined> {
  return { ...getOne<T | undefined>(path, read), mayBeAbsent: true };
}

/** A call without parameters that changes something and returns no data. */
function act(path: string, more: Partial<Endpoint<void, void>> = {}): Endpoint<void, void> {
  return { method: 'POST', path, effect: 'changes', takesParameters: false, ...more };
}

function change<P>(path: string, body: (parameters: P) => RequestBody, more: More<P, void> = {}): Endpoint<P, void> {
  return { method: 'POST', path, effect: 'changes', takesParameters: true, body, ...more };
}

function post<P, T>(path: string, body: (parameters: P) => RequestBody, read: Read<P, T>): Endpoint<P, T> {
  return { method: 'POST', path, effect: 'changes', takesParameters: true, body, read };
}

/** A role of an AppRole auth method. */
interface AppRolePlace {
  /** Below `auth/`, a single segment. */
  readonly mount: string;
  readonly role: string;
}

export interface JoinParameters {
  /** Overrides the API address that is embedded in the token. */
  readonly primaryApiAddr?: string;
  /** Path of a PEM file on the disk of the secondary's node. */
  readonly caFile?: string;
  /** Directory of PEM files on the disk of the secondary's node. */
  readonly caPath?: string;
}

interface UpdatePrimaryParameters extends JoinParameters {
  /**
   * `''`: the cluster stays a secondary and forgets its primary. Exactly one of `token` and `updatePrimaryAddrs` is
   * required.
   */
  readonly token?: Secret<'activation-token'> | '';
  /** Cluster addresses, tried one after the other. Not allowed on a cluster that was just demoted for DR. */
  readonly updatePrimaryAddrs?: readonly string[];
}

interface PromoteParameters {
  /** Cluster address that the primary advertises to secondaries. Default: the node's own. */
  readonly primaryClusterAddr?: string;
  /** Promotes even if safety checks fail; unreplicated data is lost. Only set if the caller sets it. */
  readonly force?: boolean;
}

/** Authorizes a call on a DR secondary: an operation token, or a batch token with the required policy. Sent in the body. */
interface OperationToken {
  readonly drOperationToken: Secret;
}

/** Required on a DR secondary. Not sent to a performance secondary, where the token in the header authorizes the call. */
type OfSecondary = Partial<OperationToken>;

/** What authorizes a call on a secondary: on a DR secondary, the operation token in the body. */
function authorizationOf(kind: ReplicationKind) {
  return ({ drOperationToken }: OfSecondary): RequestBody => {
    if (kind === 'performance') return {};
    if (drOperationToken === undefined) throw invalid('"drOperationToken" is required on a DR secondary');
    return operationToken({ drOperationToken });
  };
}

/** The calls that both kinds of replication have in common (sections 4.1 and 4.2). */
function commonEndpoints(kind: ReplicationKind) {
  const base = `sys/replication/${kind}`;
  const authorization = authorizationOf(kind);
  return {
    /** Role and state of this kind of replication. Unauthenticated. */
    status: get(`${base}/status`, data(answer.replicationStatus(kind))),
    primary: {
      /** Makes the cluster a primary. Replication of this kind must be disabled. */
      enable: change(
        `${base}/primary/enable`,
        (parameters: Pick<PromoteParameters, 'primaryClusterAddr'>) => ({
          primary_cluster_addr: parameters.primaryClusterAddr,
        }),
        { changesRoles: true },
      ),
      /** Turns the primary into a secondary that is not connected to any primary. */
      demote: act(`${base}/primary/demote`, { changesRoles: true }),
      /** Disables replication on the primary: all secondaries are permanently cut off. */
      disable: act(`${base}/primary/disable`, { changesRoles: true }),
      /**
       * Issues an activation token. Needs `sudo`. If the answer is lost, the id is in use and its token is unknown:
       * revoke the id, then ask again.
       *
       * - `id`: use the cluster ID of the secondary. Then its paths filter has the right key in either reading of the
       *   interface.
       * - `ttl`: Go duration or seconds; default 30m.
       * - `secondaryPublicKey`: the public key that the token is encrypted with.
       */
      secondaryToken: {
        ...post(
          `${base}/primary/secondary-token`,
          (parameters: { readonly id: string; readonly ttl?: string; readonly secondaryPublicKey?: string }) => ({
            id: filled('id', parameters.id),
            ttl: parameters.ttl,
            secondary_public_key: parameters.secondaryPublicKey,
          }),
          answer.activationToken,
        ),
        mayBeWrapped: true,
      },
      /** Revokes a secondary, which cuts it off at once. */
      revokeSecondary: change(`${base}/primary/revoke-secondary`, ({ id }: { readonly id: string }) => ({
        id: filled('id', id),
      })),
    },
    secondary: {
      /** Creates a key pair in the memory of the active node. Valid until the next call, a restart, or a leader change. */
      generatePublicKey: { ...act(`${base}/secondary/generate-public-key`), read: answer.secondaryPublicKey },
      /** Makes the cluster a secondary. **Deletes all of its data at once.** */
      enable: change(
        `${base}/secondary/enable`,
        ({ token, ...join }: JoinParameters & { readonly token: Secret<'activation-token'> }) => ({
          token: filledSecret('token', token),
          ...joinBody(join),
        }),
        { changesRoles: true },
      ),
      /** Makes the secondary a primary. For DR, fails with NOT_CAUGHT_UP while the secondary lags. */
      promote: change(
        `${base}/secondary/promote`,
        (parameters: PromoteParameters & OfSecondary) => ({
          ...authorization(parameters),
          primary_cluster_addr: parameters.primaryClusterAddr,
          force: parameters.force,
        }),
        { unavailableMeansBehind: kind === 'dr', changesRoles: true },
      ),
      /** Disables replication on the secondary. */
      disable: change(`${base}/secondary/disable`, authorization, { changesRoles: true }),
      /** Assigns another primary. Does not delete data. After a new token, paths filters must be created again. */
      updatePrimary: change(
        `${base}/secondary/update-primary`,
        (parameters: UpdatePrimaryParameters & OfSecondary) => ({
          ...authorization(parameters),
          ...updatePrimaryBody(parameters),
        }),
        { changesRoles: true },
      ),
    },
  };
}

/**
 * The four calls of a generation attempt (sections 3 and 4.1), for DR operation tokens and for root tokens. Both kinds
 * share one slot. Since version 2.0 of the service these calls need a token.
 */
export function generationEndpoints<K extends GeneratedTokenKind>(base: string, kind: K) {
  const read = answer.generationAttempt(kind);
  return {
    /** Reads the progress of the active node's only attempt. */
    readAttempt: get(`${base}/attempt`, read),
    /** Fails with BAD_REQUEST if an attempt exists. With a sign-only `pgpKey`, the token is lost at the last share. */
    startAttempt: post(`${base}/attempt`, ({ pgpKey }: { readonly pgpKey?: string }) => ({ pgp_key: pgpKey }), read),
    /** Cancels the attempt. Succeeds even if there is none. */
    cancelAttempt: act(`${base}/attempt`, { method: 'DELETE' }),
    /** Provides one key share. If the answer to the last share is lost, a token exists that nobody knows. */
    update: post(
      `${base}/update`,
      ({ key, nonce }: { readonly key: Secret; readonly nonce: string }) => ({
        nonce: filled('nonce', nonce),
        key: filledSecret('key', key),
      }),
      read,
    ),
  };
}

function drEndpoints() {
  const base = 'sys/replication/dr/secondary';
  const common = commonEndpoints('dr');
  return {
    ...common,
    secondary: {
      ...common.secondary,
      generateOperationToken: generationEndpoints(`${base}/generate-operation-token`, 'operation-token'),
      /** Deletes the given operation token. */
      deleteOperationToken: change(`${base}/operation-token/delete`, operationToken),
      /**
       * Starts a reindex in the background. `skipFlush` holds the lock for less time, but a node that is killed before
       * the flush loses the result.
       */
      reindex: change(
        `${base}/reindex`,
        (
          parameters: OperationToken & {
            readonly diff?: boolean;
            readonly force?: boolean;
            readonly skipFlush?: boolean;
          },
        ) => ({
          ...operationToken(parameters),
          diff: parameters.diff,
          force: parameters.force,
          skip_flush: parameters.skipFlush,
        }),
      ),
      /**
       * Checks the Merkle tree; slow on large stores. The route table of the service contradicts its documentation on
       * whether the token must also be in the header.
       */
      merkleCheck: {
        ...post(`${base}/merkle-check`, operationToken, data(answer.merkleReport)),
        longAnswer: true,
        effect: 'reads',
        tokenForHeader: ({ drOperationToken }: OperationToken) => drOperationToken,
      } as const,
    },
  };
}

function performanceEndpoints() {
  const base = 'sys/replication/performance';
  const common = commonEndpoints('performance');
  /** The filter of a secondary as the primary or the secondary sees it; `undefined` if there is none. */
  const dynamicFilter = (side: string) => ({
    ...find(`${base}/${side}/dynamic-filter/:id`, data(answer.dynamicFilter)),
    longAnswer: true,
  });
  const pathsFilter = `${base}/primary/paths-filter/:id`;
  return {
    ...common,
    primary: {
      ...common.primary,
      /** The paths filter of one secondary (section 4.2); `id` is the cluster ID of the secondary. */
      pathsFilter: {
        read: { ...find(pathsFilter, data(answer.pathsFilter)), longAnswer: true },
        /** Replaces the complete filter. The interface defaults to `allow` with no paths. */
        write: change(pathsFilter, ({ mode, paths }: { readonly id: string } & Partial<answer.PathsFilter>) => ({
          mode,
          paths,
        })),
        delete: change<string>(pathsFilter, () => ({}), { method: 'DELETE' }),
      },
      dynamicFilter: dynamicFilter('primary'),
    },
    secondary: { ...common.secondary, dynamicFilter: dynamicFilter('secondary') },
  };
}

/** Status codes of `sys/health` that describe the node and are not errors. */
const HEALTH_STATUSES: ReadonlySet<number> = new Set([200, 429, 472, 473, 474, 501, 503, 530]);
/** Not initialized, sealed, or removed: the node cannot report anything about its cluster. */
const NODE_STATUSES: ReadonlySet<number> = new Set([501, 503, 530]);

/** The reads and the few other calls that runbooks need outside the replication interface (facts 1.5 to 1.7, 5.7). */
const SYS = {
  generateRoot: generationEndpoints('sys/generate-root', 'root-token'),
  /** State of a node. Unauthenticated. A sealed or standby node is an answer, not an error. */
  health: get('sys/health', answer.health, {
    anyNode: true,
    dataStatuses: HEALTH_STATUSES,
    nodeStatuses: NODE_STATUSES,
  }),
  /** Which node is active, according to the node that answers. Unauthenticated. */
  leader: get('sys/leader', answer.leader, { anyNode: true }),
  /** Seal state of a node. Unauthenticated. Sealed nodes answer too. */
  sealStatus: get('sys/seal-status', answer.sealStatus, { anyNode: true }),
  /** Status of both kinds of replication. Unauthenticated. */
  replicationStatus: get('sys/replication/status', data(answer.bothStatuses)),
  /** The enabled audit devices. Needs `sudo`. */
  auditDevices: get('sys/audit', answer.auditDevices),
  /** What autopilot says of the nodes of the Raft storage. Other storages do not have the path. */
  autopilotState: get('sys/storage/raft/autopilot/state', answer.autopilotState),
  /** License status; the answer is not read. A DR secondary answers only with an operation token. */
  licenseStatus: act('sys/license/status', { method: 'GET', effect: 'reads' }),
  /**
   * The engine that serves a path such as `kv/runbooks-marker`. Fails with PERMISSION_DENIED if there is none or the
   * token has no rights below it.
   */
  mountOf: getOne((path) => `sys/internal/ui/mounts/${keyPath(path)}`, answer.mount),
  /**
   * A snapshot of the Raft storage: a gzipped tar archive, streamed to the parameter. The service may end it early with
   * status 200: verify it against the list of checksums in it. Set `node` to the active node, so that no other is
   * tried.
   */
  raftSnapshot: change<NonNullable<RequestDescription['consume']>>('sys/storage/raft/snapshot', () => ({}), {
    ...{ method: 'GET', effect: 'reads' },
    consume: (take) => take,
  }),
  /** The capabilities of the call's token on each path, such as `['update', 'sudo']`. */
  capabilitiesSelf: {
    ...post(
      'sys/capabilities-self',
      (paths: readonly string[]) => {
        if (paths.length === 0) throw invalid('"paths" must not be empty');
        return { paths };
      },
      answer.capabilities,
    ),
    effect: 'reads',
  } as const,
  /** Properties of the call's token. */
  lookupSelf: get('auth/token/lookup-self', answer.tokenFacts),
  /** Logs in with the auth method at a mount; `body` has the members that the method needs. Not on a DR secondary. */
  login: {
    ...post('', ({ body }: { readonly mount: string; readonly body: RequestBody }) => body, answer.loginToken),
    path: ({ mount }: { readonly mount: string }) => `auth/${keyPath(`${mount}/login`)}`,
  },
  /** Renews the call's token, never beyond its maximum TTL. */
  renewSelf: { ...act('auth/token/renew-self'), read: answer.loginToken },
  /** Revokes the call's token. A batch token cannot be revoked. */
  revokeSelf: act('auth/token/revoke-self'),
  /** Creates a token with a token role (facts 5.7). `ttl`: Go duration. Check `tokenType` in the answer. */
  createBatchToken: post(
    'auth/token/create/:role',
    ({ ttl, policies }: { readonly role: string; readonly ttl?: string; readonly policies?: readonly string[] }) => ({
      type: 'batch',
      ttl,
      policies,
    }),
    answer.createdToken,
  ),
  /** The paths that are exempt from rate-limit quotas (facts 12.3), and other settings of quotas. */
  quotaConfig: get('sys/quotas/config', answer.quotaConfig),
  /** Replaces the complete configuration. Without `sys/quotas` as an exempt path, a quota on everything cannot be removed. */
  writeQuotaConfig: change('sys/quotas/config', (config: answer.QuotaConfig) => ({
    rate_limit_exempt_paths: config.rateLimitExemptPaths,
    absolute_rate_limit_exempt_paths: config.absoluteRateLimitExemptPaths,
    enable_rate_limit_audit_logging: config.enableRateLimitAuditLogging,
    enable_rate_limit_response_headers: config.enableRateLimitResponseHeaders,
  })),
  /** The names of all rate-limit quotas; `undefined` if there are none. */
  rateLimitQuotas: {
    ...get<readonly string[] | undefined>('sys/quotas/rate-limit?list=true', answer.names),
    mayBeAbsent: true,
  },
  rateLimitQuota: find('sys/quotas/rate-limit/:name', answer.rateLimitQuota),
  /** Limits all paths that are not exempt. `interval`: Go duration. `groupBy: 'none'` (Enterprise): one bucket for all clients. */
  createRateLimitQuota: change(
    'sys/quotas/rate-limit/:name',
    ({
      rate,
      interval,
      groupBy,
    }: {
      readonly name: string;
      readonly rate: number;
      readonly interval: string;
      readonly groupBy?: 'ip' | 'none';
    }) => ({ rate, interval, group_by: groupBy }),
  ),
  deleteRateLimitQuota: change<string>('sys/quotas/rate-limit/:name', () => ({}), { method: 'DELETE' }),
  /** Sets up the AppRole that workers log in with: the auth method at a mount, the role, and its secret ID. */
  appRole: {
    enable: change<Pick<AppRolePlace, 'mount'>>('sys/auth/:mount', () => ({ type: 'approle' })),
    write: change(
      'auth/:mount/role/:role',
      ({ policies }: AppRolePlace & { readonly policies: readonly string[] }) => ({
        token_policies: policies,
        token_ttl: '1h',
        token_max_ttl: '24h',
      }),
    ),
    roleId: getOne<string, AppRolePlace>('auth/:mount/role/:role/role-id', answer.appRoleId),
    makeSecretId: post('auth/:mount/role/:role/secret-id', (_: AppRolePlace) => ({}), answer.secretId),
  },
  /** The text of an ACL policy, in HCL; `undefined` if there is none. */
  policy: find('sys/policies/acl/:name', answer.policy),
  writePolicy: change('sys/policies/acl/:name', ({ policy }: { readonly name: string; readonly policy: string }) => ({
    policy,
  })),
};

const READ_KEY: Endpoint<KeyPlace, Readonly<Record<string, string>> | undefined> = {
  ...{ method: 'GET', path: apiPathOf, effect: 'reads', takesParameters: true, mayBeAbsent: true },
  read: answer.keyValueEntries,
};

/** Values in key-value engines. `sys.mountOf` returns the mount and version. */
const KEY_VALUE = {
  /** Reads the entries of a key; `undefined` if the key does not exist. */
  read: READ_KEY,
  /** Replaces the entries of a key. */
  write: {
    ...change('', ({ version, data: entries }: KeyPlace & { readonly data: Readonly<Record<string, string>> }) =>
      version === 1 ? entries : { data: entries },
    ),
    path: apiPathOf,
  },
};

/** All calls, in the order of the interface document. */
export const ENDPOINTS = { dr: drEndpoints(), performance: performanceEndpoints(), sys: SYS, keyValue: KEY_VALUE };

/** The path of a call with its percent-encoded parameters. */
export function pathOf<P>({ path }: Endpoint<P, unknown>, parameters: P): string {
  if (typeof path === 'function') return path(parameters);
  return path.replace(/:(\w+)/g, (_all, name: string) => {
    const value =
      typeof parameters === 'object' ? Object.entries(parameters ?? {}).find(([key]) => key === name)?.[1] : parameters;
    return segment(name, value);
  });
}

function keyPath(path: string): string {
  const segments = path.split('/');
  if (segments.length < 2) throw invalid('"path" must have a mount and a key');
  return segments.map((part) => segment('path', part)).join('/');
}

/** The API path of a key, as policies name it. */
export function apiPathOf({ mount, path, version }: KeyPlace): string {
  return keyPath(version === 1 ? `${mount}/${path}` : `${mount}/data/${path}`);
}

function segment(name: string, value: unknown): string {
  const text = filled(name, value);
  if (text === '.' || text === '..') throw invalid(`"${name}" must not be "." or ".."`);
  return encodeURIComponent(text);
}

function operationToken({ drOperationToken }: OperationToken): RequestBody {
  return { dr_operation_token: filledSecret('drOperationToken', drOperationToken) };
}

function updatePrimaryBody({ token, updatePrimaryAddrs, ...join }: UpdatePrimaryParameters): RequestBody {
  if (token !== undefined && updatePrimaryAddrs !== undefined)
    throw invalid('"token" and "updatePrimaryAddrs" are mutually exclusive');
  if (token === undefined && (updatePrimaryAddrs === undefined || updatePrimaryAddrs.length === 0))
    throw invalid('either "token" or "updatePrimaryAddrs" is required');
  if (token !== undefined && token !== '' && token.reveal() === '')
    throw invalid('"token" must not be an empty secret; pass an empty string to forget the primary');
  return { token, update_primary_addrs: updatePrimaryAddrs, ...joinBody(join) };
}

function joinBody({ primaryApiAddr, caFile, caPath }: JoinParameters): RequestBody {
  return { primary_api_addr: primaryApiAddr, ca_file: caFile, ca_path: caPath };
}

function filled(name: string, value: unknown): string {
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw invalid(`"${name}" is required and must not be empty`);
}

function filledSecret<S extends Secret>(name: string, secret: S): S {
  filled(name, secret.reveal());
  return secret;
}

function invalid(message: string): RunbookError {
  return new RunbookError('INVALID_INPUT', message);
}
