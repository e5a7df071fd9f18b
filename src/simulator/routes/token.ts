import { parseDuration } from '../duration';
import {
  badRequest,
  booleanField,
  envelope,
  listField,
  NO_CONTENT,
  permissionDenied,
  textField,
  type ServiceAnswer,
} from '../messages';
import { ServiceFault } from '../service-fault';
import type { Identity, TokenRequest, TokenRole } from '../tokens';
import { writeShared } from './key-value';
import { route, type Route, type RouteCall } from './route';

const DEFAULT_TTL = '768h';

function requireIdentity(call: RouteCall): Identity {
  if (call.identity === undefined) throw permissionDenied();
  return call.identity;
}

function tokenType(text: string, fallback: 'service' | 'batch'): 'service' | 'batch' {
  return text === 'batch' || text === 'service' ? text : fallback;
}

function create(call: RouteCall, role: TokenRole | undefined): ServiceAnswer {
  const identity = requireIdentity(call);
  const { body } = call.request;
  const asked = listField(body, 'policies');
  const allowed = role?.allowedPolicies ?? [];
  const policies = asked.length > 0 ? asked : role === undefined ? identity.policies : allowed;
  const root = identity.policies.includes('root');
  const exceeded = policies.some((name) =>
    role === undefined ? !root && !identity.policies.includes(name) : !allowed.includes(name),
  );
  if (exceeded && !(role === undefined && root)) throw badRequest('child policies must be subset of parent');
  const ttlMs = parseDuration(textField(body, 'ttl') || DEFAULT_TTL);
  if (ttlMs === undefined) throw badRequest('error converting input for field "ttl": time: invalid duration');
  const type = role?.tokenType ?? tokenType(textField(body, 'type'), 'service');
  const noParent = booleanField(body, 'no_parent');
  if (noParent && !root) throw badRequest('root or sudo privileges required to create orphan token');
  const request: TokenRequest = {
    policies,
    type,
    orphan: role?.orphan ?? noParent,
    renewable: type === 'service' && (role?.renewable ?? body['renewable'] !== false),
    ttlMs: policies.includes('root') && body['ttl'] === undefined ? null : ttlMs,
    displayName: `token${textField(body, 'display_name') === '' ? '' : `-${textField(body, 'display_name')}`}`,
    path: call.request.path,
  };
  const made = call.cluster.tokens.create(request, call.now);
  return envelope(call.requestId, null, {
    auth: {
      client_token: made.token,
      accessor: made.accessor,
      policies: [...policies],
      token_policies: [...policies],
      metadata: null,
      lease_duration: request.ttlMs === null ? 0 : Math.round(request.ttlMs / 1_000),
      renewable: request.renewable ?? false,
      entity_id: '',
      token_type: type,
      orphan: request.orphan,
      mfa_requirement: null,
      num_uses: 0,
    },
  });
}

function createWithRole(call: RouteCall): ServiceAnswer {
  const name = call.parameters['role'] ?? '';
  const stored = call.cluster.storage.get(`token-role/${name}`);
  if (stored?.type !== 'token-role') throw badRequest(`unknown role ${name}`);
  return create(call, stored.role);
}

function writeRole(call: RouteCall): ServiceAnswer {
  const { body } = call.request;
  const role: TokenRole = {
    allowedPolicies: listField(body, 'allowed_policies'),
    orphan: booleanField(body, 'orphan'),
    renewable: body['renewable'] === undefined || booleanField(body, 'renewable'),
    tokenType: tokenType(textField(body, 'token_type'), 'service'),
  };
  if (role.tokenType === 'batch') {
    refuseForBatch(!role.orphan, 'non-orphan tokens');
    refuseForBatch(textField(body, 'token_period') !== '', 'periodic tokens');
    refuseForBatch(role.renewable, 'renewable tokens');
    refuseForBatch(textField(body, 'token_explicit_max_ttl') !== '', 'tokens with an explicit max TTL');
  }
  writeShared(call.cluster, `token-role/${call.parameters['role'] ?? ''}`, { type: 'token-role', role }, call.now);
  return NO_CONTENT;
}

function refuseForBatch(wanted: boolean, what: string): void {
  if (wanted) throw badRequest(`'token_type' cannot be 'batch' when role is set to generate ${what}`);
}

function readRole(call: RouteCall): ServiceAnswer {
  const name = call.parameters['role'] ?? '';
  const stored = call.cluster.storage.get(`token-role/${name}`);
  if (stored?.type !== 'token-role') throw new ServiceFault(404, []);
  const { allowedPolicies, orphan, renewable, tokenType: type } = stored.role;
  return envelope(call.requestId, {
    name,
    allowed_policies: [...allowedPolicies],
    allowed_policies_glob: [],
    disallowed_policies: [],
    disallowed_policies_glob: [],
    orphan,
    path_suffix: '',
    renewable,
    token_explicit_max_ttl: 0,
    token_no_default_policy: false,
    token_period: 0,
    token_type: type === 'batch' ? 'batch' : 'default-service',
  });
}

function deleteRole(call: RouteCall): ServiceAnswer {
  writeShared(call.cluster, `token-role/${call.parameters['role'] ?? ''}`, null, call.now);
  return NO_CONTENT;
}

function lookupSelf(call: RouteCall): ServiceAnswer {
  const identity = requireIdentity(call);
  const ttl = identity.expiresAt === null ? 0 : Math.max(0, Math.round((identity.expiresAt - call.now) / 1_000));
  return envelope(call.requestId, {
    id: call.request.token ?? '',
    accessor: identity.accessor,
    policies: [...identity.policies],
    type: identity.type === 'batch' ? 'batch' : 'service',
    orphan: identity.orphan,
    path: identity.path,
    display_name: identity.displayName,
    creation_time: Math.floor(identity.createdAt / 1_000),
    creation_ttl: identity.expiresAt === null ? 0 : Math.round((identity.expiresAt - identity.createdAt) / 1_000),
    expire_time: identity.expiresAt === null ? null : new Date(identity.expiresAt).toISOString(),
    issue_time: new Date(identity.createdAt).toISOString(),
    ttl,
    renewable: identity.renewable,
    num_uses: 0,
    meta: null,
    entity_id: '',
    explicit_max_ttl: 0,
  });
}

function revokeSelf(call: RouteCall): ServiceAnswer {
  if (requireIdentity(call).type === 'batch') throw badRequest('batch tokens cannot be revoked');
  call.cluster.tokens.revoke(call.request.token ?? '', call.now);
  return NO_CONTENT;
}

/** Tokens and their roles. */
export const TOKEN_ROUTES: readonly Route[] = [
  route('POST auth/token/create', 'token', (call) => create(call, undefined)),
  route('POST auth/token/create/:role', 'token', createWithRole),
  route('POST auth/token/roles/:role', 'token', writeRole),
  route('GET auth/token/roles/:role', 'token', readRole),
  route('DELETE auth/token/roles/:role', 'token', deleteRole),
  route('GET auth/token/lookup-self', 'token', lookupSelf),
  route('POST auth/token/revoke-self', 'token', revokeSelf),
];
