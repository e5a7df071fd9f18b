import { badRequest, isJsonObject, NO_CONTENT, parseDuration, type ServiceAnswer } from '../messages';
import type { TokenRole } from '../stored';
import { MAXIMUM_TTL, MAXIMUM_TTL_MS } from '../token-store';
import { writeShared } from './key-value';
import { route, type Route, type RouteCall } from './route';

/** Members of `auth/token/create` that the simulated service leaves out. */
const LEFT_OUT = ['id', 'entity_alias', 'period', 'explicit_max_ttl'];

/** `auth/token/create` without a role: a token with what the caller has, or less. */
function createChild(call: RouteCall, orphan: boolean): ServiceAnswer {
  const { identity, cluster, now } = call;
  if (identity.type === 'batch') throw badRequest('batch tokens cannot create more tokens');
  if ((identity.usesLeft ?? 0) > 0) throw badRequest('restricted use token cannot generate child tokens');
  for (const name of LEFT_OUT)
    if (call.text(name) !== '' && parseDuration(call.text(name)) !== 0)
      throw badRequest(`the simulated service has no "${name}" of auth/token/create`);
  const granted = cluster.tokens.capabilities(identity, call.request.path);
  const privileged = granted.includes('root') || granted.includes('sudo');
  const type: 'service' | 'batch' = call.text('type') === 'batch' ? 'batch' : 'service';
  if (!['', type].includes(call.text('type'))) throw badRequest("invalid 'token_type' value");
  const uses = Number(call.text('num_uses') || 0);
  if (!Number.isInteger(uses) || uses < 0) throw badRequest('number of uses cannot be negative');
  if (type === 'batch' && uses !== 0) throw badRequest('batch tokens cannot have "num_uses" set');
  const { policies, addsDefault } = policiesOfChild(call, privileged);
  if (type === 'batch' && policies.includes('root')) throw badRequest('batch tokens cannot be root tokens');
  if (call.flag('no_parent') && !privileged)
    throw badRequest('root or sudo privileges required to create orphan token');
  const ttlMs = parseDuration(call.text('ttl') || 0);
  if (ttlMs === undefined) throw badRequest('error converting input for field "ttl": time: invalid duration');
  const { meta } = call.body;
  const request = {
    ...{ policies, addsDefault, type, path: call.request.path },
    orphan: orphan || call.flag('no_parent'),
    renewable: call.text('renewable') !== 'false' && !(policies.includes('root') && ttlMs === 0),
    ttlMs: ttlMs > 0 ? ttlMs : policies.includes('root') ? null : MAXIMUM_TTL_MS,
    displayName: ['token', call.text('display_name')].filter((part) => part !== '').join('-'),
    ...(uses > 0 && { usesLeft: uses }),
    ...(isJsonObject(meta) && { meta }),
  } as const;
  return call.authenticated(cluster.tokens.create(request, now));
}

/** Without `sudo`, a child has a part of its parent's policies. */
function policiesOfChild(call: RouteCall, privileged: boolean): { policies: readonly string[]; addsDefault: boolean } {
  const { policies: ofParent } = call.identity;
  const asked = call.list('policies');
  const wantsDefault = !call.flag('no_default_policy');
  if (asked.length === 0)
    return { policies: ofParent.filter((name) => wantsDefault || name !== 'default'), addsDefault: false };
  if (!privileged && !asked.every((name) => ofParent.includes(name)))
    throw badRequest('child policies must be subset of parent');
  if (asked.includes('root') && !ofParent.includes('root'))
    throw badRequest('root tokens may not be created without parent token being root');
  return { policies: asked, addsDefault: wantsDefault && (privileged || ofParent.includes('default')) };
}

function createWithRole(call: RouteCall): ServiceAnswer {
  const name = call.parameter('role');
  const role = call.cluster.storage.read('token-role', `token-role/${name}`)?.role;
  if (role === undefined) throw badRequest(`unknown role ${name}`);
  const { allowedPolicies, tokenType: type, orphan } = role;
  const asked = call.list('policies');
  if (!asked.every((each) => allowedPolicies.includes(each)))
    throw badRequest('child policies must be subset of parent');
  const ttlMs = parseDuration(call.text('ttl') || MAXIMUM_TTL);
  if (ttlMs === undefined) throw badRequest('error converting input for field "ttl": time: invalid duration');
  const policies = asked.length > 0 ? asked : allowedPolicies;
  const request = { policies, type, orphan, renewable: role.renewable, ttlMs, path: call.request.path };
  return call.authenticated(call.cluster.tokens.create(request, call.now));
}

function writeRole(call: RouteCall): ServiceAnswer {
  const role: TokenRole = {
    allowedPolicies: call.list('allowed_policies'),
    orphan: call.flag('orphan'),
    renewable: call.body['renewable'] === undefined || call.flag('renewable'),
    tokenType: call.text('token_type') === 'batch' ? 'batch' : 'service',
  };
  if (role.tokenType === 'batch' && (!role.orphan || role.renewable))
    throw badRequest("'token_type' cannot be 'batch' when role is set to generate non-orphan or renewable tokens");
  writeShared(call, `token-role/${call.parameter('role')}`, { type: 'token-role', role });
  return NO_CONTENT;
}

function lookupSelf(call: RouteCall): ServiceAnswer {
  const { identity } = call;
  const { createdAt, expiresAt } = identity;
  const secondsAfter = (since: number) =>
    expiresAt === null ? 0 : Math.max(0, Math.round((expiresAt - since) / 1_000));
  return call.answer({
    id: call.request.token ?? '',
    accessor: identity.accessor,
    policies: [...identity.policies],
    type: identity.type === 'batch' ? 'batch' : 'service',
    orphan: identity.orphan,
    path: identity.path,
    display_name: identity.displayName,
    creation_time: Math.floor(createdAt / 1_000),
    creation_ttl: secondsAfter(createdAt),
    expire_time: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    ttl: secondsAfter(call.now),
    // A token that does not expire has no lease.
    ...(expiresAt === null ? {} : { issue_time: new Date(createdAt).toISOString(), renewable: identity.renewable }),
    num_uses: identity.usesLeft ?? 0,
    meta: identity.meta ?? null,
    entity_id: '',
    explicit_max_ttl: 0,
  });
}

function revokeSelf(call: RouteCall): ServiceAnswer {
  if (call.identity.type === 'batch') throw badRequest('batch tokens cannot be revoked');
  call.cluster.tokens.revoke(call.request.token ?? '', call.now);
  return NO_CONTENT;
}

function renewSelf(call: RouteCall): ServiceAnswer {
  if (call.identity.type === 'batch') throw badRequest('batch tokens cannot be renewed');
  const renewed = call.cluster.tokens.renew(call.request.token ?? '', call.now);
  if (renewed === undefined) throw badRequest('lease is not renewable');
  return call.authenticated(renewed);
}

/** Tokens and token roles. */
export const TOKEN_ROUTES: readonly Route[] = [
  route('POST auth/token/create', 'token', (call) => createChild(call, false)),
  route('POST auth/token/create-orphan', 'sudo', (call) => createChild(call, true)),
  route('POST auth/token/create/:role', 'token', createWithRole),
  route('POST auth/token/roles/:role', 'token', writeRole),
  route('GET auth/token/lookup-self', 'token', lookupSelf),
  route('POST auth/token/renew-self', 'token', renewSelf),
  route('POST auth/token/revoke-self', 'token', revokeSelf),
];
