import type { Client } from '@temporalio/client';
import { ceremonyWorkflowId } from '../../src/contracts/names';
import { readHistory } from '../../src/report/history-events';
import { answer, giveShare } from './people';
import { DEPLOYMENT, HOLDERS, secondaryOf } from './laboratory';
import type { Laboratory } from './laboratory';

const THRESHOLD = 3;

/** What one ceremony of three shares took, in milliseconds between events that the Temporal server recorded. */
export interface CeremonyTimes {
  /** From the signal of each share to the verdict on it. */
  readonly shareCheckedMs: readonly number[];
  /** From the moment at which the burst was asked for to the token in hand. */
  readonly burstMs: number;
  readonly events: number;
}

/** One `operationTokenCeremony`; each holder answers when the one before has his receipt. */
export async function holdCeremony(client: Client, laboratory: Laboratory): Promise<CeremonyTimes> {
  const cluster = secondaryOf(laboratory);
  const workflowId = ceremonyWorkflowId(cluster);
  const handle = await client.workflow.start('operationTokenCeremony', {
    workflowId,
    taskQueue: laboratory.taskQueue,
    args: [{ deployment: DEPLOYMENT, cluster, uses: ['dr.promote'], reason: 'benchmark', requestedBy: 'bench' }],
  });
  for (const [index, holder] of HOLDERS.slice(0, THRESHOLD).entries()) {
    await answer(
      handle,
      'shares',
      (_waiting, { invitation = '' }) => giveShare(handle, laboratory, holder, invitation),
      ({ held }) => held.length === index,
    );
  }
  await handle.result();
  const { activities, signals, eventCount } = readHistory(await handle.fetchHistory());
  const checks = activities.filter(({ type }) => type === 'openEnvelopes');
  const burst = activities.find(({ type }) => type === 'generateOperationToken');
  if (checks.length !== THRESHOLD || burst?.closedAt === undefined)
    throw new Error('the ceremony did not take its usual course');
  return {
    shareCheckedMs: signals
      .filter(({ signal }) => signal === 'share')
      .map(({ at }, index) => (checks[index]?.closedAt ?? Number.NaN) - at),
    burstMs: burst.closedAt - burst.scheduledAt,
    events: eventCount,
  };
}
