import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { z } from 'zod';
import { replaceFile } from './clients-address';

/*
 * A client of the simulated deployment, as a process of its own: it writes all the time, so that the lag is real, and it
 * knows which of its writes were acknowledged, so that a lost one is noticed.
 */

/** What the writer says of itself, in its file. */
export const writerState = z.object({
  state: z.enum(['writing', 'quiet']),
  /** Acknowledged writes. */
  acknowledged: z.number(),
  failed: z.number(),
  /** For each slot, the number that was acknowledged last. */
  slots: z.record(z.string(), z.number()),
  /** Longest time between two acknowledged writes, milliseconds. */
  longestGapMs: z.number(),
});
type WriterState = z.infer<typeof writerState>;

/** Writes go to as many paths, over and over. */
const SLOTS = 100;

/** Path of a slot, with its mount. */
export function slotPath(slot: number | string): string {
  return `secret/orders/${slot}`;
}

const PAUSE_MS = 20;
const SAVE_EVERY_MS = 200;

async function main(): Promise<void> {
  const {
    WRITER_ADDRESS: address = '',
    WRITER_TOKEN_FILE: tokenFile = '',
    WRITER_FILE: file = '',
    WRITER_QUIESCE_FILE: quiesceFile = '',
  } = process.env;
  const token = (await readFile(tokenFile, 'utf8')).trim();
  const seen: WriterState = { state: 'writing', acknowledged: 0, failed: 0, slots: {}, longestGapMs: 0 };
  let lastSuccess = Date.now();
  let saved = 0;
  let sequence = 0;
  let running = true;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => (running = false));
  while (running) {
    const state = existsSync(quiesceFile) ? 'quiet' : 'writing';
    if (state === 'writing') {
      sequence += 1;
      if (await write(`${address}/v1/${slotPath(sequence % SLOTS)}`, token, sequence)) {
        const now = Date.now();
        seen.longestGapMs = Math.max(seen.longestGapMs, now - lastSuccess);
        lastSuccess = now;
        seen.acknowledged += 1;
        seen.slots[String(sequence % SLOTS)] = sequence;
      } else {
        seen.failed += 1;
      }
    }
    // The quiesce hook waits for this word: it must stand in the file only when no write is under way.
    if (state !== seen.state || Date.now() - saved > SAVE_EVERY_MS) {
      seen.state = state;
      await replaceFile(file, JSON.stringify(seen));
      saved = Date.now();
    }
    await delay(PAUSE_MS);
  }
  await replaceFile(file, JSON.stringify(seen));
}

async function write(url: string, token: string, sequence: number): Promise<boolean> {
  try {
    const { statusCode, body } = await request(url, {
      method: 'POST',
      headers: { 'x-vault-token': token },
      body: JSON.stringify({ sequence }),
      headersTimeout: 3_000,
    });
    await body.dump();
    return statusCode < 300;
  } catch {
    return false;
  }
}

if (require.main === module) {
  main().catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : 'the writer failed');
    process.exitCode = 1;
  });
}
