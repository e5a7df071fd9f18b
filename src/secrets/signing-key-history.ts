import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from './errno';
import { formatPublicKey, parsePublicKey } from './signing-keys';
import type { PublicKeyEntry } from './signing-keys';

const FILE = 'signing-keys';

/** Notes with which key this site's workers sign, where it is another one than before. Public halves only. */
export async function noteSigningKey(directory: string, key: PublicKeyEntry, now = new Date()): Promise<void> {
  if ((await usedSigningKeys(directory)).at(-1)?.kid === key.kid) return;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await appendFile(join(directory, FILE), `${now.toISOString()} ${formatPublicKey(key)}\n`, { mode: 0o600 });
}

/** The keys with which this site's workers signed, the newest last. */
export async function usedSigningKeys(directory: string): Promise<readonly PublicKeyEntry[]> {
  try {
    const lines = (await readFile(join(directory, FILE), 'utf8')).split('\n');
    return lines.flatMap((line) => parsePublicKey(line.split(' ')[1] ?? '') ?? []);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}
