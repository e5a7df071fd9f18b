import type { Precondition } from '../../src/contracts/plan';
import type { ClusterAccess } from '../clusters';
import { check } from '../checks/switchover-rule';
import { credentialFacts } from '../checks/switchover-facts';

/**
 * Whether the credential of a cluster has all of these rights on each path, asked of the cluster itself. For clusters
 * that serve look-ups: a DR secondary does not.
 */
export async function credentialMay(
  access: ClusterAccess,
  paths: readonly string[],
  rights: readonly ('update' | 'delete' | 'sudo')[],
  signal: AbortSignal,
): Promise<Precondition> {
  const { name } = access.entry;
  const { usable, error, capabilities } = await credentialFacts(access, () => access.credential(), paths, signal);
  const of = (path: string) => capabilities[path] ?? [];
  const may = (path: string) => of(path).includes('root') || rights.every((right) => of(path).includes(right));
  return check(
    'credential suffices',
    name,
    usable && paths.every(may),
    usable ? paths.map((path) => `${path}: ${of(path).join(', ') || 'none'}`).join('; ') : (error ?? 'not usable'),
    `${rights.join(' and ')} on ${paths.join(', ')}`,
    `Give the credential of ${name} a policy with ${rights.join(' and ')} on ${paths.join(', ')}.`,
  );
}
