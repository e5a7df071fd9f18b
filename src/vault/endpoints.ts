import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import * as answer from './answers';
import type { GeneratedTokenKind, KeyPlace, ReplicationKind } from './answers';
import { data } from './shape';
import type { Place } from './shape';
import type { HttpMethod, RequestBody, RequestDescription } from './types';

/*
 * The table of all calls: method, path, parameters, answer. `ServiceClient` has a method for each, under the same name.
 * Section numbers are those of the interface document.
 */

/** One call. `P`: its parameters, a text where there is only the one in its path; `void` for none. */
export interface Endpoint<P, T> extends Omit<RequestDescription, 'path' | 'body' | 'consume'> {
  /** Below `/v1/`, with `:name` for a parameter. */
  readonly path: string | ((parameters: P) => string);
  readonly body?: (parameters: P) => RequestBody;
  readonly takesParameters: boolean;
  readonly consume?: (parameters: P) => NonNullable<RequestDescription['consume']>;
  /** What the answer says; absent where it says nothing: the service took the request, and its state is to be read. */
  readonly read?: (body: unknown, place: Place, parameters: P) => T;
  /** Where this is no error but an answer: 404 is `undefined`. */
  readonly mayBeAbsent?: boolean;
  /** Sent in the header too where the call is refused without a token there. */
  readonly tokenForHeader?: (parameters: P) => Secret;
}
type Read<P, T> = Required<Endpoint<P, T>>['read'];
type More<P, T> = Partial<Omit<Endpoint<P, T>, 'method' | 'path' | 'read' | 'takesParameters'>>;

function endpoint<P, T>(description: Endpoint<P, T>): Endpoint<P, T> {
  return description;
}

function get<T>(path: string, read: Read<void, T>, more: More<void, T> = {}): Endpoint<void, T> {
  return { method: 'GET', path, effect: 'reads', takesParameters: false, read, ...more };
}

/** Its parameter is the one in its path. */
function getOne<T>(path: string, read: Read<string, T>): Endpoint<string, T> {
  return { method: 'GET', path, effect: 'reads', takesParameters: true, read };
}

/** The same; `undefined` where there is none. */
function find<T>(path: string, read: Read<string, T>): Endpoint<string, T | undefined> {
  return { ...getOne<T | undefined>(path, read), mayBeAbsent: true };
}

/** A call without parameters that changes something and has no data to return. */
function act(path: string, more: { readonly method?: HttpMethod; readonly changesRoles?: boolean } = {}) {
  return endpoint<void, void>({ method: 'POST', path, effect: 'changes', takesParameters: false, ...more });
}

function change<P>(path: string, body: (parameters: P) => RequestBody, more: More<P, void> = {}): Endpoint<P, void> {
  return { method: 'POST', path, effect: 'changes', takesParameters: true, body, ...more };
}

function post<P, T>(path: string, body: (parameters: P) => RequestBody, read: Read<P, T>): Endpoint<P, T> {
  return { method: 'POST', path, effect: 'changes', takesParameters: true, body, read };
}

export interface JoinParameters {
  /** Overrides the API address that is embedded in the token. */
  readonly primaryApiAddr?: string;
  /** PEM file on the disk of the secondary's node. */
  readonly caFile?: string;
  /** Directory of PEM files on the disk of the secondary's node. */
  readonly caPath?: string;
}

interface UpdatePrimaryParameters extends JoinParameters {
  /** `''` makes the cluster stay a secondary and forget any past primary. Exactly one of this and the addresses. */
  readonly token?: Secret<'activation-token'> | '';
  /** Cluster addresses, tried one at a time. Not allowed on a cluster that was just demoted for DR. */
  readonly updatePrimaryAddrs?: readonly string[];
}

interface PromoteParameters {
  /** Cluster address that the primary gives to secondaries. Absent: the node's own. */
  readonly primaryClusterAddr?: string;
  /** Promote even if safety checks fail: unreplicated data is lost. Never set on a caller's behalf. */
  readonly force?: boolean;
}

/** Authorises a call on a DR secondary: an operation token or a batch token with the right policy. Sent in the body. */
interface OperationToken {
  readonly drOperationToken: Secret;
}

/** Needed on a DR secondary; a performance secondary is authorised by the header, and is sent none. */
type OfSecondary = Partial<OperationToken>;

/** The calls that both kinds of replication have in the same shape (4.1, 4.2). */
function commonEndpoints(kind: ReplicationKind) {
  const base = `sys/replication/${kind}`;
  const authorisation = ({ drOperationToken }: OfSecondary): RequestBody => {
    if (kind === 'performance') return {};
    if (drOperationToken === undefined) throw invalid('"drOperationToken" is required on a DR secondary');
    return operationToken({ drOperationToken });
  };
  return {
    /** Unauthenticated. */
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
      /** Makes the primary an unconnected secondary. */
      demote: act(`${base}/primary/demote`, { changesRoles: true }),
      /** Ends replication here: all secondaries are cut off for good. */
      disable: act(`${base}/primary/disable`, { changesRoles: true }),
      /**
       * Issues an activation token. Needs `sudo`. Where the answer is lost, the id is taken and its token is unknown:
       * revoke the id, then ask again. `id`: use the secondary's cluster ID, so that paths filters fit either reading of
       * their key. `ttl`: Go duration or seconds, 30m where absent. `secondaryPublicKey`: the answer is encrypted for it.
       */
      secondaryToken: post(
        `${base}/primary/secondary-token`,
        (parameters: { readonly id: string; readonly ttl?: string; readonly secondaryPublicKey?: string }) => ({
          id: filled('id', parameters.id),
          ttl: parameters.ttl,
          secondary_public_key: parameters.secondaryPublicKey,
        }),
        answer.activationToken,
      ),
      /** Cuts a secondary off at once. */
      revokeSecondary: change(`${base}/primary/revoke-secondary`, ({ id }: { readonly id: string }) => ({
        id: filled('id', id),
      })),
    },
    secondary: {
      /** A new key pair in the memory of the active node: valid until the next call, a restart or a leader change. */
      generatePublicKey: { ...act(`${base}/secondary/generate-public-key`), read: answer.secondaryPublicKey },
      /** Makes the cluster a secondary. **All of its data is cleared at once.** */
      enable: change(
        `${base}/secondary/enable`,
        ({ token, ...join }: JoinParameters & { readonly token: Secret<'activation-token'> }) => ({
          token: filledSecret('token', token),
          ...joinBody(join),
        }),
        { changesRoles: true },
      ),
      /** Makes the secondary a primary. For DR: NOT_CAUGHT_UP while it lags. */
      promote: change(
        `${base}/secondary/promote`,
        (parameters: PromoteParameters & OfSecondary) => ({
          ...authorisation(parameters),
          primary_cluster_addr: parameters.primaryClusterAddr,
          force: parameters.force,
        }),
        { unavailableMeansBehind: kind === 'dr', changesRoles: true },
      ),
      /** Ends replication on the secondary. */
      disable: change(`${base}/secondary/disable`, authorisation, { changesRoles: true }),
      /** Assigns another primary. No data is wiped; paths filters must be created again after a new token. */
      updatePrimary: change(
        `${base}/secondary/update-primary`,
        (parameters: UpdatePrimaryParameters & OfSecondary) => ({
          ...authorisation(parameters),
          ...updatePrimaryBody(parameters),
        }),
        { changesRoles: true },
      ),
    },
  };
}

/**
 * The four calls of a generation attempt (sections 3 and 4.1), for DR operation tokens and for root tokens: they share
 * one slot. From version 2.0 of the service on they need a token.
 */
export function generationEndpoints<K extends GeneratedTokenKind>(base: string, kind: K) {
  const read = answer.generationAttempt(kind);
  return {
    /** Progress of the single attempt of the active node. */
    readAttempt: get(`${base}/attempt`, read),
    /** BAD_REQUEST where an attempt exists already. A sign-only `pgpKey` loses the token at the last share. */
    startAttempt: post(`${base}/attempt`, ({ pgpKey }: { readonly pgpKey?: string }) => ({ pgp_key: pgpKey }), read),
    /** Succeeds whether or not there is one. */
    cancelAttempt: act(`${base}/attempt`, { method: 'DELETE' }),
    /** Gives one key share. Where the answer to the last share is lost, a token exists that nobody knows. */
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
      /** Deletes the operation token that is given. */
      deleteOperationToken: change(`${base}/operation-token/delete`, operationToken),
      /** Starts a reindex in the background. `skipFlush`: shorter lock, but a node killed before the flush loses it. */
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
       * Takes long on large stores. The service's own route table disagrees with its documentation on whether the token
       * must be in the header too.
       */
      merkleCheck: {
        ...post(`${base}/merkle-check`, operationToken, data(answer.merkleReport)),
        effect: 'reads',
        tokenForHeader: ({ drOperationToken }: OperationToken) => drOperationToken,
      } as const,
    },
  };
}

function performanceEndpoints() {
  const base = 'sys/replication/performance';
  const common = commonEndpoints('performance');
  /** The filter of a secondary as one side sees it; `undefined` where there is none. */
  const dynamicFilter = (side: string) => find(`${base}/${side}/dynamic-filter/:id`, data(answer.dynamicFilter));
  const pathsFilter = `${base}/primary/paths-filter/:id`;
  return {
    ...common,
    primary: {
      ...common.primary,
      /** The paths filter of one secondary; `id` is its cluster ID. */
      pathsFilter: {
        read: find(pathsFilter, data(answer.pathsFilter)),
        /** Replaces the whole filter. Defaults of the interface: `allow`, no paths. */
        write: change(pathsFilter, ({ mode, paths }: { readonly id: string } & Partial<answer.PathsFilter>) => ({
          mode,
          paths,
        })),
        delete: { ...change<string>(pathsFilter, () => ({})), method: 'DELETE' } as const,
      },
      dynamicFilter: dynamicFilter('primary'),
    },
    secondary: { ...common.secondary, dynamicFilter: dynamicFilter('secondary') },
  };
}

/** Statuses of `sys/health` that describe the node instead of failing the read. */
const HEALTH_STATUSES: ReadonlySet<number> = new Set([200, 429, 472, 473, 474, 501, 503, 530]);
/** Not initialised, sealed, or removed: nothing that the node could say of its cluster. */
const NODE_STATUSES: ReadonlySet<number> = new Set([501, 503, 530]);

/** The reads and the few calls outside of the replication interface that runbooks need (facts 1.5 to 1.7, 5.7). */
const SYS = {
  generateRoot: generationEndpoints('sys/generate-root', 'root-token'),
  /** State of a node. Unauthenticated; a sealed or standing-by node is an answer, not an error. */
  health: get('sys/health', answer.health, {
    anyNode: true,
    dataStatuses: HEALTH_STATUSES,
    nodeStatuses: NODE_STATUSES,
  }),
  /** Who a node holds to be active. Unauthenticated. */
  leader: get('sys/leader', answer.leader, { anyNode: true }),
  /** Unauthenticated; answers on sealed nodes too. */
  sealStatus: get('sys/seal-status', answer.sealStatus, { anyNode: true }),
  /** Both kinds of replication at once. Unauthenticated. */
  replicationStatus: get('sys/replication/status', data(answer.bothStatuses)),
  /** Needs `sudo`. */
  auditDevices: get('sys/audit', answer.auditDevices),
  /** A DR secondary answers with an operation token only. */
  licenseStatus: endpoint<void, void>({
    ...{ method: 'GET', path: 'sys/license/status', effect: 'reads', takesParameters: false },
  }),
  /**
   * The engine that serves a path such as `kv/runbooks-marker`. PERMISSION_DENIED where there is none, and where the token
   * may do nothing below it.
   */
  mountOf: {
    ...getOne('', answer.mount),
    path: (path: string) => `sys/internal/ui/mounts/${keyPath(path)}`,
  },
  /**
   * A snapshot of the raft storage: a gzip'd tar, given to the parameter as it arrives. The service may end it early with
   * status 200: hold it against its own list of sums. Name the active node; no other one is tried then.
   */
  raftSnapshot: endpoint<NonNullable<RequestDescription['consume']>, void>({
    ...{ method: 'GET', path: 'sys/storage/raft/snapshot', effect: 'reads', takesParameters: true },
    consume: (take) => take,
  }),
  /** What the token of the call may do on each path, e.g. `['update', 'sudo']`. */
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
  /** Facts of the token of the call. */
  lookupSelf: get('auth/token/lookup-self', answer.tokenFacts),
  /** A login by the auth method at a mount, with the members that this method takes. A DR secondary serves none. */
  login: {
    ...post('', ({ body }: { readonly mount: string; readonly body: RequestBody }) => body, answer.loginToken),
    path: ({ mount }: { readonly mount: string }) => `auth/${keyPath(`${mount}/login`)}`,
  },
  /** Lengthens the life of the token of the call, never beyond its longest. */
  renewSelf: { ...act('auth/token/renew-self'), read: answer.loginToken },
  /** Ends the token of the call. A batch token cannot be ended. */
  revokeSelf: act('auth/token/revoke-self'),
  /** Makes a token by a token role (facts 5.7). `ttl`: Go duration. Check `tokenType` of the answer. */
  createBatchToken: post(
    'auth/token/create/:role',
    ({ ttl, policies }: { readonly role: string; readonly ttl?: string; readonly policies?: readonly string[] }) => ({
      type: 'batch',
      ttl,
      policies,
    }),
    answer.createdToken,
  ),
  /** What no rate-limit quota limits (facts 12.3), and how they answer. */
  quotaConfig: get('sys/quotas/config', answer.quotaConfig),
  /** Replaces all of it: without `sys/quotas` among the exempt paths no quota that limits everything can be removed. */
  writeQuotaConfig: change('sys/quotas/config', (config: answer.QuotaConfig) => ({
    rate_limit_exempt_paths: config.rateLimitExemptPaths,
    absolute_rate_limit_exempt_paths: config.absoluteRateLimitExemptPaths,
    enable_rate_limit_audit_logging: config.enableRateLimitAuditLogging,
    enable_rate_limit_response_headers: config.enableRateLimitResponseHeaders,
  })),
  /** The names of all rate-limit quotas; `undefined` where there is none. */
  rateLimitQuotas: {
    ...get<readonly string[] | undefined>('sys/quotas/rate-limit?list=true', answer.names),
    mayBeAbsent: true,
  },
  rateLimitQuota: find('sys/quotas/rate-limit/:name', answer.rateLimitQuota),
  /** Limits every path that is not exempt. `interval`: Go duration. `groupBy: 'none'`, on Enterprise: one bucket for all. */
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
  deleteRateLimitQuota: { ...change<string>('sys/quotas/rate-limit/:name', () => ({})), method: 'DELETE' } as const,
  /** An AppRole, made by people once: its method at the usual mount, the role, and what a worker logs in with. */
  appRole: {
    enable: change('sys/auth/approle', () => ({ type: 'approle' })),
    write: change(
      'auth/approle/role/:role',
      ({ policies }: { readonly role: string; readonly policies: readonly string[] }) => ({
        token_policies: policies,
        token_ttl: '1h',
        token_max_ttl: '24h',
      }),
    ),
    roleId: getOne('auth/approle/role/:role/role-id', answer.appRoleId),
    makeSecretId: post('auth/approle/role/:role/secret-id', (_: { readonly role: string }) => ({}), answer.secretId),
  },
  /** The text of an ACL policy, in HCL. */
  policy: find('sys/policies/acl/:name', answer.policy),
  writePolicy: change('sys/policies/acl/:name', ({ policy }: { readonly name: string; readonly policy: string }) => ({
    policy,
  })),
};

const READ_KEY: Endpoint<KeyPlace, Readonly<Record<string, string>> | undefined> = {
  ...{ method: 'GET', path: apiPathOf, effect: 'reads', takesParameters: true, mayBeAbsent: true },
  read: answer.keyValueEntries,
};

/** Values of key-value engines. Mount and version are those that `sys.mountOf` tells. */
const KEY_VALUE = {
  /** The entries of a key; `undefined` where it does not exist. */
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

/** The path of a call with its parameters in it, percent-encoded. */
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
  if (segments.length < 2) throw invalid('"path" must be a mount and a key');
  return segments.map((part) => segment('path', part)).join('/');
}

/** The path under which the interface serves a key: what policies name. */
export function apiPathOf({ mount, path, version }: KeyPlace): string {
  return keyPath(version === 1 ? `${mount}/${path}` : `${mount}/data/${path}`);
}

function segment(name: string, value: unknown): string {
  const text = filled(name, value);
  if (text === '.' || text === '..') throw invalid(`"${name}" must be more than dots`);
  return encodeURIComponent(text);
}

function operationToken({ drOperationToken }: OperationToken): RequestBody {
  return { dr_operation_token: filledSecret('drOperationToken', drOperationToken) };
}

function updatePrimaryBody({ token, updatePrimaryAddrs, ...join }: UpdatePrimaryParameters): RequestBody {
  if (token !== undefined && updatePrimaryAddrs !== undefined)
    throw invalid('"token" and "updatePrimaryAddrs" exclude each other');
  if (token === undefined && (updatePrimaryAddrs === undefined || updatePrimaryAddrs.length === 0))
    throw invalid('one of "token" and "updatePrimaryAddrs" is required');
  if (token !== undefined && token !== '' && token.reveal() === '')
    throw invalid('an empty secret as "token": pass an empty string to forget the primary');
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
