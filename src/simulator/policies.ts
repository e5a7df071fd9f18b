/** One path rule of a policy. */
export interface PolicyRule {
  /** With `*` at the end as prefix, `+` for one segment. */
  readonly path: string;
  readonly capabilities: readonly string[];
}

const EVERYTHING = ['root'];

/** What every token may do, as the service's `default` policy. */
const DEFAULT_RULES: readonly PolicyRule[] = [
  { path: 'auth/token/lookup-self', capabilities: ['read'] },
  { path: 'auth/token/renew-self', capabilities: ['update'] },
  { path: 'auth/token/revoke-self', capabilities: ['update'] },
  { path: 'sys/capabilities-self', capabilities: ['update'] },
  { path: 'sys/wrapping/wrap', capabilities: ['update'] },
  { path: 'sys/wrapping/lookup', capabilities: ['update'] },
  { path: 'sys/wrapping/unwrap', capabilities: ['update'] },
];

/** Rules of a policy text in JSON or HCL; undefined where it is neither. */
export function parsePolicy(text: string): PolicyRule[] | undefined {
  return text.trimStart().startsWith('{') ? parseJsonPolicy(text) : parseHclPolicy(text);
}

function parseJsonPolicy(text: string): PolicyRule[] | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    const paths: unknown = typeof parsed === 'object' && parsed !== null && 'path' in parsed ? parsed.path : undefined;
    if (typeof paths !== 'object' || paths === null) return undefined;
    return Object.entries(paths).map(([path, rule]: [string, unknown]) => {
      const listed: unknown =
        typeof rule === 'object' && rule !== null && 'capabilities' in rule ? rule.capabilities : undefined;
      return { path, capabilities: Array.isArray(listed) ? listed.map(String) : [] };
    });
  } catch {
    return undefined;
  }
}

function parseHclPolicy(text: string): PolicyRule[] | undefined {
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

/** The more exact pattern wins: no `*` before `*`, then the later first wildcard, then the longer. */
function precedence(pattern: string): number {
  const wildcard = pattern.search(/[*+]/);
  return (pattern.endsWith('*') ? 0 : 1e9) + (wildcard === -1 ? pattern.length : wildcard) * 1e4 + pattern.length;
}

/**
 * Capabilities of a list of policies on a path, sorted; `['deny']` for none and `['root']` for the root policy.
 *
 * @param rulesOf rules of a named policy, undefined where it does not exist
 */
export function capabilitiesOn(
  path: string,
  policies: readonly string[],
  rulesOf: (name: string) => readonly PolicyRule[] | undefined,
): string[] {
  if (policies.includes('root')) return EVERYTHING;
  const rules = policies.flatMap((name) => (name === 'default' ? DEFAULT_RULES : (rulesOf(name) ?? [])));
  const fitting = rules.filter((rule) => matches(rule.path, path));
  const best = Math.max(...fitting.map((rule) => precedence(rule.path)));
  const granted = new Set(
    fitting.filter((rule) => precedence(rule.path) === best).flatMap((rule) => rule.capabilities),
  );
  if (granted.size === 0 || granted.has('deny')) return ['deny'];
  return [...granted].sort();
}
