import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { ceremonyWorkflowId } from '../../src/contracts/names';
import { readHistory, timestampMs } from '../../src/report/run-history';
import { answer, giveShare } from './people';
import { DEPLOYMENT } from '../../src/demo/people';
import { HOLDERS, secondaryOf } from './laboratory';
import type { Laboratory } from './laboratory';
import { overlap } from './switchover';

const THRESHOLD = 3;
/** A look at the run is a task of server and worker: one in the middle of a check would be measured with it. */
const NEXT_LOOK_MS = 150;

/** What one ceremony of three shares took, in milliseconds between events that the Temporal server recorded. */
export interface CeremonyTimes {
  /** From the signal of each share to the verdict on it. */
  readonly shareCheckedMs: readonly number[];
  /** Where the time of each check goes; together {@link shareCheckedMs}. */
  readonly checkParts: readonly CheckParts[];
  /** From the order of the generation to the token in hand. */
  readonly generationMs: number;
  /** In how much of it a call of the service was under way. */
  readonly generationInCallsMs: number;
  readonly events: number;
}

/** Milliseconds. */
export interface CheckParts {
  /** Until the workflow has run and the server has its order. */
  readonly ordered: number;
  /** Until the worker that has the keys takes it. */
  readonly taken: number;
  /** Until the verdict is recorded. */
  readonly checked: number;
}

/** One `operationTokenCeremony`; each holder answers when the one before has their receipt. */
export async function holdCeremony(client: Client, laboratory: Laboratory): Promise<CeremonyTimes> {
  const cluster = secondaryOf(laboratory);
  const workflowId = ceremonyWorkflowId(cluster);
  const { calls } = laboratory.service;
  calls.length = 0;
  const handle = await client.workflow.start('operationTokenCeremony', {
    workflowId,
    taskQueue: laboratory.taskQueue,
    args: [
      {
        deployment: DEPLOYMENT,
        cluster,
        uses: ['dr.promote'],
        keepFor: '1h',
        reason: 'benchmark',
        requestedBy: 'bench',
      },
    ],
  });
  for (const [index, holder] of HOLDERS.slice(0, THRESHOLD).entries()) {
    await answer(
      handle,
      'shares',
      async (_waiting, { invitation = '' }) => {
        await giveShare(handle, laboratory, holder, invitation);
        await delay(NEXT_LOOK_MS);
      },
      ({ held }) => held.length === index,
    );
  }
  await handle.result();
  const history = await handle.fetchHistory();
  const { activities, eventCount } = readHistory(history);
  const checks = activities.filter(({ type }) => type === 'openEnvelopes');
  const began = activities.find(({ type }) => type === 'startGeneration')?.scheduledAt;
  const ended = activities.find(({ type }) => type === 'completeGeneration')?.closedAt;
  if (checks.length !== THRESHOLD || began === undefined || ended === undefined)
    throw new Error('the ceremony did not take its usual course');
  const checkParts = (history.events ?? [])
    .filter((event) => event.workflowExecutionSignaledEventAttributes?.signalName === 'share')
    .map(({ eventTime }) => timestampMs(eventTime) ?? 0)
    .map((at, index): CheckParts => {
      const { scheduledAt = Number.NaN, startedAt = Number.NaN, closedAt = Number.NaN } = checks[index] ?? {};
      return { ordered: scheduledAt - at, taken: startedAt - scheduledAt, checked: closedAt - startedAt };
    });
  return {
    shareCheckedMs: checkParts.map(({ ordered, taken, checked }) => ordered + taken + checked),
    checkParts,
    generationMs: ended - began,
    generationInCallsMs: overlap(
      calls.map(({ at, answeredAt = at }) => [at, answeredAt] as const),
      [began, ended],
    ),
    events: eventCount,
  };
}
