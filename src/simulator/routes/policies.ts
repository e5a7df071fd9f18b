import { badRequest, found, NO_CONTENT, type ServiceAnswer } from '../messages';
import type { PolicyRule } from '../stored';
import { writeShared } from './key-value';
import { route, type Route, type RouteCall } from './route';

const CAPABILITIES = ['deny', 'create', 'read', 'update', 'delete', 'list', 'sudo', 'patch', 'subscribe', 'recover'];

/** The rules of a policy in HCL; undefined if the text is not a policy. */
export function parsePolicy(text: string): PolicyRule[] | undefined {
  const withoutComments = text.replace(/(^|\s)(#|\/\/).*$/gm, '');
  const rules = [...withoutComments.matchAll(/path\s+"([^"]+)"\s*\{([^{}]*)\}/g)].map(([, path = '', block = '']) => {
    const list = /capabilities\s*=\s*\[([^[\]]*)\]/.exec(block)?.[1] ?? '';
    return { path, capabilities: [...list.matchAll(/"([^"]+)"/g)].map(([, name = '']) => name) };
  });
  return rules.length > 0 || withoutComments.trim() === '' ? rules : undefined;
}

function writePolicy(call: RouteCall): ServiceAnswer {
  const text = call.required('policy');
  const rules = parsePolicy(text);
  if (rules === undefined) throw badRequest('failed to parse policy');
  for (const { path, capabilities } of rules)
    for (const capability of capabilities)
      if (!CAPABILITIES.includes(capability))
        throw badRequest(`failed to parse policy: path "${path}": invalid capability "${capability}"`);
  writeShared(call, `policy/${call.parameter('name')}`, { type: 'policy', text, rules });
  return NO_CONTENT;
}

function readPolicy(call: RouteCall): ServiceAnswer {
  const name = call.parameter('name');
  return call.answer({ name, policy: found(call.cluster.storage.read('policy', `policy/${name}`)).text });
}

function listPolicies(call: RouteCall): ServiceAnswer {
  const names = call.cluster.storage.keys('policy/').map((key) => key.slice('policy/'.length));
  return call.answer({ keys: [...names, 'default', 'root'].sort() });
}

function deletePolicy(call: RouteCall): ServiceAnswer {
  writeShared(call, `policy/${call.parameter('name')}`, null);
  return NO_CONTENT;
}

function capabilitiesSelf(call: RouteCall): ServiceAnswer {
  const { identity, cluster } = call;
  // The official Go client sends `path`.
  const paths = [...call.list('paths'), ...call.list('path')];
  if (paths.length === 0) throw badRequest('paths must be supplied');
  const perPath = paths.map((path) => [path, cluster.tokens.capabilities(identity, path.replace(/^\//, ''))] as const);
  return call.answer({ ...Object.fromEntries(perPath), capabilities: perPath[0]?.[1] ?? [] });
}

/** Policies and capabilities. */
export const POLICY_ROUTES: readonly Route[] = [
  route('POST sys/policies/acl/:name', 'token', writePolicy),
  route('GET sys/policies/acl/:name', 'token', readPolicy),
  route('DELETE sys/policies/acl/:name', 'token', deletePolicy),
  route('LIST sys/policies/acl', 'token', listPolicies),
  route('POST sys/capabilities-self', 'token', capabilitiesSelf),
];
