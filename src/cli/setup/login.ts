import { existsSync, readFileSync } from 'node:fs';
import { isRunbookError, RunbookError } from '../../errors';
import { Secret } from '../../secret';
import type { ServiceClient } from '../../vault';
import type { CliContext } from '../context';
import { readTextFile, replaceFile } from '../secret-input';
import { clientOf } from './clusters';
import type { FoundCluster } from './clusters';
import { filtersInForce } from './filters';
import type { FoundFilter } from './filters';

/* The workers' login: a policy and an AppRole on the primary. */

const POLICY = 'runbooks';
/** Applications may log in there too. */
export const USUAL_MOUNT = 'approle';

interface LoginAsked {
  readonly adminTokenFile?: string;
  readonly yes?: boolean;
  readonly mount: string;
}

interface LoginSite {
  readonly clusters: readonly FoundCluster[];
  readonly caFile: string | undefined;
  readonly policy: string;
  /** Where the policy and the secret ID go. */
  readonly files: { readonly policy: string; readonly secretId: string };
}

/**
 * Writes the policy file. With an administrator's token it also creates policy, AppRole and secret ID on the primary, which
 * replicates them to its secondaries, and reads the paths filters in force. The token is used only here and never stored.
 */
export async function makeLogin(
  context: CliContext,
  { adminTokenFile, yes, mount }: LoginAsked,
  { clusters, caFile, policy, files }: LoginSite,
): Promise<{ readonly login?: AppRole; readonly filters: readonly FoundFilter[] }> {
  const asks = yes !== true && context.interactive && adminTokenFile === undefined;
  const question =
    "An administrator's token for the primary, used once to create the policy and an AppRole (Enter: do it later)";
  const text = asks ? await context.askHidden(question) : adminTokenFile && (await readTextFile(adminTokenFile));
  if (!text) {
    await replaceFile(files.policy, policy, 0o640);
    return { filters: await filtersInForce(clusters) };
  }
  const token = new Secret('service-token', text.trim());
  const primary = primaryOf(clusters);
  const client = clientOf(primary, caFile);
  try {
    const begun = await refuseToReplace(primary.name, client.sys, token, { mount, policy, file: files.policy });
    if (!begun) refuseOldSecretId(files.secretId);
    await replaceFile(files.policy, policy, 0o640);
    await client.sys.writePolicy({ name: POLICY, policy }, { token });
    const login = await makeAppRole(client, token, files.secretId, { mount, begun });
    context.err(`Created on ${primary.name}: policy "${POLICY}", AppRole "${POLICY}" at auth/${mount}.`);
    return { login, filters: await filtersInForce(clusters, { primary, client, token }) };
  } finally {
    await client.close();
  }
}

/** The cluster on which policies are created: secondaries receive them from there. */
function primaryOf(clusters: readonly FoundCluster[]): FoundCluster {
  const leading = clusters.filter(({ role }) => !role.includes('secondary'));
  const primary = leading.find(({ role }) => role.includes('primary')) ?? leading[0];
  if (primary !== undefined) return primary;
  const text = 'None of these clusters is a primary. No policy and no AppRole was created.';
  throw new RunbookError('INVALID_INPUT', text, {
    next: "Name the primary too, or omit the administrator's token.",
  });
}

/**
 * The secret ID of an earlier AppRole fits no new role, and an inventory that was moved away may still name the file.
 *
 * @throws RunbookError `INVALID_INPUT`
 */
function refuseOldSecretId(file: string): void {
  if (!existsSync(file)) return;
  throw new RunbookError('INVALID_INPUT', `${file} exists: the secret ID of an earlier AppRole. Nothing was changed.`, {
    needed: 'a directory without it: no login of the new AppRole would succeed with it',
    next: 'Move it away, and keep it if another inventory names it. Then run the command again.',
  });
}

/**
 * Creates the login of workers with this policy, and always a secret ID of its own: one in the file may be of a role that
 * is gone.
 *
 * @param at.mount - with another name than the usual one it must be new, unless an earlier `init` has begun
 */
export async function makeAppRole(
  { sys: { appRole } }: ServiceClient,
  token: Secret<'service-token'>,
  secretId: string,
  { mount, begun }: { readonly mount: string; readonly begun: boolean },
) {
  const ownMount = mount !== USUAL_MOUNT;
  const place = { mount, role: POLICY };
  // It may already be enabled.
  await appRole.enable({ mount }, { token }).catch((error: unknown) => {
    if (!isRunbookError(error, 'BAD_REQUEST')) throw error;
    if (!ownMount || begun) return;
    throw new RunbookError('PRECONDITION_FAILED', `auth/${mount} exists: it is not a mount of the workers' own.`, {
      needed: 'a mount that does not exist yet',
      next: `Choose another name with --mount, or omit it to share auth/${USUAL_MOUNT}.`,
    });
  });
  await appRole.write({ ...place, policies: [POLICY] }, { token });
  const made = await appRole.makeSecretId(place, { token });
  await replaceFile(secretId, made.reveal(), 0o600);
  return { roleId: await appRole.roleId(place, { token }), secretId, mount, ownMount };
}

/** The login of a worker; the secret ID is in a file. */
export type AppRole = Awaited<ReturnType<typeof makeAppRole>>;

/**
 * Refuses to replace a policy or an AppRole: other workers may use them. An interrupted `init` left the same policy in its
 * file, and may continue.
 *
 * @returns whether an earlier `init` has begun
 */
async function refuseToReplace(
  cluster: string,
  sys: ServiceClient['sys'],
  token: Secret<'service-token'>,
  { mount, policy, file }: { readonly mount: string; readonly policy: string; readonly file: string },
): Promise<boolean> {
  const present = await sys.policy(POLICY, { token });
  const same = present === undefined || present.trim() === policy.trim();
  const began = present !== undefined && existsSync(file) && readFileSync(file, 'utf8') === policy;
  const role = began ? undefined : await roleIdOf(sys, token, mount);
  if (role === undefined && same) return began;
  const what = role === undefined ? `a policy "${POLICY}"` : `an AppRole "${POLICY}"`;
  throw new RunbookError('PRECONDITION_FAILED', `${cluster} already has ${what}; nothing was changed there.`, {
    needed: 'neither a policy nor an AppRole of this name',
    next: `Find out whose they are: \`vault policy read ${POLICY}\`, \`vault read auth/${mount}/role/${POLICY}\`. Delete both if nobody needs them, or omit the administrator's token.`,
  });
}

const roleIdOf = (sys: ServiceClient['sys'], token: Secret<'service-token'>, mount: string) =>
  sys.appRole.roleId({ mount, role: POLICY }, { token }).catch((error: unknown) => {
    if (!isRunbookError(error, 'NOT_FOUND')) throw error;
  });
