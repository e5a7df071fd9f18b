import { readFile } from 'node:fs/promises';
import { statementsFor, statementsIn } from '../../../src/secrets';
import type { ActivityDependencies } from '../../dependencies';

/**
 * An invitation as it is handed to holders: after a rotation of the workers' signing key with the statements by which the
 * keys before it vouch for the one that signed. One document in a line, the invitation first. A file that cannot be read
 * keeps nobody from asking: readiness tells of it, and holders compare by voice.
 */
export async function handedInvitation(
  { inventory, signingKey }: Pick<ActivityDependencies, 'inventory' | 'signingKey'>,
  jws: string,
): Promise<string> {
  const file = inventory.workers.statements;
  const text = file === undefined ? '' : await readFile(file, 'utf8').catch(() => '');
  return [jws, ...statementsFor(signingKey.kid, statementsIn(text), Date.now())].join('\n');
}
