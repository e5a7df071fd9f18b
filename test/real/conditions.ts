import { setTimeout as delay } from 'node:timers/promises';

/** A bound only: a node that takes part again after a restart needs its time on a loaded machine. */
const LONGEST_MS = 120_000;
const LOOK_EVERY_MS = 50;

/** Waits for a condition; gives what is neither `undefined` nor `false`. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  for (const deadline = Date.now() + LONGEST_MS; Date.now() < deadline; await delay(LOOK_EVERY_MS)) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
  }
  throw new Error(`not seen within ${LONGEST_MS / 1000} s: ${what}`);
}
