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

/** Grants by their paths, as checks of a credential take them. */
export function rightsIn(grants: readonly PolicyGrant[]): Rights {
  return Object.fromEntries(grants.map(({ path, capabilities }) => [path, capabilities]));
}

/** The command that writes the whole policy. One line: the Web UI joins the lines of a command. */
export function policyCommand(policy: string): string {
  return `printf '${hclOf(BATCH_TOKEN_GRANTS).replaceAll('\n', '\\n')}\\n' | vault policy write ${policy} -`;
}

/**
 * The command that makes the token role. A role for batch tokens cannot cap their life (the service refuses
 * `token_explicit_max_ttl` there): the life is asked for with each token, and proven on it.
 */
export function roleCommand(role: string, policy: string): string {
  return `vault write auth/token/roles/${role} allowed_policies=${policy} orphan=true renewable=false token_type=batch`;
}
