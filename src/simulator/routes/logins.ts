import { createPublicKey, verify, X509Certificate } from 'node:crypto';
import {
  badRequest,
  found,
  isJsonObject,
  NO_CONTENT,
  parseDuration,
  permissionDenied,
  ServiceFault,
} from '../messages';
import type { JsonObject, ServiceAnswer } from '../messages';
import { METHODS } from '../stored';
import type { AuthMethod, AuthRole } from '../stored';
import { writeShared } from './key-value';
import { route, type Route, type RouteCall } from './route';

const DEFAULT_TTL = '768h';

function methodAt({ cluster }: RouteCall, mount: string): AuthMethod {
  const stored = cluster.storage.read('auth-mount', `auth/${mount}`);
  if (stored === undefined) throw new ServiceFault(404, [`no handler for route "auth/${mount}/login"`]);
  return stored.method;
}

function enable(call: RouteCall): ServiceAnswer {
  const mount = call.parameter('mount');
  const method = METHODS.find((each) => each === call.required('type'));
  if (method === undefined) throw badRequest('plugin not found in the catalog');
  if (call.cluster.storage.get(`auth/${mount}`) !== undefined) throw badRequest(`path is already in use at ${mount}/`);
  writeShared(call, `auth/${mount}`, { type: 'auth-mount', method, keys: [] });
  return NO_CONTENT;
}

/** Stores the public keys that verify JWTs: `jwt_validation_pubkeys`, or `pem_keys` for Kubernetes. */
function configure(call: RouteCall): ServiceAnswer {
  const mount = call.parameter('mount');
  const keys = [...call.list('jwt_validation_pubkeys'), ...call.list('pem_keys')];
  writeShared(call, `auth/${mount}`, { type: 'auth-mount', method: methodAt(call, mount), keys });
  return NO_CONTENT;
}

function writeRole(call: RouteCall): ServiceAnswer {
  const time = (name: string) => parseDuration(call.text(name) || DEFAULT_TTL) ?? 0;
  const account = `system:serviceaccount:${call.text('bound_service_account_namespaces')}:${call.text('bound_service_account_names')}`;
  const kubernetes = methodAt(call, call.parameter('mount')) === 'kubernetes';
  const role: AuthRole = {
    policies: call.list('token_policies'),
    ttlMs: time('token_ttl'),
    maxTtlMs: time('token_max_ttl'),
    tokenType: call.text('token_type') === 'batch' ? 'batch' : 'service',
    roleId: call.cluster.random.uuid(),
    certificate: call.text('certificate'),
    subject: kubernetes ? account : call.text('bound_subject'),
    audience: call.text('bound_audiences'),
  };
  writeShared(call, `auth/${call.parameter('mount')}/role/${call.parameter('role')}`, { type: 'auth-role', role });
  return NO_CONTENT;
}

function storedRole(call: RouteCall, name: string): AuthRole | undefined {
  return call.cluster.storage.read('auth-role', `auth/${call.parameter('mount')}/role/${name}`)?.role;
}

function roleOf(call: RouteCall, name: string): AuthRole {
  const stored = storedRole(call, name);
  if (stored === undefined) throw badRequest(`role "${name}" could not be found`);
  return stored;
}

function makeSecretId(call: RouteCall): ServiceAnswer {
  const secretId = call.cluster.random.uuid();
  const role = call.parameter('role');
  if (storedRole(call, role) === undefined) throw new ServiceFault(404, [`role "${role}" does not exist`]);
  writeShared(call, `auth/${call.parameter('mount')}/secret-id/${secretId}`, { type: 'secret-id', role });
  return call.answer({ secret_id: secretId, secret_id_accessor: call.cluster.random.uuid(), secret_id_ttl: 0 });
}

function login(call: RouteCall): ServiceAnswer {
  const method = methodAt(call, call.parameter('mount'));
  const { policies, ttlMs, maxTtlMs, tokenType: type } = ROLE_OF_CALLER[method](call);
  const request = { policies, ttlMs, maxTtlMs, type, orphan: true, displayName: method, path: call.request.path };
  return call.authenticated(call.cluster.tokens.create(request, call.now));
}

/** Identifies the role of the caller for each method, or refuses the login. */
const ROLE_OF_CALLER: Readonly<Record<AuthMethod, (call: RouteCall) => AuthRole>> = {
  approle: (call) => {
    const key = `auth/${call.parameter('mount')}/secret-id/${call.required('secret_id')}`;
    const secret = call.cluster.storage.read('secret-id', key);
    const role = secret && roleOf(call, secret.role);
    if (role === undefined || role.roleId !== call.text('role_id')) throw badRequest('invalid role or secret ID');
    return role;
  },
  jwt: (call) => {
    const role = roleOf(call, call.required('role'));
    const claims = claimsOf(call);
    if (claims === undefined)
      throw badRequest('error validating token: error verifying token signature: no known key successfully validated');
    const fits = claims['sub'] === role.subject && (role.audience === '' || claims['aud'] === role.audience);
    if (!fits)
      throw badRequest('error validating claims: claim "sub" does not match any associated bound claim values');
    return role;
  },
  kubernetes: (call) => {
    const role = roleOf(call, call.required('role'));
    if (claimsOf(call)?.['sub'] !== role.subject) throw permissionDenied();
    return role;
  },
  cert: (call) => {
    const presented = call.request.certificate;
    if (presented === undefined) throw badRequest('client certificate must be supplied');
    const name = call.text('name');
    const start = `auth/${call.parameter('mount')}/role/`;
    const names = call.cluster.storage.keys(start).map((key) => key.slice(start.length));
    const roles = names.filter((each) => name === '' || each === name).map((each) => roleOf(call, each));
    const role = roles.find(({ certificate }) => new X509Certificate(certificate).fingerprint256 === presented);
    if (role === undefined) throw badRequest('invalid certificate or no client certificate supplied');
    return role;
  },
};

/** The claims of a JWT with a valid signature that has not expired; otherwise undefined. */
function claimsOf(call: RouteCall): JsonObject | undefined {
  const keys = call.cluster.storage.read('auth-mount', `auth/${call.parameter('mount')}`)?.keys ?? [];
  const [header = '', payload = '', signature = ''] = call.required('jwt').split('.');
  const signed = keys.some((pem) => {
    const key = { key: createPublicKey(pem), dsaEncoding: 'ieee-p1363' } as const;
    return verify('sha256', Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, 'base64url'));
  });
  if (!signed) return undefined;
  const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
  return isJsonObject(claims) && Number(claims['exp']) * 1_000 > call.now ? claims : undefined;
}

/** Logins and their configuration. A DR secondary serves none of these routes. */
export const LOGIN_ROUTES: readonly Route[] = [
  route('POST sys/auth/:mount', 'sudo', enable),
  route('POST auth/:mount/config', 'token', configure),
  route('POST auth/:mount/role/:role', 'token', writeRole),
  route('POST auth/:mount/certs/:role', 'token', writeRole),
  route('GET auth/:mount/role/:role/role-id', 'token', (call) =>
    call.answer({ role_id: found(storedRole(call, call.parameter('role'))).roleId }),
  ),
  route('POST auth/:mount/role/:role/secret-id', 'token', makeSecretId),
  route('POST auth/:mount/login', 'none', login),
];
