import { z } from 'zod';
import { readinessPoint } from '../../src/contracts/readiness';
import type { ReadinessResult } from '../../src/contracts/readiness';
import type { Look } from './look';
import { within } from './look';
import { codeOf } from './point';

const KEY = 'readiness';
const earlier = z.object({
  runId: z.string(),
  at: z.string(),
  score: z.number(),
  points: z.array(readinessPoint.pick({ id: true, about: true, cluster: true, verdict: true })),
});
/** The check before, as far as it is compared. */
export type Earlier = z.infer<typeof earlier>;

/**
 * What the record has of the last check that ended. A check stands by itself: where that cannot be read there is nothing to
 * compare with.
 */
export async function lastReadiness(look: Look, deployment: string): Promise<Earlier | undefined> {
  const { records, log } = look.dependencies;
  try {
    const { values } = await within(look, () => records.read(deployment));
    return earlier.safeParse(values.get(KEY)).data;
  } catch (error) {
    if (look.signal.aborted) throw error;
    log.warn({ deployment, error: codeOf(error) }, 'the last readiness check cannot be read');
    return undefined;
  }
}

/** Keeps a check for the next one. Where that fails the next one has less to compare, and this one is no worse. */
export async function keepReadiness(look: Look, runId: string, result: ReadinessResult): Promise<void> {
  const { records, log } = look.dependencies;
  const { deployment } = result;
  try {
    const put = { [KEY]: earlier.parse({ ...result, runId }) };
    await within(look, () => records.change(deployment, () => ({ put })));
  } catch (error) {
    if (look.signal.aborted) throw error;
    log.warn({ deployment, error: codeOf(error) }, 'this readiness check cannot be kept');
  }
}
