import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { isRunbookError } from '../../src/errors';
import type { ActivityDependencies } from '../execution';
import { RecordTable } from '../record-table';

/** Clients have no primary meanwhile: what takes longer goes on by itself. */
const NOTE_MS = 1_000;

const primaryChange = z.object({
  runbook: z.string(),
  runId: z.string(),
  cluster: z.string(),
  /** Epoch ms. */
  at: z.number(),
});
/** The last change of the primary of a deployment, as the activity that promoted noted it. */
export type PrimaryChange = z.infer<typeof primaryChange>;
const lastChange = new RecordTable('primary-change', primaryChange);

/** Notes in the record that a cluster became primary. Where that cannot be written, the promotion stands all the same. */
export async function notePrimaryChange(
  { records, log }: Pick<ActivityDependencies, 'records' | 'log'>,
  deployment: string,
  change: PrimaryChange,
): Promise<void> {
  const noting = lastChange.put(records, deployment, '', change).catch((error: unknown) => {
    const code = isRunbookError(error) ? error.code : 'INTERNAL';
    log.warn({ deployment, code }, 'the change of the primary was not recorded: no cool-down is counted from it');
  });
  await Promise.race([noting, delay(NOTE_MS, undefined, { ref: false })]);
}

/** @returns nothing in it where there was none yet; undefined where the record does not tell */
export async function lastPrimaryChange(
  { records, log }: Pick<ActivityDependencies, 'records' | 'log'>,
  deployment: string,
): Promise<{ readonly last?: PrimaryChange } | undefined> {
  try {
    const last = await lastChange.get(records, deployment);
    return last === undefined ? {} : { last };
  } catch (error) {
    log.warn(
      { deployment, code: isRunbookError(error) ? error.code : 'INTERNAL' },
      'the last change of the primary cannot be read from the record',
    );
    return undefined;
  }
}
