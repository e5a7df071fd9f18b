import type { PolicyRule } from './stored';

/** The rights of every token, as in the service's `default` policy. */
const DEFAULT_RULES: readonly PolicyRule[] = [
  { path: 'auth/token/lookup-self', capabilities: ['read'] },
  { path: 'auth/token/renew-self', capabilities: ['update'] },
  { path: 'auth/token/revoke-self', capabilities: ['update'] },
  { path: 'sys/capabilities-self', capabilities: ['update'] },
];

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
