import { RunbookError, isRunbookError } from '../../src/errors';
import { observeReplication } from './observe';
import type { RunContext } from '../../src/secrets';
import { activityRecords } from '../../src/report';
import type { ActivityDependencies } from '../dependencies';
import type { ClusterAccess } from './clusters';

/**
 * Proves that a cluster is not primary before another one is promoted: it says so itself, or, where it does not answer
 * any more, the demotion of this run left it as a secondary and every promotion of it since was refused for certain.
 *
 * @throws RunbookError STATE_DIVERGED where it is primary; PRECONDITION_FAILED where it cannot be proven
 */
export async function proveNotPrimary(
  dependencies: ActivityDependencies,
  run: RunContext,
  other: ClusterAccess,
  signal: AbortSignal,
): Promise<void> {
  const { name } = other.entry;
  const said = await askRole(other, signal);
  if (said === 'primary') {
    throw new RunbookError('STATE_DIVERGED', `${name} is still DR primary: promoting another cluster would make two.`, {
      cluster: name,
      observed: 'primary',
      needed: 'secondary or disabled',
      next: `Demote ${name} first, or decide promote-back.`,
    });
  }
  if (said === 'secondary' || said === 'disabled') return;

  const history = await dependencies.temporal.workflow.getHandle(run.wid, run.rid).fetchHistory();
  const records = activityRecords(history);
  // Whichever side was demoted: a demotion also looks at the other side, which must be a live secondary then.
  const demoted = records.some((record) => record.type === 'demoteDrPrimary' && record.outcome === 'completed');
  const promotions = records.filter((record) => record.cluster === name && record.type === 'promoteDrSecondary');
  const refused = promotions.every((record) => record.outcome === 'failed' && record.outcomeKnown === true);
  if (refused && demoted) return;
  throw new RunbookError(
    'PRECONDITION_FAILED',
    `${name} does not answer, and nothing in this run proves that it is not primary.`,
    {
      cluster: name,
      observed: `${name} ${said}`,
      needed: `${name} answers as secondary, or is known to be fenced`,
      next: `Bring ${name} back or fence it (no clients, no cluster port), then decide. Promoting now could make two primaries.`,
    },
  );
}

async function askRole(access: ClusterAccess, signal: AbortSignal): Promise<string> {
  // Every node is asked: a returning old active node may hold another opinion than the rest.
  const modes = await Promise.all(
    access.entry.addresses.map(async (node) => {
      try {
        return observeReplication(await access.client.dr.status({ node, signal })).mode;
      } catch (error) {
        if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
        return 'does not answer';
      }
    }),
  );
  return (
    ['primary', 'bootstrapping', 'secondary', 'disabled'].find((mode) => modes.includes(mode)) ?? 'does not answer'
  );
}
