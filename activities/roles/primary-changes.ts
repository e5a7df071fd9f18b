import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { isRunbookError } from '../../src/errors';
import { RecordTable } from '../record-table';
import type { ActivityDependencies } from '../dependencies';

/** Clients have no primary meanwhile: a write that takes longer continues in the background. */
const NOTE_MS = 1_000;

const primaryChange = z.object({
  runbook: z.string(),
  runId: z.string(),
  cluster: z.string(),
  /** Epoch ms. */
  at: z.number(),
});
/** The last change of a deployment's primary, recorded by the promoting activity. */
export type PrimaryChange = z.infer<typeof primaryChange>;
/** The entry of the record. */
export const primaryChanges = new RecordTable('primary-change', primaryChange);

/** Records that a cluster became primary. If that cannot be written, the promotion is still valid. */
export async function notePrimaryChange(
  { records, log }: Pick<ActivityDependencies, 'records' | 'log'>,
  deployment: string,
  change: PrimaryChange,
): Promise<void> {
  const noting = primaryChanges.put(records, deployment, '', change).catch((error: unknown) => {
    const code = isRunbookError(error) ? error.code : 'INTERNAL';
    log.warn({ deployment, code }, 'the change of the primary was not recorded: no cool-down is counted from it');
  });
  await Promise.race([noting, delay(NOTE_MS, undefined, { ref: false })]);
}

/** @returns `last` is absent if there was no change yet; undefined if the record cannot be read */
export async function lastPrimaryChange(
  { records, log }: Pick<ActivityDependencies, 'records' | 'log'>,
  deployment: string,
): Promise<{ readonly last?: PrimaryChange } | undefined> {
  try {
    return { last: await primaryChanges.get(records, deployment) };
  } catch (error) {
    const code = isRunbookError(error) ? error.code : 'INTERNAL';
    log.warn({ deployment, code }, 'the last change of the primary cannot be read from the record');
    return undefined;
  }
}
