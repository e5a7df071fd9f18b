import type { TokenRole } from '../../src/vault';
import type { Check } from '../../src/contracts/plan';
import { check } from '../checks/check';
import type { Rights } from '../checks/credentials';
import { ATTEMPT, PROMOTE, UPDATE_PRIMARY } from '../checks/tokens';
import { BATCH_TOKEN_GRANTS, hclOf } from './policies';
import type { PolicyGrant } from './policies';

const ATTEMPT_UPDATE = 'sys/replication/dr/secondary/generate-operation-token/update';

/** Without these a batch token is of no use: promotion, and what makes the others follow. */
const ESSENTIAL: readonly PolicyGrant[] = [
  { path: PROMOTE, capabilities: ['update'] },
  { path: UPDATE_PRIMARY, capabilities: ['update'] },
];
/** From version 2.0 of the service: with these the batch token opens the calls of a ceremony too. */
const CEREMONY_CALLS: readonly PolicyGrant[] = [
  { path: ATTEMPT, capabilities: ['read', 'update'] },
  { path: ATTEMPT_UPDATE, capabilities: ['update'] },
];

export function neededGrants(ceremonyCalls: boolean): readonly PolicyGrant[] {
  return ceremonyCalls ? [...ESSENTIAL, ...CEREMONY_CALLS] : ESSENTIAL;
}

/** Rights that no token for DR operations needs: whoever has one of them has too much. Asked, never used. */
export const TOO_MUCH: readonly string[] = [
  'auth/token/create',
  'sys/policies/acl/runbooks-batch',
  'sys/auth',
  'sys/replication/dr/primary/demote',
  'sys/replication/dr/primary/disable',
  'sys/replication/performance/primary/disable',
];

/** Grants by their paths, as checks of a credential take them. */
export function rightsIn(grants: readonly PolicyGrant[]): Rights {
  return Object.fromEntries(grants.map(({ path, capabilities }) => [path, capabilities]));
}

/** The command that writes the whole policy. One line: the Web UI joins the lines of a command. */
export function policyCommand(policy: string): string {
  return `printf '${hclOf(BATCH_TOKEN_GRANTS).replaceAll('\n', '\\n')}\\n' | vault policy write ${policy} -`;
}

/** The command that makes the token role. */
export function roleCommand(role: string, policy: string): string {
  return `vault write auth/token/roles/${role} allowed_policies=${policy} orphan=true renewable=false token_type=batch`;
}

/**
 * A role by which nothing can be made but orphan batch tokens with this policy. A role for batch tokens cannot cap their
 * life (the service refuses `token_explicit_max_ttl` there): the life is asked for with each token, and proven on it.
 */
export function roleChecks(
  cluster: string,
  name: string,
  policy: string,
  role: TokenRole | undefined,
  willBeMade: boolean,
): readonly Check[] {
  const command = roleCommand(name, policy);
  if (role === undefined) return [absent(`token role ${name}`, cluster, willBeMade, command)];
  const also = [...role.allowedPolicies.filter((each) => each !== policy), ...role.allowedPoliciesGlob];
  const rule = (what: string, good: boolean, observed: string, needed: string) =>
    check(`token role ${name}: ${what}`, cluster, good, { observed, needed, next: `Correct it: \`${command}\`` });
  const told = (value: boolean | undefined) => (value === undefined ? 'not told' : String(value));
  return [
    rule('orphan', role.orphan === true, told(role.orphan), 'true: other tokens end with the token that made them'),
    rule('renewable', role.renewable === false, told(role.renewable), 'false'),
    rule('token_type', role.tokenType === 'batch', role.tokenType ?? 'not told', 'batch'),
    rule(
      'allowed_policies',
      role.allowedPolicies.includes(policy) && also.length === 0,
      [...role.allowedPolicies, ...role.allowedPoliciesGlob].join(', ') || 'none',
      `${policy} and no other`,
    ),
  ];
}

/**
 * What the text of a policy shows. Only a hint: what a token may do is proven by the token itself before it is kept. A
 * policy that is there and without rights may have been emptied on purpose: nobody but a person fills it again.
 */
export function policyChecks(
  cluster: string,
  name: string,
  text: string | undefined,
  needed: readonly PolicyGrant[],
  willBeMade: boolean,
): readonly Check[] {
  const command = policyCommand(name);
  if (text === undefined) return [absent(`policy ${name}`, cluster, willBeMade, command)];
  const missing = needed.filter(({ path }) => !coveredBy(text, path));
  return [
    check(`policy ${name}`, cluster, missing.length < needed.length, {
      observed:
        missing.length === 0
          ? 'names every path'
          : `its text does not name ${missing.map(({ path }) => path).join(', ')}`,
      needed: 'the paths that a DR operation needs',
      next: `Was it emptied to end the batch tokens? Otherwise write it anew: \`${command}\``,
    }),
  ];
}

function absent(what: string, cluster: string, willBeMade: boolean, command: string): Check {
  const observed = willBeMade ? 'absent; this run makes it' : 'absent';
  return check(what, cluster, willBeMade, { observed, needed: `a ${what}`, next: `Make it: \`${command}\`` });
}

/** Whether a path, or a pattern that may match it, stands in the text of a policy with anything but `deny`. */
function coveredBy(text: string, path: string): boolean {
  const rules = [...text.matchAll(/"([^"\s]+)"\s*(?:[:=]\s*)?\{([^{}]*)/g)];
  return rules.some(([, pattern = '', body = '']) => {
    const prefix = pattern.replace(/[*+].*/, '');
    const fits = pattern === path || (prefix !== pattern && path.startsWith(prefix));
    return fits && !body.includes('"deny"');
  });
}
