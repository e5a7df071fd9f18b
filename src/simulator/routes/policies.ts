import { badRequest, found, NO_CONTENT, type ServiceAnswer } from '../messages';
import { writeShared } from './key-value';
import { route, type Route, type RouteCall } from './route';

/** One path rule of a policy. */
export interface PolicyRule {
  /** A trailing `*` makes it a prefix; `+` matches one segment. */
  readonly path: string;
  readonly capabilities: readonly string[];
}

const CAPABILITIES = ['deny', 'create', 'read', 'update', 'delete', 'list', 'sudo', 'patch', 'subscribe', 'recover'];

/** The rights of every token, as in the service's `default` policy. */
const DEFAULT_RULES: readonly PolicyRule[] = [
  { path: 'auth/token/lookup-self', capabilities: ['read'] },
  { path: 'auth/token/renew-self', capabilities: ['update'] },
  { path: 'auth/token/revoke-self', capabilities: ['update'] },
  { path: 'sys/capabilities-self', capabilities: ['update'] },
];

/** The rules of a policy in HCL; undefined if the text is not a policy. */
export function parsePolicy(text: string): PolicyRule[] | undefined {
  const withoutComments = text.replace(/(^|\s)(#|\/\/).*$/gm, '');
  const rules = [...withoutComments.matchAll(/path\s+"([^"]+)"\s*\{([^{}]*)\}/g)].map(([, path = '', block = '']) => {
    const list = /capabilities\s*=\s*\[([^[\]]*)\]/.exec(block)?.[1] ?? '';
    return { path, capabilities: [...list.matchAll(/"([^"]+)"/g)].map(([, name = '']) => name) };
  });
  return rules.length > 0 || withoutComments.trim() === '' ? rules : undefined;
}

function matches(pattern: string, path: string): boolean {
  const prefix = pattern.endsWith('*');
  const wanted = (prefix ? pattern.slice(0, -1) : pattern).split('/');
  const given = path.split('/');
  if (given.length < wanted.length || (!prefix && given.length !== wanted.length)) return false;
  return wanted.every((segment, index) => {
    const actual = given[index] ?? '';
    const last = prefix && index === wanted.length - 1;
    return segment === '+' || (last ? actual.startsWith(segment) : actual === segment);
  });
}

/**
 * The more specific pattern wins: one without wildcards, then one whose first wildcard comes later, one that is no prefix,
 * one with fewer `+`, the longer one, and the last in the alphabet. Negative if `one` wins.
 */
function bySpecificity(one: string, other: string): number {
  const ranks = [one, other].map((pattern) => [
    pattern.search(/\+|\*$/) === -1 ? Infinity : pattern.search(/\+|\*$/),
    pattern.endsWith('*') ? 0 : 1,
    -pattern.split('+').length,
    pattern.length,
  ]);
  const [ours = [], theirs = []] = ranks;
  const difference = ours.findIndex((rank, index) => rank !== theirs[index]);
  if (difference !== -1) return (theirs[difference] ?? 0) > (ours[difference] ?? 0) ? 1 : -1;
  return one === other ? 0 : one > other ? -1 : 1;
}

/** Returns the rules of a policy; undefined if it does not exist. */
type RulesOf = (name: string) => readonly PolicyRule[] | undefined;

/**
 * The sorted capabilities that policies grant on a path: `['deny']` for none, `['root']` for the root policy.
 */
export function capabilitiesOn(path: string, policies: readonly string[], rulesOf: RulesOf): string[] {
  if (policies.includes('root')) return ['root'];
  const rules = policies.flatMap((name) => (name === 'default' ? DEFAULT_RULES : (rulesOf(name) ?? [])));
  const fitting = rules.filter((rule) => matches(rule.path, path));
  const [best] = fitting.map((rule) => rule.path).sort(bySpecificity);
  const granted = new Set(fitting.filter((rule) => rule.path === best).flatMap((rule) => rule.capabilities));
  if (granted.size === 0 || granted.has('deny')) return ['deny'];
  return [...granted].sort();
}

/** Whether policies grant any right below a mount. */
export function mayBelow(mount: string, policies: readonly string[], rulesOf: RulesOf): boolean {
  if (policies.includes('root')) return true;
  const rules = policies.flatMap((name) => rulesOf(name) ?? []);
  return rules.some(
    ({ path, capabilities }) =>
      !capabilities.includes('deny') &&
      capabilities.length > 0 &&
      (path.startsWith(mount) || matches(path, mount) || reachesBelow(path, mount)),
  );
}

/** A pattern with `+` reaches below a mount if its first segments match those of the mount. */
function reachesBelow(pattern: string, mount: string): boolean {
  const segments = pattern.split('/');
  return mount
    .slice(0, -1)
    .split('/')
    .every((each, index) => segments[index] === '+' || segments[index] === each);
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
