import type { Authority } from '../../src/contracts/activities';
import type { GatedOperation } from '../../src/contracts/plan';
import { isRunbookError } from '../../src/errors';
import type { ActivityDependencies } from '../dependencies';
import { verifyOperation } from './authority';
import type { Execution } from './execution';
import type { Joining } from './join-secondary';
import { readClusterId } from './operation-token';

/** What a plan may call the re-pointing of a secondary by token: on its own, or as a part of what it comes after. */
const OPERATIONS: Readonly<Record<Joining['kind'], readonly GatedOperation[]>> = {
  dr: ['dr.secondary.repoint-by-token'],
  performance: ['performance.secondary.repoint-by-token', 'performance.secondary.repoint-after-promotion'],
};

/**
 * Verifies that an approved plan lets this secondary follow this primary with a new activation token.
 *
 * @throws RunbookError NOT_APPROVED
 */
export async function verifyRepointing(
  { inventory }: ActivityDependencies,
  { run, signal }: Execution,
  deployment: string,
  { kind, source, target, clusterId }: Joining,
  authority: Authority,
): Promise<void> {
  const doing = {
    on: { cluster: target.entry.name, clusterId },
    with: { cluster: source.entry.name, clusterId: await readClusterId(source, signal) },
  };
  let refused: unknown;
  for (const operation of OPERATIONS[kind]) {
    try {
      await verifyOperation(inventory, run, deployment, authority, { operation, ...doing });
      return;
    } catch (error) {
      if (!isRunbookError(error, 'NOT_APPROVED')) throw error;
      refused ??= error;
    }
  }
  throw refused;
}
