import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { ActivityDependencies } from '../../activities';

const DESCRIBE_DEADLINE_MS = 5_000;

/**
 * Whether a run has ended, as the server says. A run that the server does not know any more has ended too.
 *
 * @throws where the server does not answer: the key record then waits for its time to end.
 */
async function isRunClosed(
  client: Client,
  namespace: string,
  run: { readonly wid: string; readonly rid: string; readonly ns: string },
): Promise<boolean> {
  // Another namespace's runs are not ours to judge.
  if (run.ns !== namespace) return false;
  try {
    const description = await client.withDeadline(Date.now() + DESCRIBE_DEADLINE_MS, () =>
      client.workflow.getHandle(run.wid, run.rid).describe(),
    );
    return description.status.name !== 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return true;
    throw error;
  }
}

/** Destroys ceremony keys that are past their time or belong to ended runs. A failure is logged; the next sweep tries again. */
export async function sweepKeys(
  { keyRecords, temporal, log }: Pick<ActivityDependencies, 'keyRecords' | 'temporal' | 'log'>,
  namespace: string,
): Promise<void> {
  try {
    const destroyed = await keyRecords.sweep(Date.now(), (wid, rid, ns) =>
      isRunClosed(temporal, namespace, { wid, rid, ns }),
    );
    for (const { cid, epoch, why } of destroyed) log.info({ cid, epoch, state: why }, 'Ceremony keys destroyed');
  } catch (error) {
    log.warn({ error }, 'Sweeping the ceremony keys failed; the next sweep tries again');
  }
}
