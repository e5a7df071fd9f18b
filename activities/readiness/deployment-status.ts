import type { OnDeployment } from '../../src/contracts/activities';
import type { DeploymentStatus } from '../../src/contracts/deployment-status';
import { findDeployment } from '../../src/inventory';
import { openEntries } from '../tokens/token-ledger';
import { within } from '../checks/within';
import { currentExecution } from '../execution';
import { primaryChanges } from '../roles/primary-changes';
import { oneDrPrimary } from './clusters';
import { READING_MS, codeOf, readTopology } from './reading';
import { judgeRecordedTokens } from './site';
import { lastCheck } from './summary';

/**
 * A deployment as it is now: every cluster, and what its record says of earlier runs. Only reads, writes no record, and
 * notifies nobody. What could not be read says so.
 */
export async function readDeploymentStatus({ deployment: name }: OnDeployment): Promise<DeploymentStatus> {
  const execution = currentExecution();
  const deployment = findDeployment(execution.inventory, name);
  execution.progress(`reading ${deployment.clusters.size} clusters`);
  const [{ clusters, sets }, record] = await Promise.all([readTopology(execution, deployment), readRecord(name)]);
  return {
    schema: 'replication-runbooks/deployment-status/v1',
    deployment: name,
    at: new Date().toISOString(),
    clusters: clusters.map(({ observation }) => observation),
    problems: sets
      .flatMap(oneDrPrimary)
      .filter(({ verdict }) => verdict === 'fail')
      .map(({ observed, needed, next }) => ({ observed, needed, ...(next !== undefined && { next }) })),
    record,
  };
}

/** What outlives runs. A record that cannot be read never reads as an empty one. */
async function readRecord(name: string): Promise<DeploymentStatus['record']> {
  const { records, signal } = currentExecution();
  try {
    return await within(
      signal,
      async () => {
        const { values, alarms } = await records.read(name);
        const change = primaryChanges.from(values);
        const check = lastCheck.from(values);
        const tokens = judgeRecordedTokens(await openEntries(name), undefined);
        return {
          read: true,
          ...(change && { primaryChange: { ...change, at: new Date(change.at).toISOString() } }),
          ...(check && { readiness: { at: check.at, switchover: check.switchover, failover: check.failover } }),
          left: [
            ...alarms.map(({ text }) => text),
            ...(tokens.verdict === 'ok' ? [] : [`Tokens in the record: ${tokens.observed}. ${tokens.next ?? ''}`]),
          ],
        } as const;
      },
      READING_MS,
    );
  } catch (error) {
    signal.throwIfAborted();
    return { read: false, why: codeOf(error) };
  }
}
